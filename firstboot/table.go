package firstboot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"gurtos/boot/disk"
	"gurtos/image/layout"
)

// table is the disk's GPT, the same bytes from the same claim: one data
// partition from the first MiB to the last whole one.
func (c claim) table(d disk.Disk) *gpt.Table {
	block := int64(d.Block)
	end := (c.Size - edge) / layout.Align * layout.Align
	return &gpt.Table{
		LogicalSectorSize:  d.Block,
		PhysicalSectorSize: d.Block,
		GUID:               c.Disk,
		ProtectiveMBR:      true,
		Partitions: []*gpt.Partition{{
			Index: 1,
			Start: uint64(layout.Align / block),
			End:   uint64(end/block) - 1,
			Type:  gpt.Type(layout.TypeData),
			GUID:  c.Part,
			Name:  layout.NameData,
		}},
	}
}

// tableImage is what writing the table puts on the disk.
func (c claim) tableImage(d disk.Disk) (*memory, error) {
	m := &memory{size: c.Size, blocks: map[int64][]byte{}}
	if err := c.table(d).Write(m, c.Size); err != nil {
		return nil, err
	}
	return m, nil
}

// writeTable writes the table, backup first, and has the kernel read it.
func (c claim) writeTable(f *os.File, d disk.Disk) error {
	if err := c.table(d).Write(f, c.Size); err != nil {
		return fmt.Errorf("write the partition table of %s: %w", d, err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("write the partition table of %s: %w", d, err)
	}
	return reread(f)
}

// reread has the kernel read a disk's table again; an image file has no kernel
// that needs to.
func reread(f *os.File) error {
	fi, err := f.Stat()
	if err != nil || fi.Mode()&os.ModeDevice == 0 {
		return err
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.BLKRRPART, 0)
	if errno != 0 && errno != unix.EINVAL { // EINVAL: a loop device without partitions
		return fmt.Errorf("have the kernel read the partition table: %w", errno)
	}
	return nil
}

// A superblock is the little of an XFS superblock that is of use here.
type superblock struct {
	uuid string
	size int64 // bytes that the file system uses
}

var errNoXFS = errors.New("no XFS file system")

func readSuperblock(f io.ReaderAt, off int64) (superblock, error) {
	b := make([]byte, 512)
	if _, err := f.ReadAt(b, off); err != nil {
		return superblock{}, err
	}
	if string(b[:4]) != "XFSB" {
		return superblock{}, errNoXFS
	}
	id, err := uuid.FromBytes(b[32:48])
	return superblock{
		uuid: id.String(),
		size: int64(binary.BigEndian.Uint32(b[4:])) * int64(binary.BigEndian.Uint64(b[8:])),
	}, err
}

// memory is a disk of which only what is written is kept, in 512-byte blocks.
type memory struct {
	size   int64
	blocks map[int64][]byte
}

func (m *memory) block(off int64) []byte {
	b := m.blocks[off/512]
	if b == nil {
		b = make([]byte, 512)
		m.blocks[off/512] = b
	}
	return b
}

func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	for i := range p {
		at := off + int64(i)
		m.block(at)[at%512] = p[i]
	}
	return len(p), nil
}

func (m *memory) ReadAt(p []byte, off int64) (int, error) {
	for i := range p {
		at := off + int64(i)
		p[i] = m.block(at)[at%512]
	}
	return len(p), nil
}

// What gpt.Table.Write asks of a file beyond WriteAt.
func (m *memory) Seek(int64, int) (int64, error) { return m.size, nil }
func (m *memory) Read([]byte) (int, error)       { return 0, io.EOF }
func (m *memory) Close() error                   { return nil }
func (m *memory) Stat() (fs.FileInfo, error)     { return memoryInfo{m.size}, nil }

type memoryInfo struct{ size int64 }

func (i memoryInfo) Name() string     { return "disk" }
func (i memoryInfo) Size() int64      { return i.size }
func (memoryInfo) Mode() fs.FileMode  { return 0o600 }
func (memoryInfo) ModTime() time.Time { return time.Time{} }
func (memoryInfo) IsDir() bool        { return false }
func (memoryInfo) Sys() any           { return nil }
