package box

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"gurtos/boot/disk"
	"gurtos/image/layout"
	"gurtos/test/boot/nbd"
)

// Partition is the data partition of a data disk: where it begins, and a disk
// of its own with its content.
func Partition(t testing.TB, d *nbd.Disk) (start int64, part *nbd.Disk) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "disk")
	if err := d.Save(file); err != nil {
		t.Fatal(err)
	}
	parts, _, err := disk.Disk{Name: "data", Path: file, Block: nbd.Sector, Size: d.Size()}.Parts()
	if err != nil {
		t.Fatalf("the data disk: %v", err)
	}
	for _, p := range parts {
		if p.Type == layout.TypeData {
			return p.Start, d.Slice(p.Start, p.Size)
		}
	}
	t.Fatalf("the data disk has no data partition: %v", parts)
	return 0, nil
}

// CheckClean fails the test unless the data disk's file system was unmounted in
// order and is sound.
func CheckClean(t testing.TB, d *nbd.Disk) {
	t.Helper()
	_, part := Partition(t, d)
	file := filepath.Join(t.TempDir(), "part")
	if err := part.Save(file); err != nil {
		t.Fatal(err)
	}
	// -n changes nothing; with a journal that has to be replayed it exits with 2.
	if text, err := exec.Command("xfs_repair", "-n", "-f", file).CombinedOutput(); err != nil || bytes.Contains(text, []byte("ALERT")) {
		t.Errorf("the data disk's file system: %v\n%s", err, text)
	}
}

var (
	sizeLine   = regexp.MustCompile(`core\.size = (\d+)`)
	extentLine = regexp.MustCompile(`data offset (\d+) startblock (\d+) \(\d+/\d+\) count (\d+)`)
	blockLine  = regexp.MustCompile(`blocksize = (\d+)`)
)

// DamageTail is Damage of the last n bytes of a file, as far as they are in one block.
func DamageTail(t testing.TB, d *nbd.Disk, path string, n int64) []byte {
	t.Helper()
	return Damage(t, d, path, func(content []byte) (at, bytes int64) {
		size := int64(len(content))
		return size - n, n
	})
}

// Damage overwrites n bytes of a file of the data partition, whose file system must be
// unmounted, from a place on that is chosen by the file's content, and as far as they are
// in the block of the last one. It gives the content before.
func Damage(t testing.TB, d *nbd.Disk, path string, where func(content []byte) (at, n int64)) []byte {
	t.Helper()
	start, part := Partition(t, d)
	file := filepath.Join(t.TempDir(), "part")
	if err := part.Save(file); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("xfs_db", "-r", "-f", "-c", "sb 0", "-c", "print blocksize agblocks agblklog", "-c", "path "+path, "-c", "print core.size", "-c", "bmap", file).CombinedOutput()
	if err != nil {
		t.Fatalf("xfs_db: %v\n%s", err, out)
	}
	number := func(re *regexp.Regexp) int64 {
		m := re.FindSubmatch(out)
		if m == nil {
			t.Fatalf("xfs_db tells no %v:\n%s", re, out)
		}
		v, _ := strconv.ParseInt(string(m[1]), 10, 64)
		return v
	}
	size, block := number(sizeLine), number(blockLine)
	agBlocks := number(regexp.MustCompile(`agblocks = (\d+)`))
	agLog := number(regexp.MustCompile(`agblklog = (\d+)`))
	content := make([]byte, size)
	place := make(map[int64]int64) // block of the file → byte of the partition
	for _, m := range extentLine.FindAllSubmatch(out, -1) {
		var v [3]int64
		for i := range v {
			v[i], _ = strconv.ParseInt(string(m[i+1]), 10, 64)
		}
		for i := range v[2] {
			b := v[1] + i // allocation group in the high bits, block of it in the low ones
			place[v[0]+i] = ((b>>agLog)*agBlocks + b&(1<<agLog-1)) * block
		}
	}
	for at := int64(0); at < size; at += block {
		p, ok := place[at/block]
		if !ok {
			t.Fatalf("%s has no block at %d:\n%s", path, at, out)
		}
		if _, err := part.ReadAt(content[at:min(size, at+block)], p); err != nil {
			t.Fatal(err)
		}
	}
	at, n := where(content)
	end := at + n - 1
	sector := make([]byte, block)
	of := place[end/block]
	if _, err := part.ReadAt(sector, of); err != nil {
		t.Fatal(err)
	}
	for i := max(at, end/block*block); i <= end; i++ {
		sector[i%block] = 'X'
	}
	if err := d.Write(sector, start+of, true); err != nil {
		t.Fatal(fmt.Errorf("damage %s: %w", path, err))
	}
	return content
}
