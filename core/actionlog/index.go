package actionlog

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"gurtos/core/durable"
)

const (
	indexName  = "log.index"
	indexEvery = 256 // lines from one entry to the next
	indexSize  = 64  // bytes of an entry, and of the header
	indexMagic = "gurtos log index 1: where each 256th line begins\n"
)

// index is log.index: where in the log every 256th line begins. It is a cache:
// never synced, and each entry is held against the log before it is believed; one
// that is wrong, old or missing costs time and nothing else.
type index struct{ file durable.File }

// indexEntry says where line seq begins; seq-1 is a multiple of indexEvery.
type indexEntry struct {
	seq  int64
	off  int64
	prev string // hash of the line before
}

// openIndex opens the index or makes it. Without one everything works, slower; so
// an error is none.
func openIndex(fsys durable.FS, dir string) *index {
	f, err := fsys.Open(filepath.Join(dir, indexName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return &index{}
	}
	x := &index{f}
	header := make([]byte, indexSize)
	copy(header, indexMagic)
	have := make([]byte, indexSize)
	if _, err := f.ReadAt(have, 0); err != nil || !bytes.Equal(have, header) {
		f.Truncate(0)
		f.WriteAt(header, 0)
	}
	return x
}

func (x *index) close() {
	if x.file != nil {
		x.file.Close()
	}
}

// last is the seq of the last entry, 1 when there is none.
func (x *index) last() int64 {
	if x.file == nil {
		return 1
	}
	info, err := x.file.Stat()
	if err != nil {
		return 1
	}
	return max(0, info.Size()/indexSize-1)*indexEvery + 1
}

// add writes an entry.
func (x *index) add(e indexEntry) {
	if x.file == nil {
		return
	}
	b := make([]byte, indexSize)
	binary.LittleEndian.PutUint64(b, uint64(e.seq))
	binary.LittleEndian.PutUint64(b[8:], uint64(e.off))
	hex.Decode(b[16:48], []byte(e.prev))
	binary.LittleEndian.PutUint32(b[48:], crc32.Checksum(b[:48], castagnoli))
	x.file.WriteAt(b, (e.seq-1)/indexEvery*indexSize)
}

// drop forgets all entries.
func (x *index) drop() {
	if x.file != nil {
		x.file.Truncate(indexSize)
	}
}

// find is the mark of the last line that an entry names whose next line is at most
// seq and begins at most at off. Every entry it uses is held against the log.
func (x *index) find(log io.ReaderAt, end, seq, off int64) Mark {
	if x.file == nil {
		return Mark{}
	}
	seq = min(seq, x.last())
	for i := (seq - 1) / indexEvery; i > 0; i-- {
		e, ok := x.read(i)
		if ok && e.off <= off && e.off < end && e.holds(log, end) {
			return Mark{Seq: e.seq - 1, Hash: e.prev, End: e.off}
		}
	}
	return Mark{}
}

func (x *index) read(i int64) (indexEntry, bool) {
	b := make([]byte, indexSize)
	if _, err := x.file.ReadAt(b, i*indexSize); err != nil {
		return indexEntry{}, false
	}
	e := indexEntry{
		seq:  int64(binary.LittleEndian.Uint64(b)),
		off:  int64(binary.LittleEndian.Uint64(b[8:])),
		prev: hex.EncodeToString(b[16:48]),
	}
	return e, crc32.Checksum(b[:48], castagnoli) == binary.LittleEndian.Uint32(b[48:]) &&
		e.seq == i*indexEvery+1 && e.off > 0
}

// holds says whether the log has that line there.
func (e indexEntry) holds(log io.ReaderAt, end int64) bool {
	in := newLines(log, e.off-1, end)
	if empty, err := in.next(); err != nil || len(empty) > 0 {
		return false
	}
	line, err := in.next()
	if err != nil {
		return false
	}
	seq, prev, ok := frame(line)
	return ok && seq == e.seq && string(prev) == e.prev
}
