package powercut_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gurtos/core/durable/powercut"
)

// TestForgets holds the rules: what each sync makes durable, and that nothing else is.
func TestForgets(t *testing.T) {
	write := func(t *testing.T, d *powercut.Disk, name, text string, syncs bool) {
		f, err := d.Open(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte(text), 0); err != nil {
			t.Fatal(err)
		}
		if syncs {
			if err := f.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		do   func(t *testing.T, d *powercut.Disk, dir string)
		want map[string]string
	}{
		{"nothing is done", func(*testing.T, *powercut.Disk, string) {}, map[string]string{"old": "old", "sub/deep": "deep"}},
		{"contents without sync", func(t *testing.T, d *powercut.Disk, dir string) {
			write(t, d, dir+"/old", "new", false)
		}, map[string]string{"old": "old", "sub/deep": "deep"}},
		{"contents with sync", func(t *testing.T, d *powercut.Disk, dir string) {
			write(t, d, dir+"/old", "newer", true)
		}, map[string]string{"old": "newer", "sub/deep": "deep"}},
		{"a new file, its folder not synced", func(t *testing.T, d *powercut.Disk, dir string) {
			write(t, d, dir+"/a", "a", true)
		}, map[string]string{"old": "old", "sub/deep": "deep"}},
		{"a new file, contents not synced", func(t *testing.T, d *powercut.Disk, dir string) {
			write(t, d, dir+"/a", "a", false)
			must(t, d.SyncDir(dir))
		}, map[string]string{"old": "old", "sub/deep": "deep", "a": ""}},
		{"a new file, all synced", func(t *testing.T, d *powercut.Disk, dir string) {
			write(t, d, dir+"/a", "a", true)
			must(t, d.SyncDir(dir))
		}, map[string]string{"old": "old", "sub/deep": "deep", "a": "a"}},
		{"a rename without folder sync", func(t *testing.T, d *powercut.Disk, dir string) {
			must(t, d.Rename(dir+"/old", dir+"/b"))
		}, map[string]string{"old": "old", "sub/deep": "deep"}},
		{"a rename of unsynced contents", func(t *testing.T, d *powercut.Disk, dir string) {
			write(t, d, dir+"/a", "a", false)
			must(t, d.Rename(dir+"/a", dir+"/old"))
			must(t, d.SyncDir(dir))
		}, map[string]string{"old": "", "sub/deep": "deep"}},
		{"a removal without folder sync", func(t *testing.T, d *powercut.Disk, dir string) {
			must(t, d.Remove(dir+"/sub/deep"))
			must(t, d.SyncDir(dir))
		}, map[string]string{"old": "old", "sub/deep": "deep"}},
		{"a removal with folder sync", func(t *testing.T, d *powercut.Disk, dir string) {
			must(t, d.Remove(dir+"/sub/deep"))
			must(t, d.SyncDir(dir+"/sub"))
		}, map[string]string{"old": "old"}},
		{"a folder whose parent was not synced", func(t *testing.T, d *powercut.Disk, dir string) {
			must(t, d.Mkdir(dir+"/new", 0o700))
			write(t, d, dir+"/new/a", "a", true)
			must(t, d.SyncDir(dir+"/new"))
		}, map[string]string{"old": "old", "sub/deep": "deep"}},
		{"a renamed folder", func(t *testing.T, d *powercut.Disk, dir string) {
			must(t, d.Rename(dir+"/sub", dir+"/moved"))
			must(t, d.SyncDir(dir))
		}, map[string]string{"old": "old", "moved/deep": "deep"}},
		{"a skipped sync", func(t *testing.T, d *powercut.Disk, dir string) {
			d.Fail(func(op powercut.Op) error {
				if op.Kind == powercut.Sync {
					return powercut.Skip
				}
				return nil
			})
			write(t, d, dir+"/old", "new", true)
		}, map[string]string{"old": "old", "sub/deep": "deep"}},
		{"the power goes before the sync", func(t *testing.T, d *powercut.Disk, dir string) {
			d.CutAfter(1)
			f, err := d.Open(dir+"/old", os.O_RDWR, 0)
			must(t, err)
			_, err = f.WriteAt([]byte("new"), 0)
			must(t, err)
			if err := f.Sync(); !errors.Is(err, powercut.ErrOff) {
				t.Errorf("sync without power: %v", err)
			}
		}, map[string]string{"old": "old", "sub/deep": "deep"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.WriteFile(dir+"/old", []byte("old"), 0o600))
			must(t, os.Mkdir(dir+"/sub", 0o700))
			must(t, os.WriteFile(dir+"/sub/deep", []byte("deep"), 0o600))
			d := powercut.New(dir)
			c.do(t, d, dir)
			must(t, d.Cut(0))
			got := map[string]string{}
			filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
				if err == nil && !e.IsDir() {
					b, err := os.ReadFile(path)
					must(t, err)
					rel, _ := filepath.Rel(dir, path)
					got[rel] = string(b)
				}
				return err
			})
			for name, text := range c.want {
				if have, ok := got[name]; !ok || have != text {
					t.Errorf("%s: %q (there: %v), want %q", name, have, ok, text)
				}
				delete(got, name)
			}
			if len(got) > 0 {
				t.Errorf("more than there should be: %v", got)
			}
		})
	}
}

// TestTears shows that a cut with a seed keeps some sectors and not others, and
// the same ones for the same seed.
func TestTears(t *testing.T) {
	const sectors = 64
	cut := func(seed uint64) (kept int, state string) {
		dir := t.TempDir()
		os.WriteFile(dir+"/f", make([]byte, sectors*512), 0o600)
		d := powercut.New(dir)
		f, err := d.Open(dir+"/f", os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		full := make([]byte, sectors*512)
		for i := range full {
			full[i] = 'x'
		}
		f.WriteAt(full, 0)
		if err := d.Cut(seed); err != nil {
			t.Fatal(err)
		}
		b, _ := os.ReadFile(dir + "/f")
		for i := 0; i < len(b); i += 512 {
			if b[i] == 'x' {
				kept++
			}
			for _, c := range b[i : i+512] {
				if c != b[i] {
					t.Fatal("a sector is torn")
				}
			}
		}
		return kept, string(b)
	}
	torn := 0
	for seed := uint64(1); seed < 20; seed++ {
		kept, state := cut(seed)
		if kept > 0 && kept < sectors {
			torn++
		}
		if _, again := cut(seed); again != state {
			t.Errorf("seed %d: two cuts differ", seed)
		}
	}
	if torn < 10 {
		t.Errorf("%d of 19 cuts tore the write", torn)
	}
}
