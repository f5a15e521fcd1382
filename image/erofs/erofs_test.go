package erofs

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

var id = uuid.MustParse("4d91db5a-9eb8-589a-8023-90764dbcb5a9")

// tree makes a folder whose files have the given time and owner.
func tree(t *testing.T, when time.Time, owner int) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"a": "one", "sub/b": strings.Repeat("two ", 5000)} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(p, owner, owner); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(p, when, when); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestSameBytes(t *testing.T) {
	var made [2][]byte
	for i, dir := range []string{tree(t, time.Unix(1e9, 0), 0), tree(t, time.Unix(1.5e9, 0), 1000)} {
		name := filepath.Join(t.TempDir(), "fs")
		if i == 1 { // a capability would let a program act as root
			if err := unix.Setxattr(dir+"/a", "user.test", []byte("x"), 0); err != nil {
				t.Log("no extended attributes here:", err)
			}
		}
		if err := Make(t.Context(), name, dir, id, 1_790_000_000, t.Output()); err != nil {
			t.Fatal(err)
		}
		if got, err := FileUUID(name); err != nil || got != id {
			t.Errorf("UUID %v, %v, want %v", got, err, id)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		made[i] = b
	}
	if !bytes.Equal(made[0], made[1]) {
		t.Error("the same files of another time, owner and attribute gave other bytes")
	}
}

func TestUUIDOfSomethingElse(t *testing.T) {
	if _, err := UUID(bytes.NewReader(make([]byte, 4096))); err == nil || !strings.Contains(err.Error(), "no EROFS") {
		t.Errorf("zeros: %v", err)
	}
	if _, err := UUID(bytes.NewReader(nil)); err == nil {
		t.Error("nothing was taken for an EROFS")
	}
}

func TestVersion(t *testing.T) {
	for said, want := range map[string]string{
		"mkfs.erofs 1.5\nmkfs.erofs: invalid option -- 'V'\n":                               "1.5",
		"mkfs.erofs (erofs-utils) 1.8.6\navailable compressors: lz4, lz4hc, lzma\n":         "1.8.6",
		"mkfs.erofs: error while loading shared libraries: liblz4.so.1: cannot open shared": "",
	} {
		got := ""
		if m := version.FindStringSubmatch(said); m != nil {
			got = m[1]
		}
		if got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
}
