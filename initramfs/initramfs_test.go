package initramfs

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pierrec/lz4/v4"
	"github.com/u-root/u-root/pkg/cpio"
)

// filled makes the same tree in another order and from files of another time.
func filled(t *testing.T, backwards bool) *Tree {
	t.Helper()
	init := filepath.Join(t.TempDir(), "init")
	if err := os.WriteFile(init, []byte("\x7fELF"), 0o755); err != nil {
		t.Fatal(err)
	}
	tree := New()
	adds := []func(){
		func() { tree.File("/init", init, 0o755) },
		func() { tree.Text("/lib/modules/6.12/modules.dep", "kernel/a.ko:\n", 0o644) },
		func() { tree.Link("/bin", "usr/bin") },
		func() { tree.Text("/a", "1", 0o644) },
	}
	if backwards {
		then := time.Unix(1, 0)
		if err := os.Chtimes(init, then, then); err != nil {
			t.Fatal(err)
		}
		for i := len(adds) - 1; i >= 0; i-- {
			adds[i]()
		}
		return tree
	}
	for _, add := range adds {
		add()
	}
	return tree
}

func write(t *testing.T, tree *Tree) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := tree.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// unpack reads the old LZ4 framing as the kernel does (lib/decompress_unlz4.c).
func unpack(t *testing.T, b []byte) []byte {
	t.Helper()
	if len(b) < 8 || binary.LittleEndian.Uint32(b) != 0x184c2102 {
		t.Fatalf("the kernel knows no archive that begins with %x", b[:min(len(b), 8)])
	}
	var plain []byte
	block := make([]byte, 8<<20) // the old framing's largest
	for at := 4; ; {
		if at+4 > len(b) {
			t.Fatal("it has no end: the kernel takes what comes behind it for a block of its own")
		}
		size := int(binary.LittleEndian.Uint32(b[at:]))
		at += 4
		if size == 0 {
			if len(b)%4 != 0 || len(bytes.Trim(b[at:], "\x00")) > 0 {
				t.Errorf("%d bytes, of them %x behind the end: another archive begins at a multiple of four, behind zeros alone", len(b), b[at:])
			}
			return plain
		}
		n, err := lz4.UncompressBlock(b[at:at+size], block)
		if err != nil {
			t.Fatal(err)
		}
		plain = append(plain, block[:n]...)
		at += size
	}
}

func TestSameBytes(t *testing.T) {
	if !bytes.Equal(write(t, filled(t, false)), write(t, filled(t, true))) {
		t.Error("the same files in another order and of another time gave other bytes")
	}
}

func TestFoldersBeforeFiles(t *testing.T) {
	plain := unpack(t, write(t, filled(t, false)))
	seen := map[string]bool{".": true}
	err := cpio.ForEachRecord(cpio.Newc.Reader(bytes.NewReader(plain)), func(r cpio.Record) error {
		if dir := filepath.Dir(r.Name); !seen[dir] {
			t.Errorf("%s comes before its folder: the kernel drops such a file", r.Name)
		}
		seen[r.Name] = true
		if r.UID != 0 || r.GID != 0 || r.MTime != 0 {
			t.Errorf("%s has owner %d:%d and time %d", r.Name, r.UID, r.GID, r.MTime)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"init", "dev/console", "proc", "lib/modules/6.12/modules.dep"} {
		if !seen[want] {
			t.Errorf("%s is missing", want)
		}
	}
}

func TestTwice(t *testing.T) {
	tree := New()
	tree.Text("/init", "a", 0o755)
	tree.Text("/init", "b", 0o755)
	if err := tree.Write(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "/init") {
		t.Errorf("two files of one name: %v", err)
	}
}

// TestInodes holds that inode numbers are counted and not taken from this machine: the kernel joins files of the same number and no other.
func TestInodes(t *testing.T) {
	plain := unpack(t, write(t, filled(t, false)))
	next := uint64(1)
	err := cpio.ForEachRecord(cpio.Newc.Reader(bytes.NewReader(plain)), func(r cpio.Record) error {
		if r.Ino != next {
			t.Errorf("%s has inode %d, want %d", r.Name, r.Ino, next)
		}
		next++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
