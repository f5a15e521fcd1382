package actionlog

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"gurtos/core/durable"
)

// quarantine writes the log anew without what is damaged. In the place of each
// lost line stands a note, so that a line's number stays its seq; the last line is
// a note that names all gaps, so that the chain vouches for them. All of it takes
// effect with one rename.
func (l *Log) quarantine(s *survey) error {
	end := s.good.End
	gaps := make([]Gap, 0, len(s.gaps))
	for _, d := range s.gaps {
		g := Gap{First: d.first, Last: d.last, Bytes: d.to - d.from, Hash: d.hash}
		var err error
		if g.Bytes > 0 {
			g.File, g.SHA256, err = l.keepAside("damaged", d.first, d.from, d.to)
		} else {
			g.SHA256 = hash(nil)
		}
		if err != nil {
			return err
		}
		gaps = append(gaps, g)
	}
	cutOut := gaps
	// A line that vouched for earlier gaps may be among those that are cut out now.
	for _, g := range s.unvouched {
		if !slices.Contains(gaps, g) {
			gaps = append(gaps, g)
		}
	}
	name := filepath.Join(l.dir, logName)
	f, m, err := l.rewrite(name+".new", s, gaps)
	if isFull(err) && l.reserve.release() {
		f, m, err = l.rewrite(name+".new", s, gaps)
	}
	if err != nil {
		return fmt.Errorf("write the log without its damaged lines: %w", err)
	}
	if err := f.Lock(); err != nil {
		f.Close()
		return err
	}
	// The kept state was made of the lines that are cut out, too. It goes first, for good:
	// what is folded anew then is what the log still says.
	if err := durable.Remove(l.fs, filepath.Join(l.dir, checkpointName)); err != nil {
		f.Close()
		return err
	}
	if err := l.fs.Rename(name+".new", name); err != nil {
		f.Close()
		return err
	}
	l.file.Close()
	l.file = f
	l.index.drop()
	s.size += m.End - end
	s.good = m
	l.recovered.Gaps = cutOut
	return nil
}

// rewrite writes the log anew into a file of its own, and gives it open, with the mark of
// its last line.
func (l *Log) rewrite(name string, s *survey, gaps []Gap) (durable.File, Mark, error) {
	f, err := l.fs.Open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, Mark{}, err
	}
	end := s.good.End
	w := &rewriter{log: l.file, to: f, at: l.clock.text()}
	prev := s.good.Hash
	for i, d := range s.gaps {
		w.copy(d.from)
		if stand := w.stand(d, gaps[i]); d.to == end {
			prev = stand
		}
	}
	w.copy(end)
	last := note{What: noteQuarantine, Gaps: gaps}.event()
	m := w.line(&last, s.good.Seq+1, prev)
	m.End = w.end
	// What is behind the last whole line goes on being there, for cut.
	if w.err == nil {
		_, w.err = io.Copy(io.NewOffsetWriter(f, w.end), io.NewSectionReader(l.file, end, s.size-end))
	}
	if w.err == nil {
		w.err = f.Sync()
	}
	if w.err != nil {
		f.Close()
		l.fs.Remove(name)
		return nil, Mark{}, w.err
	}
	return f, m, nil
}

// rewriter copies a log with notes in the place of gaps.
type rewriter struct {
	log  io.ReaderAt
	to   durable.File
	from int64 // of log, copied
	end  int64 // of to
	at   string
	err  error
}

// copy takes over what is before upTo.
func (w *rewriter) copy(upTo int64) {
	if w.err != nil {
		return
	}
	n, err := io.Copy(io.NewOffsetWriter(w.to, w.end), io.NewSectionReader(w.log, w.from, upTo-w.from))
	w.end, w.from, w.err = w.end+n, upTo, err
}

// stand writes a note for each line of a gap, passes over what was there and gives
// the hash of the last.
func (w *rewriter) stand(d damage, g Gap) string {
	prev := d.before
	for seq := d.first; seq <= d.last; seq++ {
		n := note{What: noteQuarantined, Gap: &g}
		if seq == 1 {
			first := formatNote()
			n.Format, n.ID = first.Format, first.ID
		}
		ev := n.event()
		prev = w.line(&ev, seq, prev).Hash
	}
	w.from = d.to
	return prev
}

func (w *rewriter) line(ev *Event, seq int64, prev string) Mark {
	ev.Seq, ev.At, ev.Prev = seq, w.at, prev
	line, err := Encode(ev)
	if w.err == nil {
		w.err = err
	}
	if w.err != nil {
		return Mark{}
	}
	_, w.err = w.to.WriteAt(append(line, '\n'), w.end)
	w.end += int64(len(line)) + 1
	return Mark{Seq: seq, Hash: hash(line)}
}

func rangeHash(r io.ReaderAt, from, to int64) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(r, from, to-from)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) }
