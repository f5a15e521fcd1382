package disk

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/diskfs/go-diskfs/partition/gpt"
	"golang.org/x/sys/unix"

	"gurtos/image/layout"
)

const (
	diskID = "8c2c7ac5-1e0a-4a58-8f4f-3a4b8c5ad001"
	partID = "8c2c7ac5-1e0a-4a58-8f4f-3a4b8c5ad002"
	lastID = "8c2c7ac5-1e0a-4a58-8f4f-3a4b8c5ad003"
)

func content(t *testing.T, size int) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "content")
	if err := os.WriteFile(name, bytes.Repeat([]byte("gurtos!\n"), size/8), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestTable(t *testing.T) {
	name := filepath.Join(t.TempDir(), "disk")
	err := Write(name, diskID, []Partition{
		{Name: layout.NameSystemA, Type: layout.TypeSystem, ID: partID, Size: 4 << 20, From: content(t, 3<<20)},
		{Name: layout.NameTasksB, Type: layout.TypeTasks, ID: lastID, Size: 64 << 20},
	})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	table, err := gpt.Read(f, 512, 512)
	if err != nil {
		t.Fatal(err)
	}
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Verify(f, uint64(st.Size())); err != nil { // the second table at the end agrees
		t.Error(err)
	}
	p := table.Partitions
	if len(p) < 2 || !strings.EqualFold(p[0].GUID, partID) || !strings.EqualFold(string(p[0].Type), layout.TypeSystem) || p[0].Name != layout.NameSystemA {
		t.Fatalf("first partition: %+v", p[0])
	}
	if p[0].Start*512%layout.Align != 0 || p[1].Start != p[0].Start+(4<<20)/512 || p[1].End-p[1].Start+1 != (64<<20)/512 {
		t.Errorf("places: %+v, %+v", p[0], p[1])
	}
	got := make([]byte, 3<<20)
	if _, err := io.ReadFull(io.NewSectionReader(f, int64(p[0].Start)*512, 3<<20), got); err != nil || !bytes.Equal(got, bytes.Repeat([]byte("gurtos!\n"), 3<<17)) {
		t.Errorf("the content differs (%v)", err)
	}
	var blocks unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &blocks); err != nil || blocks.Blocks*512 > 8<<20 {
		t.Errorf("%d bytes on disk for 3 MiB of content: the holes were written", blocks.Blocks*512)
	}
}

func TestTooLarge(t *testing.T) {
	err := Write(filepath.Join(t.TempDir(), "disk"), diskID, []Partition{{Name: "p", Type: layout.TypeSystem, ID: partID, Size: 1 << 20, From: content(t, 1<<20+8)}})
	if err == nil || !strings.Contains(err.Error(), "1048584 bytes, and there is room for 1048576") {
		t.Errorf("a content that doesn't fit: %v", err)
	}
}

func TestESPSameBytes(t *testing.T) {
	dir := t.TempDir()
	loader := content(t, 100_000)
	when := time.Unix(1_790_000_000, 0)
	if err := os.Chtimes(loader, when, when); err != nil {
		t.Fatal(err)
	}
	var made [2][]byte
	for i := range made {
		name := filepath.Join(dir, string(rune('a'+i)))
		if err := ESP(t.Context(), name, 40<<20, loader, when, t.Output()); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		made[i] = b
	}
	if !bytes.Equal(made[0], made[1]) {
		t.Error("the same loader gave other bytes")
	}
	if !bytes.Contains(made[0], []byte("BOOTX64 EFI")) {
		t.Error("no BOOTX64.EFI in it")
	}
}
