package guest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gurtos/image/build"
	"gurtos/image/layout"
)

func TestDataDiskStays(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), ".box")}
	name, err := o.dataDisk()
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte(text), 4096); err != nil {
			t.Fatal(err)
		}
	}
	read := func() string {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b := make([]byte, 4)
		if _, err := f.ReadAt(b, 4096); err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	write("data")
	if err := os.WriteFile(filepath.Join(o.Dir, "token"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := o.dataDisk(); err != nil || read() != "data" {
		t.Errorf("a second run finds %q, %v", read(), err)
	}
	o.Fresh = true
	if _, err := o.dataDisk(); err != nil || read() == "data" {
		t.Errorf("a fresh one still finds the old data (%v)", err)
	}
	if _, err := os.Stat(filepath.Join(o.Dir, "token")); err == nil {
		t.Error("the token of the box that is gone stayed")
	}
	st, err := os.Stat(name)
	if err != nil || st.Size() < layout.MinData || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st, err)
	}
}

// Two boxes never write to one data disk, whatever their ports.
func TestDataDiskOfOneBox(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), ".box")} // port 0 is any
	unlock, err := o.lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), build.Image{}, o); err == nil || !strings.Contains(err.Error(), "another box runs on the data disk in "+o.Dir) {
		t.Errorf("a second box: %v", err)
	}
	unlock()
	if unlock, err = o.lock(); err != nil {
		t.Fatal(err)
	}
	unlock()
}

func TestDataDiskCutShort(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	if err := os.WriteFile(filepath.Join(o.Dir, "data.img"), []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	name, err := o.dataDisk()
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(name); err != nil || st.Size() != dataSize {
		t.Errorf("a disk whose making was interrupted has %v bytes (%v)", st.Size(), err)
	}
}

func TestWhatTheConsoleTells(t *testing.T) {
	text := "[   12.1] init: stage 1\r\n[   13.0] firstboot: claim done\r\npair     http://203.0.113.15/#pair=57279722\r\n"
	if all := serialStep.FindAllStringSubmatch(text, -1); len(all) != 2 || all[1][2] != "claim done" {
		t.Errorf("steps: %q", all)
	}
	m := pairLink.FindStringSubmatch(text)
	if m == nil || m[1] != "57279722" {
		t.Errorf("pairing link: %q", m)
	}
	// The console is read as it comes: a code that is not all there is none.
	for n := strings.Index(text, "pair "); n < strings.Index(text, "57279722")+8; n++ {
		if m := pairLink.FindStringSubmatch(text[:n]); m != nil {
			t.Errorf("a link in %q: %q", text[:n], m)
		}
	}
}

func TestDataDiskWithoutRoom(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("needs root: ", err)
	}
	defer unix.Unmount(dir, 0)
	if _, err := (Options{Dir: dir}).dataDisk(); err == nil || !strings.Contains(err.Error(), "needs 512 MB of free disk in "+dir) {
		t.Error(err)
	}
}
