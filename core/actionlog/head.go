package actionlog

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"gurtos/core/durable"
)

const headName = "log.head"

// The two places in log.head that take turns, each within one sector.
const (
	headSlot  = 512
	headApart = 4096
)

// memory is log.head: where the log ended, kept apart from it, so that lines cut
// off its end are missed. It is written after the log's own sync, so it never
// claims what the log may not have; and not synced each time, since an old mark
// only makes the search for what a power cut tore begin earlier. The kernel has
// each write of it, so the end of boxd alone loses none.
type memory struct {
	file   durable.File
	turn   int64     // the slot to write next
	mark   Mark      // to be remembered
	dirty  bool      // it is not durable yet
	synced time.Time // when one last was
}

// slot is the contents of a slot.
type slot struct {
	Format int    `json:"format"`
	Mark          // seq, hash, end
	CRC    uint32 `json:"crc"` // of the rest, Castagnoli
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (s slot) sum() uint32 {
	return crc32.Checksum(fmt.Appendf(nil, "%d %d %s %d", s.Format, s.Seq, s.Hash, s.End), castagnoli)
}

// recall reads what log.head in dir remembers: a mark with Seq 0 when that is
// nothing.
func recall(fsys durable.FS, dir string) (Mark, int64, error) {
	f, err := fsys.Open(filepath.Join(dir, headName), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Mark{}, 0, nil
	}
	if err != nil {
		return Mark{}, 0, err
	}
	defer f.Close()
	var best Mark
	turn := int64(0)
	for i := range int64(2) {
		buf := make([]byte, headSlot)
		if _, err := f.ReadAt(buf, i*headApart); err != nil {
			continue // cut short: the other one counts
		}
		var s slot
		if json.Unmarshal(trimSlot(buf), &s) != nil {
			continue
		}
		if s.Format > format {
			return Mark{}, 0, fmt.Errorf("%s has format %d, this build knows %d; a newer GurtOS wrote it", headName, s.Format, format)
		}
		if s.CRC == s.sum() && s.Seq > best.Seq {
			best, turn = s.Mark, 1-i
		}
	}
	return best, turn, nil
}

// trimSlot is the slot's line.
func trimSlot(buf []byte) []byte {
	for i, c := range buf {
		if c == '\n' {
			return buf[:i]
		}
	}
	return nil
}

// openMemory opens log.head, or makes it.
func openMemory(fsys durable.FS, dir string, turn int64) (*memory, error) {
	f, err := fsys.Open(filepath.Join(dir, headName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &memory{file: f, turn: turn}, nil
}

// begin remembers m durably.
func (h *memory) begin(m Mark, now time.Time) error {
	h.mark, h.synced = m, now
	return errors.Join(h.write(m), h.file.Sync())
}

func (h *memory) write(m Mark) error {
	s := slot{Format: format, Mark: m}
	s.CRC = s.sum()
	line, err := json.Marshal(s)
	if err != nil {
		return err
	}
	buf := make([]byte, headSlot)
	buf[copy(buf, line)] = '\n'
	if _, err = h.file.WriteAt(buf, h.turn*headApart); err == nil {
		h.turn = 1 - h.turn
	}
	return err
}

// keep remembers m for as long as the kernel runs. An error is left for close: the
// older mark is as true as before.
func (h *memory) keep(m Mark) {
	h.mark, h.dirty = m, true
	h.write(m)
}

// settle makes the mark durable, some seconds after the last time.
func (h *memory) settle(now time.Time) {
	if !h.dirty || now.Sub(h.synced) < 5*time.Second {
		return
	}
	h.synced = now
	h.dirty = h.file.Datasync() != nil
}

func (h *memory) close() error {
	var err error
	if h.dirty {
		err = errors.Join(h.write(h.mark), h.file.Datasync())
	}
	return errors.Join(err, h.file.Close())
}
