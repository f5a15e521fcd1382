package actionlog

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

const logName = "log.jsonl"

// Recovery is what Open found and repaired.
type Recovery struct {
	// Restored is how many lines the journal was asked for, since the power had gone
	// before the log itself had them all. Nothing of them was lost.
	Restored int64
	Cut      *Cut  // a tail that was cut off, nil for none
	Gaps     []Gap // damaged lines that were cut out, with Options.Quarantine
}

// DamageError says that a line is not what was written.
type DamageError struct {
	First, Last int64  // lines, as far as that is known
	Kind        string // changed, removed, reordered, inserted, damaged, or gone: all of them, though they are remembered
}

func (e *DamageError) Error() string {
	switch {
	case e.Kind == gone:
		return fmt.Sprintf("%s is empty or gone, and %s remembers %d lines", logName, journalName, e.Last)
	case e.Kind == inserted:
		return fmt.Sprintf("something was inserted before line %d of %s", e.First, logName)
	case e.Last <= e.First && e.Kind == removed:
		return fmt.Sprintf("line %d of %s was removed", e.First, logName)
	case e.Last <= e.First:
		return fmt.Sprintf("line %d of %s is %s", e.First, logName, e.Kind)
	case e.Kind == removed:
		return fmt.Sprintf("lines %d to %d of %s were removed", e.First, e.Last, logName)
	}
	return fmt.Sprintf("lines %d to %d of %s are %s", e.First, e.Last, logName, e.Kind)
}

func (d damage) err() *DamageError {
	return &DamageError{First: d.first, Last: d.last, Kind: d.kind}
}

// open makes l ready to write: files open, head at the last whole line. The notes
// say what was repaired.
func (l *Log) open() (notes []Event, err error) {
	name := filepath.Join(l.dir, logName)
	was, err := recall(l.fs, l.dir)
	if err != nil {
		return nil, err
	}
	if l.file, err = l.fs.Open(name, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if err := l.file.Lock(); err != nil {
		return nil, err
	}
	l.reserve = openReserve(l.fs, l.dir, l.opt.Reserve)
	l.index = openIndex(l.fs, l.dir)
	if err := l.restore(was); err != nil {
		return nil, err
	}
	s, err := l.survey(was.head)
	if err != nil {
		return nil, err
	}
	if notes, err = l.repair(s); err != nil {
		return nil, err
	}
	l.clock.lastAt(s.at)
	if l.journal, err = openJournal(l.fs, l.dir, l.opt.journal, was.round); err != nil {
		return nil, err
	}
	// For all names that were made or changed, now or before a crash.
	if err := l.fs.SyncDir(l.dir); err != nil || s.lost > 0 {
		// What is remembered holds until the note of it is on the disk: else a crash
		// now would hide that lines are gone.
		return notes, err
	}
	return notes, l.journal.turn(l.head)
}

// restore puts back what the log lost with the power and the journal has.
func (l *Log) restore(was recalled) error {
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	log, _ := was.overlay(l.file, info.Size())
	o, ok := log.(*overlay)
	if !ok {
		return nil
	}
	lacks, err := o.differs()
	if err != nil || !lacks {
		return err
	}
	if _, err := l.file.WriteAt(o.lines, o.off); err != nil {
		return err
	}
	l.recovered.Restored = int64(bytes.Count(o.lines, []byte("\n")))
	return nil // synced with the rest
}

// survey is what a look at the log found.
type survey struct {
	size     int64
	head     Mark // remembered
	good     Mark // the last whole line
	from     int64
	before   Mark // the line before it
	at       string
	gaps     []damage
	tail     *damage
	lost     int64 // lines that the remembered head has and the log hasn't
	anew     bool  // those lines are there, but not what they were
	explains bool  // a note says why the log isn't what is remembered

	unvouched []Gap // of notes in the place of lines, for which no later line vouches
}

// survey looks at the end of the log, or at all of it when damage may be repaired.
func (l *Log) survey(head Mark) (*survey, error) {
	info, err := l.file.Stat()
	if err != nil {
		return nil, err
	}
	s := &survey{size: info.Size(), head: head}
	if err := checkFormat(l.file, s.size); err != nil {
		return nil, err
	}
	if !l.opt.Quarantine {
		l.checked = l.index.find(l.file, s.size, 1<<62, max(0, s.size-l.opt.Upfront))
	}
	headHash := "" // what the log has at the remembered line
	var last []byte
	s.good = l.checked
	found, good, err := examine(l.file, l.checked, s.size, head, false, func(line []byte, from int64, m Mark) error {
		s.before, s.good, s.from = s.good, m, from
		if m.Seq == head.Seq {
			headHash = m.Hash
			if stands(line, head.Hash) {
				headHash = head.Hash
			}
		}
		s.explained(line)
		if l.opt.Quarantine {
			s.vouch(line)
		}
		if m.Seq%indexEvery == 0 {
			l.index.add(indexEntry{seq: m.Seq + 1, off: m.End, prev: m.Hash})
		}
		if s.size-m.End < maxLine*2 {
			last = append(last[:0], line...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.good = good
	if ev, err := Decode(last); err == nil {
		s.at = ev.At
	}
	if n := len(found); n > 0 && found[n-1].tail {
		s.tail, found = &found[n-1], found[:n-1]
	}
	s.gaps = found
	return s, s.judge(l, headHash)
}

// explained notes when a line is a note about the remembered head.
func (s *survey) explained(line []byte) {
	if s.head.Seq == 0 || !isNote(line, noteCut) {
		return
	}
	if n, err := readNote(line); err == nil && n.Cut != nil && n.Cut.Head == s.head {
		s.explains = true
	}
}

// vouch keeps the gaps that a line stands for, or takes out those that it vouches for.
func (s *survey) vouch(line []byte) {
	stands := isNote(line, noteQuarantined)
	if !stands && !isNote(line, noteQuarantine) {
		return
	}
	n, err := readNote(line)
	if err != nil {
		return
	}
	if stands && n.Gap != nil && !slices.Contains(s.unvouched, *n.Gap) {
		s.unvouched = append(s.unvouched, *n.Gap)
	}
	s.unvouched = slices.DeleteFunc(s.unvouched, func(g Gap) bool { return slices.Contains(n.Gaps, g) })
}

// judge tells what a power cut tore from damage. Torn is only what lies behind
// the remembered head and within one write of the end.
func (s *survey) judge(l *Log, headHash string) error {
	if len(s.gaps) > 0 {
		d := s.gaps[0]
		if s.head.Seq > 0 && d.first > s.head.Seq && s.size-d.from <= maxPending+maxSubmit {
			s.good = Mark{Seq: d.first - 1, Hash: d.before, End: d.from}
			s.tail, s.gaps = &damage{first: d.first, from: d.from, to: s.size, before: d.before, kind: garbled, tail: true}, nil
		} else if !l.opt.Quarantine {
			return d.err()
		}
	}
	if s.good.Seq == 0 && s.head.Seq > 0 && !l.opt.Quarantine {
		return &DamageError{First: 1, Last: s.head.Seq, Kind: gone}
	}
	if t := s.tail; t != nil && !l.opt.Quarantine && (t.whole && t.first <= s.head.Seq || t.fits) {
		return t.err()
	}
	switch h := s.head; {
	case h.Seq == 0 || s.explains:
	case h.Seq > s.good.Seq:
		s.lost = h.Seq - s.good.Seq
	case h.Seq <= l.checked.Seq:
		// Long before the part that is looked at; the rest is checked later.
		m, err := l.lineMark(h.Seq)
		if err != nil {
			return err
		}
		headHash = m.Hash
		fallthrough
	default:
		if headHash != h.Hash && !s.within(h.Seq) {
			d := damage{first: h.Seq, last: h.Seq, kind: changed, hash: h.Hash}
			if !l.opt.Quarantine {
				return d.err()
			}
			if h.Seq == s.good.Seq && s.tail == nil {
				d.from, d.to, d.before = s.from, s.good.End, s.before.Hash
				s.gaps = append(s.gaps, d)
				return nil
			}
			// From somewhere before on the log was written anew; there is nothing to
			// put back.
			s.anew, s.lost = true, s.good.Seq-h.Seq+1
		}
	}
	return nil
}

// within says whether a line is in a gap that is about to be cut out.
func (s *survey) within(seq int64) bool {
	for _, d := range s.gaps {
		if d.first <= seq && seq <= d.last {
			return true
		}
	}
	return false
}

// checkFormat reads line 1. A damaged one is left to what follows.
func checkFormat(log io.ReaderAt, size int64) error {
	line, err := newLines(log, 0, size).next()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	if seq, _, ok := frame(line); !ok || seq != 1 || !json.Valid(line) {
		return nil
	}
	n, err := readNote(line)
	if (err != nil || n.Format < format) && disowned(log, size, hash(line)) {
		return nil
	}
	switch {
	case err != nil || n.Format == 0:
		return errors.New("line 1 doesn't say which format the log has; this is no log of GurtOS")
	case n.Format > format:
		return fmt.Errorf("the log has format %d, this build knows %d; a newer GurtOS wrote it", n.Format, format)
	}
	return nil
}

// disowned says whether line 2 has another hash of line 1 than that has: then line 1 is
// damaged, and says nothing about the format.
func disowned(log io.ReaderAt, size int64, first string) bool {
	in := newLines(log, 0, size)
	if _, err := in.next(); err != nil {
		return false
	}
	line, err := in.next()
	if err != nil {
		return false
	}
	seq, prev, ok := frame(line)
	return ok && seq == 2 && string(prev) != first
}

// formatNote is line 1 of a new log.
func formatNote() note {
	id := make([]byte, 16)
	rand.Read(id) // never fails
	return note{What: noteFormat, Format: format, ID: hex.EncodeToString(id)}
}

// repair cuts what was surveyed, and gives the notes to be logged.
func (l *Log) repair(s *survey) ([]Event, error) {
	var notes []Event
	if len(s.gaps) > 0 {
		if err := l.quarantine(s); err != nil {
			return nil, err
		}
	}
	if s.tail != nil || s.lost > 0 {
		cut, err := l.cut(s)
		if err != nil {
			return nil, err
		}
		if cut.Line > 1 || cut.Lost > 0 {
			notes = append(notes, note{What: noteCut, Cut: cut}.event())
		}
		l.recovered.Cut = cut
	}
	l.head = s.good
	if l.head.Seq > 0 {
		// A crash may have come after a write and before its sync.
		return notes, l.file.Sync()
	}
	first := formatNote().event()
	first.Seq, first.At = 1, l.clock.text()
	line, err := Encode(&first)
	if err != nil {
		return nil, err
	}
	if _, err := l.file.WriteAt(append(line, '\n'), 0); err != nil {
		return nil, err
	}
	l.head = Mark{Seq: 1, Hash: hash(line), End: int64(len(line)) + 1}
	return notes, l.file.Sync()
}

// cut takes what is behind the last whole line off the log and keeps it in a file
// beside it.
func (l *Log) cut(s *survey) (*Cut, error) {
	c := &Cut{Line: s.good.Seq + 1, Bytes: s.size - s.good.End, Lost: s.lost, Head: s.head}
	if s.anew {
		c.Line = s.head.Seq
	}
	if c.Bytes == 0 {
		return c, nil
	}
	var err error
	if c.File, c.SHA256, err = l.keepAside("cut", s.good.Seq+1, s.good.End, s.size); err != nil {
		return nil, err
	}
	// Durable with the note that follows; until then it would be cut again.
	return c, l.file.Truncate(s.good.End)
}

// keepAside copies a range of the log into a file beside it.
func (l *Log) keepAside(why string, line, from, to int64) (name, sum string, err error) {
	if sum, err = rangeHash(l.file, from, to); err != nil {
		return "", "", err
	}
	name = fmt.Sprintf("log.%s-%d-%s", why, line, sum[:8])
	err = l.copyAside(name, from, to)
	if isFull(err) && l.reserve.release() {
		err = l.copyAside(name, from, to)
	}
	return name, sum, err
}

func (l *Log) copyAside(name string, from, to int64) error {
	f, err := l.fs.Open(filepath.Join(l.dir, name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := io.Copy(io.NewOffsetWriter(f, 0), io.NewSectionReader(l.file, from, to-from)); err != nil {
		return err
	}
	return f.Sync()
}

// check looks at the lines that Open left for later.
func (l *Log) check(ctx context.Context) {
	if l.checked.Seq == 0 {
		return
	}
	end := l.checked
	found, good, err := examine(l.file, Mark{}, end.End, end, false, func([]byte, int64, Mark) error {
		return ctx.Err()
	})
	switch {
	case ctx.Err() != nil:
		return
	case err == nil && len(found) > 0:
		err = found[0].err()
	case err == nil && good != end:
		err = &DamageError{First: min(good.Seq, end.Seq), Last: end.Seq, Kind: changed}
	}
	if err == nil {
		return
	}
	l.mu.Lock()
	l.fail(fmt.Errorf("the action log is damaged: %w", err))
	l.mu.Unlock()
	if l.opt.Damaged != nil {
		l.opt.Damaged(err)
	}
}
