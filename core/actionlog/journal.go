package actionlog

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"gurtos/core/durable"
)

const (
	journalName  = "log.commit"
	journalSize  = 1 << 20 // by default
	journalBlock = 4096    // a record begins at a multiple of it, so that none is torn with the next
	journalHead  = 128     // bytes before a record's lines
	journalMagic = "gurtlog1"

	// maxJournaled is how many bytes of lines go through the journal at once. More
	// are as quick in the log itself.
	maxJournaled = 128 << 10
)

// journal is log.commit: the last writes to the log once more, in a file of fixed
// size. To sync the log its new length has to be synced too, which costs the file
// system a journal write of its own; to sync this one takes the bytes alone. So a
// write is durable with its record here, and the log itself is synced each time
// that this file is full.
//
// Each record has the place of the log's end behind it. So the journal also
// remembers where the log ended, durably at each write: lines that are cut off its
// end are missed, and what a power cut tore is told from what was damaged.
//
// A record is a header of 128 bytes (magic, CRC-32C of what follows, length of the
// lines, round, number in the round, where the lines begin in the log, seq and hash
// of the last, boot) and the lines. Records of a round lie one behind the other,
// from the beginning of the file; a new round begins once the log is synced.
type journal struct {
	file  durable.File
	size  int64
	boot  [16]byte
	round uint64
	n     uint64
	pos   int64
	buf   []byte
	mark  Mark // of the last record
}

// record is a record as it was read.
type record struct {
	round, n uint64
	boot     [16]byte
	off      int64 // where lines begin in the log
	lines    []byte
	mark     Mark
}

// recalled is what a journal holds.
type recalled struct {
	records []record // of the last round, in order
	head    Mark     // where the log ended, Seq 0 when that isn't known
	round   uint64
	sameRun bool // it was written since the machine was switched on
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func bootID(fsys durable.FS) (id [16]byte) {
	sum := sha256.Sum256([]byte(fsys.Boot()))
	copy(id[:], sum[:])
	return id
}

// recall reads the journal in dir. One that is missing or spoiled holds nothing.
func recall(fsys durable.FS, dir string) (recalled, error) {
	var r recalled
	b, err := durable.ReadFile(fsys, filepath.Join(dir, journalName))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	if len(b) >= 8 && bytes.HasPrefix(b, []byte(journalMagic[:7])) && b[7] > journalMagic[7] {
		return r, fmt.Errorf("%s has format %c, this build knows %c; a newer GurtOS wrote it", journalName, b[7], journalMagic[7])
	}
	var last record
	for pos := 0; pos+journalHead <= len(b); {
		rec, size, ok := parseRecord(b[pos:])
		if !ok {
			pos += journalBlock
			continue
		}
		if rec.round > last.round || rec.round == last.round && rec.n >= last.n {
			last = rec
		}
		if n := len(r.records); n == 0 && pos == 0 || n > 0 && rec.round == r.records[0].round && rec.n == uint64(n) {
			r.records = append(r.records, rec)
		}
		pos += size
	}
	// Without the first record of the last round the log had been synced behind it.
	if len(r.records) > 0 && r.records[0].round != last.round {
		r.records = nil
	}
	r.head, r.round, r.sameRun = last.mark, last.round, last.boot == bootID(fsys)
	return r, nil
}

func parseRecord(b []byte) (r record, size int, ok bool) {
	if !bytes.HasPrefix(b, []byte(journalMagic)) {
		return r, 0, false
	}
	n := int(binary.LittleEndian.Uint32(b[12:]))
	if n > len(b)-journalHead || crc32.Checksum(b[12:journalHead+n], castagnoli) != binary.LittleEndian.Uint32(b[8:]) {
		return r, 0, false
	}
	r.round = binary.LittleEndian.Uint64(b[16:])
	r.n = binary.LittleEndian.Uint64(b[24:])
	r.off = int64(binary.LittleEndian.Uint64(b[32:]))
	r.mark.Seq = int64(binary.LittleEndian.Uint64(b[40:]))
	r.mark.Hash = hex.EncodeToString(b[48:80])
	r.mark.End = r.off + int64(n)
	copy(r.boot[:], b[80:96])
	r.lines = b[journalHead : journalHead+n]
	return r, roundUp(journalHead + n), true
}

func roundUp(n int) int { return (n + journalBlock - 1) / journalBlock * journalBlock }

// openJournal opens the journal or makes it, with all its blocks, behind the last
// round.
func openJournal(fsys durable.FS, dir string, size int64, round uint64) (*journal, error) {
	f, err := fsys.Open(filepath.Join(dir, journalName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	j := &journal{file: f, size: size, boot: bootID(fsys), round: round}
	info, err := f.Stat()
	if err == nil && info.Size() != size {
		// Written, not only allocated: else each first use of a block would change
		// the file's map of blocks, and that costs what this file is to spare. Synced
		// with the first record.
		err = f.Truncate(size)
		if have := info.Size(); err == nil && have < size {
			_, err = f.WriteAt(make([]byte, size-have), have)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return j, nil
}

// turn starts a round, once the log is durable up to m. Its first record is synced
// before there is a second, so a round without it is an old one.
func (j *journal) turn(m Mark) error {
	j.round, j.n, j.pos = j.round+1, 0, 0
	if err := j.write(nil, m); err != nil {
		return err
	}
	return j.file.Datasync()
}

// commit makes lines durable that were just written to log, up to m.
func (j *journal) commit(log durable.File, lines []byte, m Mark) error {
	if j.n > 0 && len(lines) <= maxJournaled && j.pos+int64(roundUp(journalHead+len(lines))) <= j.size {
		if err := j.write(lines, m); err != nil {
			return err
		}
		return j.file.Datasync()
	}
	if err := log.Datasync(); err != nil {
		return err
	}
	return j.turn(m)
}

// write puts a record behind the last.
func (j *journal) write(lines []byte, m Mark) error {
	size := roundUp(journalHead + len(lines))
	if cap(j.buf) < size {
		j.buf = make([]byte, size)
	}
	b := j.buf[:size]
	clear(b[:journalHead])
	copy(b, journalMagic)
	binary.LittleEndian.PutUint32(b[12:], uint32(len(lines)))
	binary.LittleEndian.PutUint64(b[16:], j.round)
	binary.LittleEndian.PutUint64(b[24:], j.n)
	binary.LittleEndian.PutUint64(b[32:], uint64(m.End)-uint64(len(lines)))
	binary.LittleEndian.PutUint64(b[40:], uint64(m.Seq))
	if _, err := hex.Decode(b[48:80], []byte(m.Hash)); err != nil {
		return err
	}
	copy(b[80:96], j.boot[:])
	clear(b[journalHead+copy(b[journalHead:], lines):])
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b[12:journalHead+len(lines)], castagnoli))
	if _, err := j.file.WriteAt(b, j.pos); err != nil {
		return err
	}
	j.n, j.pos, j.mark = j.n+1, j.pos+int64(size), m
	return nil
}

// overlay is the log with the lines of the journal where they belong, when the log
// lost them with the power. Else it is the log.
func (r recalled) overlay(log io.ReaderAt, size int64) (io.ReaderAt, int64) {
	if r.sameRun || len(r.records) == 0 {
		// The kernel still has what was written: if the log is different, it was
		// changed.
		return log, size
	}
	o := &overlay{log: log, size: size}
	for _, rec := range r.records {
		if len(rec.lines) == 0 {
			continue
		}
		if o.lines == nil {
			o.off = rec.off
		}
		if rec.off != o.off+int64(len(o.lines)) {
			return log, size
		}
		o.lines = append(o.lines, rec.lines...)
	}
	if len(o.lines) == 0 || o.off > size || !o.belongs() {
		return log, size
	}
	return o, max(size, o.off+int64(len(o.lines)))
}

// overlay reads lines at off, and around them the log.
type overlay struct {
	log   io.ReaderAt
	size  int64
	off   int64
	lines []byte
}

// belongs says whether the lines are the continuation of what the log has before.
func (o *overlay) belongs() bool {
	first, _, _ := bytes.Cut(o.lines, []byte("\n"))
	_, prev, ok := frame(first)
	if !ok {
		return false
	}
	for back := int64(4096); ; back *= 4 {
		from := max(0, o.off-back)
		b := make([]byte, o.off-from)
		if _, err := o.log.ReadAt(b, from); err != nil {
			return false
		}
		b, ends := bytes.CutSuffix(b, []byte("\n"))
		if !ends {
			return false
		}
		start := bytes.LastIndexByte(b, '\n') + 1
		if start > 0 || from == 0 {
			return hash(b[start:]) == string(prev)
		}
		if back > 2*maxLine {
			return false
		}
	}
}

// differs says whether the log lacks any of the lines.
func (o *overlay) differs() (bool, error) {
	have := make([]byte, len(o.lines))
	n, err := o.log.ReadAt(have, o.off)
	if err == io.EOF {
		err = nil
	}
	return !bytes.Equal(have[:n], o.lines), err
}

func (o *overlay) ReadAt(p []byte, off int64) (int, error) {
	end := o.off + int64(len(o.lines))
	switch {
	case off >= o.off && off < end:
		n := copy(p, o.lines[off-o.off:])
		if n < len(p) {
			more, err := o.ReadAt(p[n:], end)
			return n + more, err
		}
		return n, nil
	case off < o.off && off+int64(len(p)) > o.off:
		n, err := o.log.ReadAt(p[:o.off-off], off)
		if err != nil {
			return n, err
		}
		more, err := o.ReadAt(p[n:], o.off)
		return n + more, err
	}
	return o.log.ReadAt(p, off)
}
