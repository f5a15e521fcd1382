// Package disk writes image files: a disk with a GPT whose partitions are filled from files, and the FAT partition that firmware starts from.
// Holes stay holes. It never opens a real disk.
package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/diskfs/go-diskfs/partition/gpt"
	"golang.org/x/sys/unix"

	"gurtos/image/layout"
)

// Partition is one to be made.
type Partition struct {
	Name string
	Type string // GUID
	ID   string // unique GUID
	Size int64  // bytes, a multiple of layout.Align
	From string // file with its content, or "" for an empty one
}

const sector = 512

// Write makes the image file name, with the partitions in order. id is the disk's GUID.
func Write(name, id string, parts []Partition) (err error) {
	size := int64(layout.Align)
	table := &gpt.Table{GUID: strings.ToUpper(id), ProtectiveMBR: true, LogicalSectorSize: sector, PhysicalSectorSize: sector}
	starts := make([]int64, len(parts))
	for i, p := range parts {
		if p.Size%layout.Align != 0 {
			return fmt.Errorf("partition %s: %d bytes are no multiple of %d", p.Name, p.Size, layout.Align)
		}
		starts[i] = size
		size += p.Size
		table.Partitions = append(table.Partitions, &gpt.Partition{
			Index: i + 1, Start: uint64(starts[i] / sector), End: uint64(size/sector) - 1, Size: uint64(p.Size),
			Type: gpt.Type(strings.ToUpper(p.Type)), GUID: strings.ToUpper(p.ID), Name: p.Name,
		})
	}
	size += layout.Align // the second table
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Truncate(size); err != nil {
		return err
	}
	for i, p := range parts {
		if p.From == "" {
			continue
		}
		if err := fill(f, starts[i], p); err != nil {
			return fmt.Errorf("partition %s: %w", p.Name, err)
		}
	}
	if err := table.Write(f, size); err != nil {
		return fmt.Errorf("writing the partition table: %w", err)
	}
	return nil
}

// fill copies what is no hole in p.From to its place in f.
func fill(f *os.File, start int64, p Partition) error {
	in, err := os.Open(p.From)
	if err != nil {
		return err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return err
	}
	if st.Size() > p.Size {
		return fmt.Errorf("%s has %d bytes, and there is room for %d", filepath.Base(p.From), st.Size(), p.Size)
	}
	for at := int64(0); ; {
		at, err = unix.Seek(int(in.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			return nil // only a hole from here on
		}
		if err != nil {
			return fmt.Errorf("looking for data: %w", err)
		}
		end, err := unix.Seek(int(in.Fd()), at, unix.SEEK_HOLE)
		if err != nil {
			return fmt.Errorf("looking for a hole: %w", err)
		}
		if _, err := in.Seek(at, io.SeekStart); err != nil {
			return err
		}
		if _, err := f.Seek(start+at, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(f, in, end-at); err != nil {
			return err
		}
		at = end
	}
}

// ESP makes the FAT file system name, of size bytes, with the loader at the place where firmware looks for it. The same loader and time give the
// same bytes.
func ESP(ctx context.Context, name string, size int64, loader string, t time.Time, log io.Writer) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		return err
	}
	epoch := strconv.FormatInt(t.Unix(), 10)
	steps := [][]string{{"mkfs.fat", "-F", "32", "-n", layout.LabelESP, "-i", fmt.Sprintf("%08x", uint32(t.Unix())), "--invariant", name}}
	for i, c := range layout.ESPLoader {
		if c == '/' {
			steps = append(steps, []string{"mmd", "-i", name, "::" + layout.ESPLoader[:i]})
		}
	}
	steps = append(steps, []string{"mcopy", "-m", "-i", name, loader, "::" + path.Clean(layout.ESPLoader)})
	for _, s := range steps {
		cmd := exec.CommandContext(ctx, s[0], s[1:]...)
		cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+epoch, "TZ=UTC", "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s: %w", s[0], err)
		}
	}
	return nil
}
