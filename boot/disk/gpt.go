package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/diskfs/go-diskfs/partition/gpt"
)

// ErrNoTable says that a disk has no readable GPT, neither at its start nor at
// its end.
var ErrNoTable = errors.New("no GUID partition table")

// A Part is one partition of a GPT.
type Part struct {
	Disk  Disk
	Index int    // from 1
	Type  string // type GUID, lower case
	GUID  string // unique GUID, lower case
	Name  string
	Start int64 // bytes from the start of the disk
	Size  int64 // bytes
}

// Path is the partition's device node.
func (p Part) Path() string { return p.Disk.PartPath(p.Index) }

// String names the partition to a person.
func (p Part) String() string { return fmt.Sprintf("partition %d of %s", p.Index, p.Disk) }

// Parts reads the disk's partitions, from the second table at its end when the
// first is damaged (recovered is then true).
func (d Disk) Parts() (parts []Part, recovered bool, err error) {
	f, err := os.Open(d.Path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	if err := d.sane(f); err != nil {
		return nil, false, err
	}
	table, err := gpt.Read(f, d.Block, d.Block)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w: %v", d.Name, ErrNoTable, err)
	}
	for _, p := range table.Partitions {
		if p == nil || p.Type == gpt.Unused {
			continue
		}
		parts = append(parts, Part{
			Disk:  d,
			Index: p.Index,
			Type:  strings.ToLower(string(p.Type)),
			GUID:  strings.ToLower(p.GUID),
			Name:  p.Name,
			Start: int64(p.Start) * int64(d.Block),
			Size:  int64(p.End-p.Start+1) * int64(d.Block),
		})
	}
	return parts, table.RecoveredFromBackup, nil
}

// sane looks at the sizes in both GPT headers before the reader believes them:
// it allocates as many entries as a header asks for, and a disk with a forged
// header must not take PID 1's memory.
func (d Disk) sane(f io.ReaderAt) error {
	found := false
	for _, off := range []int64{int64(d.Block), d.Size - int64(d.Block)} {
		var h [92]byte
		if _, err := f.ReadAt(h[:], off); err != nil {
			continue
		}
		if string(h[:8]) != "EFI PART" {
			continue
		}
		count, size := binary.LittleEndian.Uint32(h[80:]), binary.LittleEndian.Uint32(h[84:])
		if count > 1024 || size < 128 || size > 4096 {
			return fmt.Errorf("%s: %w that can be believed: %d entries of %d bytes", d.Name, ErrNoTable, count, size)
		}
		found = true
	}
	if !found {
		return fmt.Errorf("%s: %w", d.Name, ErrNoTable)
	}
	return nil
}

// Find returns the partitions of a type on all disks. Disks that have no table
// or can't be read hold none.
func Find(disks []Disk, typ string) []Part {
	var found []Part
	for _, d := range disks {
		parts, _, err := d.Parts()
		if err != nil {
			continue
		}
		for _, p := range parts {
			if p.Type == strings.ToLower(typ) {
				found = append(found, p)
			}
		}
	}
	return found
}
