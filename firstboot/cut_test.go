package firstboot

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/boot/disk"
	"gurtos/core/durable"
	"gurtos/core/durable/powercut"
	"gurtos/sandbox/layers"
)

// blocks calls fn for every 512-byte block of a sparse file that is not in a
// hole.
func blocks(path string, fn func(off int64, b []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := make([]byte, 1<<20)
	for at := int64(0); ; {
		from, err := f.Seek(at, unix.SEEK_DATA)
		if err != nil {
			return nil // ENXIO: only a hole is left
		}
		to, err := f.Seek(from, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		for at = from; at < to; {
			n, err := f.ReadAt(buf[:min(int64(len(buf)), to-at)], at)
			if n == 0 {
				return err
			}
			for i := 0; i+512 <= n; i += 512 {
				if err := fn(at+int64(i), buf[i:i+512]); err != nil {
					return err
				}
			}
			at += int64(n)
		}
	}
}

// changed lists the blocks of after that before has otherwise.
func changed(t *testing.T, before, after string) map[int64][]byte {
	t.Helper()
	old, err := os.Open(before)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	out := map[int64][]byte{}
	have := make([]byte, 512)
	if err := blocks(after, func(off int64, b []byte) error {
		if _, err := old.ReadAt(have, off); err != nil && err != io.EOF {
			return err
		}
		if !bytes.Equal(have, b) {
			out[off] = bytes.Clone(b)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// A power cut leaves some of a step's blocks written and others not, in any
// mixture. Whatever it is, the next boot knows the disk and finishes it, and
// after the format the file system is never made again.
func TestCutWhileTheDiskIsMade(t *testing.T) {
	dir := t.TempDir()
	d := image(t, "vdb")
	states := []string{filepath.Join(dir, "blank")}
	keep := func(name string) {
		path := filepath.Join(dir, name)
		run(t, "cp", "--sparse=always", d.Path, path)
		states = append(states, path)
	}
	run(t, "cp", "--sparse=always", d.Path, states[0])
	s := setup()
	s.Done = keep
	s.MkFS = func(ctx context.Context, p disk.Part, options ...string) error {
		if err := mkfs(ctx, p, options...); err != nil {
			return err
		}
		keep("made") // all that mkfs wrote, before the claim says so
		return nil
	}
	found := Data{Disk: d, Blank: true}
	if err := s.Disk(t.Context(), &found); err != nil {
		t.Fatal(err)
	}

	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	cut := d
	cut.Path = filepath.Join(dir, "cut")
	for i := 1; i < len(states); i++ {
		news := changed(t, states[i-1], states[i])
		if len(news) == 0 {
			t.Fatalf("step %s wrote nothing", filepath.Base(states[i]))
		}
		for _, share := range []float64{0.1, 0.6, 1} {
			name := fmt.Sprintf("%s, %.0f %% of %d blocks", filepath.Base(states[i]), share*100, len(news))
			run(t, "cp", "--sparse=always", states[i-1], cut.Path)
			f, err := os.OpenFile(cut.Path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			for off, b := range news {
				if random.Float64() < share {
					if _, err := f.WriteAt(b, off); err != nil {
						t.Fatal(err)
					}
				}
			}
			f.Close()
			done := i == len(states)-1 && share == 1
			t.Run(name, func(t *testing.T) { finish(t, cut, done) })
		}
	}
}

// finish is the next boot.
func finish(t *testing.T, d disk.Disk, done bool) {
	t.Helper()
	got, err := Find([]disk.Disk{d})
	if err != nil {
		t.Fatal(err)
	}
	s := setup()
	formats := 0
	s.MkFS = func(ctx context.Context, p disk.Part, options ...string) error {
		formats++
		return mkfs(ctx, p, options...)
	}
	if err := s.Disk(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	if done && formats != 0 {
		t.Error("a formatted disk was formatted again")
	}
	again, err := Find([]disk.Disk{d})
	if err != nil || again.Fresh() || again.Part.Index != 1 {
		t.Fatalf("after the boot that finishes it: %+v, %v", again, err)
	}
	f, err := os.Open(d.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if sb, err := readSuperblock(f, again.Part.Start); err != nil || sb.uuid != again.Part.GUID {
		t.Errorf("superblock %+v, %v", sb, err)
	}
}

func filesIn(disk durable.FS, dir string) (Box, []string, error) {
	var steps []string
	s := &Setup{Log: log.New(io.Discard, "", 0), Done: func(step string) { steps = append(steps, step) }}
	box, err := s.Files(disk, dir, time.Unix(1_700_000_000, 0))
	return box, steps, err
}

// check looks at all that first boot makes.
func check(t *testing.T, dir string, box Box) {
	t.Helper()
	for name, mode := range map[string]os.FileMode{
		Home: os.ModeDir | 0o700, Etc: os.ModeDir | 0o700, Init: os.ModeDir | 0o700,
		Vault: 0o600, BoxID: 0o644, HostName: 0o644,
		Home + "/workspaces/home": os.ModeDir | 0o755,
	} {
		fi, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || fi.Mode() != mode {
			t.Errorf("%s: mode %v, %v; want %v", name, fi.Mode(), err, mode)
			continue
		}
		if name == Vault && fi.Size() != 0 {
			t.Errorf("the vault has %d bytes", fi.Size())
		}
		owner := uint32(0)
		if strings.HasSuffix(name, "workspaces/home") {
			owner = layers.Canonical
		}
		if uid := fi.Sys().(*syscall.Stat_t).Uid; uid != owner {
			t.Errorf("%s belongs to %d, want %d", name, uid, owner)
		}
	}
	if len(box.ID) != 36 || !strings.HasPrefix(box.HostName, "gurtos-") || len(box.HostName) != len("gurtos-")+4 {
		t.Errorf("box %+v", box)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	box, steps, err := filesIn(durable.Disk, dir)
	if err != nil || !box.Fresh {
		t.Fatalf("%+v, %v", box, err)
	}
	if got := strings.Join(steps, " "); got != "box etc init vault id name workspace done" {
		t.Errorf("steps %s", got)
	}
	check(t, dir, box)

	// Later boots change nothing, and bring nothing back that the owner removed.
	if err := os.WriteFile(filepath.Join(dir, Vault), []byte("A_KEY=something\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, Home, "workspaces/home")); err != nil {
		t.Fatal(err)
	}
	second, steps, err := filesIn(durable.Disk, dir)
	if err != nil || second.Fresh || len(steps) != 0 || second.ID != box.ID || second.HostName != box.HostName {
		t.Errorf("the second boot: %+v, %v, %v", second, steps, err)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, Vault)); string(b) != "A_KEY=something\n" {
		t.Errorf("the vault was replaced by %q", b)
	}
}

// The power is cut after each operation; the next boot finishes what is there,
// and what was made stays: an id never changes once it was durable.
func TestCutAmongTheFiles(t *testing.T) {
	dir := t.TempDir()
	disk := powercut.New(dir)
	if _, _, err := filesIn(disk, dir); err != nil {
		t.Fatal(err)
	}
	ops := disk.Ops()
	if ops < 20 {
		t.Fatalf("only %d operations were seen", ops)
	}
	for n := range ops {
		dir := t.TempDir()
		disk := powercut.New(dir)
		disk.CutAfter(n)
		_, _, err := filesIn(disk, dir)
		if err == nil {
			t.Fatalf("cut after %d of %d: no error", n, ops)
		}
		if err := disk.Cut(uint64(n)); err != nil {
			t.Fatal(err)
		}
		left, _ := os.ReadFile(filepath.Join(dir, BoxID))
		box, _, err := filesIn(durable.Disk, dir)
		if err != nil {
			t.Fatalf("cut after %d of %d, the next boot: %v", n, ops, err)
		}
		check(t, dir, box)
		if len(left) > 0 && strings.TrimSpace(string(left)) != box.ID {
			t.Errorf("cut after %d of %d: the id was %q and is %q", n, ops, left, box.ID)
		}
	}
}

// A disk without room says so, and a next boot with room finishes.
func TestFilesOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	disk := powercut.New(dir)
	disk.Fail(func(op powercut.Op) error {
		if op.Kind == powercut.Write {
			return unix.ENOSPC
		}
		return nil
	})
	if _, _, err := filesIn(disk, dir); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("on a full disk: %v", err)
	}
	box, _, err := filesIn(durable.Disk, dir)
	if err != nil {
		t.Fatal(err)
	}
	check(t, dir, box)
}
