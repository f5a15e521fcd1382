package layers

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestPlantedLinksLeadNowhere: whatever a task leaves in its layer, boxd's reads,
// writes and copies stay in it.
func TestPlantedLinksLeadNowhere(t *testing.T) {
	m := newMounter(t)
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	os.Mkdir(secret, 0o700)
	os.WriteFile(secret+"/key", []byte("s3cret"), 0o600)
	base := ownedBase(t, dir, `mkdir d; echo plain > d/key; echo plain > key`)
	script := strings.ReplaceAll(`
		ln -s SECRET/key link; ln -s SECRET dirlink; rm -r d; ln -s SECRET d; rm key; ln -s SECRET/key key
		mkdir deep; ln -s ../../../../../../../../../../SECRET deep/up; ln -s /proc/self/root root; ln -s /proc/self/fd/3 fd
		ln -s dirlink/key through; ln -s loop loop; mkfifo fifo; mkdir moved; ln -s SECRET moved/in`, "SECRET", secret)
	v := View{Base: base, Layer: newLayer(t, dir+"/l")}
	inTask(t, m, v, script)
	inTask(t, m, v, `mv moved moved2`)

	reads := func(when string, v View) {
		tree, err := OpenTree(v)
		if err != nil {
			t.Fatal(err)
		}
		defer tree.Close()
		for _, p := range []string{"link", "dirlink/key", "d/key", "key", "deep/up/key", "root/etc/passwd", "fd", "through", "loop", "moved2/in/key", "fifo",
			"../secret/key", "d/../../secret/key", secret + "/key", "d//../secret"} {
			f, err := tree.Open(p)
			if err != nil {
				continue
			}
			b, _ := io.ReadAll(f)
			f.Close()
			if string(b) != "evil" { // what File put in place of a link
				t.Errorf("%s: Open(%q) gave %q", when, p, b)
			}
		}
		for _, p := range []string{"dirlink", "d", "deep/up", "root", "moved2/in"} {
			if e, err := tree.ReadDir(p); err == nil {
				t.Errorf("%s: ReadDir(%q) gave %v", when, p, e)
			}
		}
	}
	diff, err := Diff(t.Context(), v, "")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(diff), "s3cret") {
		t.Errorf("the running task's diff shows the secret: %s", diff)
	}
	if err := Seal(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	now := View{Base: base, Lowers: []string{v.Layer}}
	reads("sealed", now)
	if diff, err = Diff(t.Context(), v, ""); err != nil || strings.Contains(string(diff), "s3cret") {
		t.Errorf("the diff: %v %s", err, diff)
	}

	// Files put in through the planted links.
	put := View{Base: base, Lowers: now.Lowers, Layer: newLayer(t, dir+"/put")}
	w, err := m.Writer(put)
	if err != nil {
		t.Fatal(err)
	}
	evil := func() io.Reader { return strings.NewReader("evil") }
	for _, p := range []string{"dirlink/new", "d/new", "deep/up/new", "root/tmp/evil", "moved2/in/new", "loop/x"} {
		if err := w.File(p, 0o644, time.Time{}, evil()); err == nil {
			t.Errorf("File(%q) went through a link", p)
		}
		if err := w.Folder(p, 0o755, time.Time{}); err == nil {
			t.Errorf("Folder(%q) went through a link", p)
		}
		if err := w.Delete(p); err == nil {
			t.Errorf("Delete(%q) went through a link", p)
		}
		if err := w.Link("moved2/in/key", "hard"); err == nil {
			t.Errorf("Link went through a link")
		}
	}
	// A link as the last name is replaced, not followed.
	for _, p := range []string{"link", "key", "through"} {
		if err := w.File(p, 0o644, time.Time{}, evil()); err != nil {
			t.Errorf("File(%q): %v", p, err)
		}
	}
	if err := w.Delete("dirlink"); err != nil {
		t.Error(err)
	}
	w.Close()
	if err := Seal(t.Context(), put); err != nil {
		t.Fatal(err)
	}
	if err := Fold(t.Context(), base, []string{put.Layer, v.Layer}); err != nil {
		t.Fatal(err)
	}
	reads("folded", View{Base: base})
	for _, l := range []string{put.Layer, v.Layer} {
		if err := Drop(l); err != nil {
			t.Fatal(err)
		}
	}
	if b, err := os.ReadFile(secret + "/key"); err != nil || string(b) != "s3cret" {
		t.Errorf("the secret is %q, %v", b, err)
	}
	if e, _ := os.ReadDir(secret); len(e) != 1 {
		t.Errorf("beside the secret: %v", e)
	}
}

// TestSwappedParents: a task that swaps a folder for a link, over and over, while
// boxd reads its running layer.
func TestSwappedParents(t *testing.T) {
	m := newMounter(t)
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	os.Mkdir(secret, 0o755)
	os.WriteFile(secret+"/f", []byte("s3cret\n"), 0o644)
	base := ownedBase(t, dir, `mkdir d; echo old > d/f`)
	v := View{Base: base, Layer: newLayer(t, dir+"/l")}
	mt, err := m.Mount(v, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer mt.Close()
	stop := make(chan struct{})
	done := make(chan error)
	go func() {
		done <- func() error {
			var err error
			onThread(t, mt, -1, func() {
				os.WriteFile("d/f", []byte("mine\n"), 0o644)
				os.Symlink(secret, "link")
				for {
					select {
					case <-stop:
						return
					default:
					}
					err = errors.Join(os.Rename("d", "away"), os.Rename("link", "d"), os.Rename("d", "link"), os.Rename("away", "d"))
					if err != nil {
						return
					}
				}
			})
			return err
		}()
	}()
	for range 300 {
		diff, err := Diff(t.Context(), v, "")
		if err == nil && strings.Contains(string(diff), "s3cret") {
			t.Fatalf("the diff shows the secret: %s", diff)
		}
		if _, err := listChanges(t.Context(), v); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) && !errors.As(err, new(*PathError)) {
			t.Log("changes of a moving target: ", err)
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestBadWorkspacesAreRefused(t *testing.T) {
	m := newMounter(t)
	dir := t.TempDir()
	base := ownedBase(t, dir, `echo a > a`)
	a := runTask(t, m, base, nil, dir+"/a", `echo a > b`)
	os.Symlink(base, dir+"/link")
	os.WriteFile(dir+"/file", nil, 0o644)
	unix.Mkfifo(dir+"/pipe", 0o644)
	shm, err := os.MkdirTemp("/dev/shm", "layers")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(shm)
	for _, c := range []struct {
		name string
		v    View
		want string
	}{
		{"a symlink", View{Base: dir + "/link", Lowers: []string{a.Layer}}, "workspace link: not a folder but a symlink"},
		{"a file", View{Base: dir + "/file", Lowers: []string{a.Layer}}, "workspace file: not a folder but a file"},
		{"a pipe", View{Base: dir + "/pipe", Lowers: []string{a.Layer}}, "workspace pipe: not a folder but a pipe"},
		{"a device", View{Base: "/dev/null", Lowers: []string{a.Layer}}, "workspace null: not a folder but a device"},
		{"not there", View{Base: dir + "/none", Lowers: []string{a.Layer}}, "workspace none: no such file or directory"},
		{"another file system", View{Base: shm, Lowers: []string{a.Layer}}, "is on another file system"},
		{"a layer that is gone", View{Base: base, Lowers: []string{dir + "/gone"}}, "deleted"},
		{"an open layer below", View{Base: base, Lowers: []string{newLayer(t, dir+"/open")}}, "can't be read yet"},
		{"a sealed layer on top", View{Base: base, Layer: a.Layer}, "takes no changes"},
		{"nothing", View{}, "neither base nor layers"},
		{"too many", View{Base: base, Lowers: slices.Repeat([]string{a.Layer}, 401)}, "at most 400"},
	} {
		mt, err := m.Mount(c.v, nil)
		if err == nil {
			mt.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestOneWriterPerLayer(t *testing.T) {
	m := newMounter(t)
	dir := t.TempDir()
	base := ownedBase(t, dir, `echo a > a`)
	v := View{Base: base, Layer: newLayer(t, dir+"/l")}
	mt, err := m.Mount(v, nil)
	if err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func() error{
		"a second mount": func() error { _, err := m.Mount(v, nil); return err },
		"Writer":         func() error { _, err := m.Writer(v); return err },
		"Seal":           func() error { return Seal(t.Context(), v) },
		"Drop":           func() error { return Drop(v.Layer) },
	} {
		if err := do(); !errors.Is(err, ErrInUse) {
			t.Errorf("%s of a mounted layer: %v", what, err)
		}
	}
	c := exec.Command("flock", "-n", v.Layer+"/lock", "true")
	if err := c.Run(); err == nil {
		t.Error("another process could lock the layer")
	}
	mt.Close()
	if err := Seal(t.Context(), v); err != nil {
		t.Error(err)
	}
}

// TestDeepNesting: folders nested deeper than any path can name can be neither
// kept nor in the way.
func TestDeepNesting(t *testing.T) {
	m := newMounter(t)
	dir := t.TempDir()
	base := ownedBase(t, dir, `echo a > a`)
	v := View{Base: base, Layer: newLayer(t, dir+"/l")}
	mt, err := m.Mount(v, nil)
	if err != nil {
		t.Fatal(err)
	}
	onThread(t, mt, -1, func() {
		for range 3000 {
			if err = unix.Mkdir("d", 0o755); err != nil {
				return
			}
			if err = unix.Chdir("d"); err != nil {
				return
			}
		}
	})
	mt.Close()
	if err != nil {
		t.Fatal(err)
	}
	if err := Seal(t.Context(), v); err == nil || !strings.Contains(err.Error(), "nested more than 1000 folders deep") {
		t.Errorf("sealing: %v", err)
	}
	if err := Drop(v.Layer); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(v.Layer); !os.IsNotExist(err) {
		t.Error("still there: ", err)
	}
}

// TestImmutableFlagWouldShow holds the reason why sealed layers carry no
// immutable flag: overlayfs copies it up to the view, whose user could then not
// change the file.
func TestImmutableFlagWouldShow(t *testing.T) {
	m := newMounter(t)
	dir := t.TempDir()
	base := ownedBase(t, dir, `echo a > a`)
	a := runTask(t, m, base, nil, dir+"/a", `echo b > b`)
	file := a.Layer + "/upper/b"
	if out, err := exec.Command("chattr", "+i", file).CombinedOutput(); err != nil {
		t.Skip("this file system has no immutable flag: ", string(out))
	}
	defer exec.Command("chattr", "-i", file).Run()
	mt, err := m.Mount(View{Base: base, Lowers: []string{a.Layer}, Layer: newLayer(t, dir+"/b")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer mt.Close()
	if out, err := inside(t, mt, 0, `echo more >> b`); err == nil {
		t.Errorf("the flag doesn't show any more; sealed layers may carry it: %s", out)
	}
}

func TestSealedLayersAreNotWritten(t *testing.T) {
	m := newMounter(t)
	dir := t.TempDir()
	base := ownedBase(t, dir, `mkdir d; echo a > d/a`)
	a := runTask(t, m, base, nil, dir+"/a", `echo b > d/b`)
	before := fingerprint(t, a.Layer)
	b := runTask(t, m, base, []string{a.Layer}, dir+"/b", `echo c >> d/b; rm d/a; mv d e; chmod 600 e/b`)
	if err := Fold(t.Context(), base, []string{b.Layer, a.Layer}); err != nil {
		t.Fatal(err)
	}
	if after := fingerprint(t, a.Layer); after != before {
		t.Errorf("a sealed layer changed:\n%s\nwas\n%s", after, before)
	}
}

// fingerprint lists what a layer holds with the time of the last change of
// anything, which nobody can set back.
func fingerprint(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	filepath.WalkDir(dir+"/upper", func(p string, _ os.DirEntry, err error) error {
		var st unix.Stat_t
		unix.Lstat(p, &st)
		fmt.Fprintln(&b, p, st.Ino, st.Mode, st.Size, st.Ctim)
		return err
	})
	return b.String()
}

func TestNothingLeaks(t *testing.T) {
	m := newMounter(t)
	dir := t.TempDir()
	base := ownedBase(t, dir, `mkdir d; echo a > d/a`)
	round := func(i int) {
		l := filepath.Join(dir, fmt.Sprint("l", i))
		v := runTask(t, m, base, nil, l, `mv d e; echo b > e/b`)
		now := View{Base: base, Lowers: []string{l}}
		shown(t, now)
		if _, err := listUndo(t.Context(), now, l); err != nil {
			t.Fatal(err)
		}
		if _, err := Diff(t.Context(), v, ""); err != nil {
			t.Fatal(err)
		}
		p := View{Base: base, Lowers: now.Lowers, Layer: newLayer(t, l+"w")}
		w, err := m.Writer(p)
		if err != nil {
			t.Fatal(err)
		}
		w.File("x/y", 0o644, time.Time{}, strings.NewReader("z"))
		w.Close()
		if err := Seal(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		m.Mount(View{Base: dir + "/none", Layer: l}, nil) // one that fails
		for _, d := range []string{p.Layer, l} {
			if err := Drop(d); err != nil {
				t.Fatal(err)
			}
		}
	}
	round(0)
	count := func() string {
		fds, _ := os.ReadDir("/proc/self/fd")
		mounts, _ := os.ReadFile("/proc/self/mountinfo")
		var kids []string // of every thread
		lists, _ := filepath.Glob("/proc/self/task/*/children")
		for _, l := range lists {
			b, _ := os.ReadFile(l)
			kids = append(kids, strings.Fields(string(b))...)
		}
		holds.Lock()
		defer holds.Unlock()
		left, _ := os.ReadDir(dir)
		return fmt.Sprintf("%d descriptors, %d mounts, children %q, %d holds, %d names", len(fds), strings.Count(string(mounts), "\n"), kids, len(holds.read), len(left))
	}
	before := count()
	for i := range 30 {
		round(i + 1)
	}
	if after := count(); after != before {
		t.Errorf("before: %s\nafter:  %s", before, after)
	}
	inner := make(chan int)
	m.work <- func() { // mounts of the Mounter's own namespace
		var st unix.Stat_t
		n := 0
		if unix.Stat("/v/0", &st) == nil {
			n++
		}
		inner <- n
	}
	if n := <-inner; n != 0 {
		t.Error("layers are still attached in the Mounter's namespace")
	}
}

func TestManyLayers(t *testing.T) {
	m := newMounter(t)
	// In memory: making a layer syncs, which is of no matter here.
	dir, err := os.MkdirTemp("/dev/shm", "layers")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	base := ownedBase(t, dir, `echo a > a`)
	var lowers []string
	for i := range MaxLowers {
		l := sealedEmpty(t, filepath.Join(dir, fmt.Sprint("l", i)))
		os.WriteFile(l+"/upper/"+fmt.Sprint("f", i), []byte("x"), 0o644)
		lowers = append([]string{l}, lowers...)
	}
	start := time.Now()
	mt, err := m.Mount(View{Base: base, Lowers: lowers, Layer: newLayer(t, dir+"/top")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("mounting 400 layers took", time.Since(start))
	out, err := inside(t, mt, 0, `ls | wc -l; cat f0 f399`)
	mt.Close()
	if err != nil || out != "401\nxx" {
		t.Errorf("%q %v", out, err)
	}
	start = time.Now()
	if got := shown(t, View{Base: base, Lowers: lowers}); len(got) != MaxLowers+1 {
		t.Errorf("%d names", len(got))
	}
	t.Log("listing 400 layers took", time.Since(start))
	start = time.Now()
	if err := Fold(t.Context(), base, lowers); err != nil {
		t.Fatal(err)
	}
	t.Log("folding 400 layers took", time.Since(start))
	if got := shown(t, View{Base: base}); len(got) != MaxLowers+1 {
		t.Errorf("%d names after folding", len(got))
	}
}

// TestFoldersMove: what programs do that rename folders, with names longer than
// the kernel's default for it.
func TestFoldersMove(t *testing.T) {
	os.WriteFile(redirectMax, []byte("256"), 0o644) // as the kernel has it
	m := newMounter(t)
	dir := t.TempDir()
	long := strings.Repeat("n", 200)
	base := ownedBase(t, dir, fmt.Sprintf(`mkdir -p src/pkg/%s/%s; echo x > src/pkg/%s/%s/f; echo m > src/m
		git init -q .; git -c user.name=a -c user.email=a@b add -A; git -c user.name=a -c user.email=a@b commit -qm one`, long, long, long, long))
	a := runTask(t, m, base, nil, dir+"/a", fmt.Sprintf(`export HOME=/tmp; git -c safe.directory='*' mv src lib; python3 -c '
import os
os.rename("lib/pkg/%s/%s", "lib/pkg/deep")'; git -c safe.directory='*' status --porcelain`, long, long))
	got := slices.DeleteFunc(shown(t, View{Base: base, Lowers: []string{a.Layer}}), func(s string) bool { return strings.HasPrefix(s, ".git") })
	want := []string{"lib/", "lib/m m", "lib/pkg/", "lib/pkg/deep/", "lib/pkg/deep/f x", "lib/pkg/" + long + "/"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestUsersOfFolderTimes(t *testing.T) {
	m := newMounter(t)
	dir := t.TempDir()
	base := ownedBase(t, dir, `mkdir -p d/sub; echo a > d/sub/a`)
	v := View{Base: base, Layer: newLayer(t, dir+"/a")}
	inTask(t, m, v, `mv d e; mkfifo e/p n; mkdir f; mkfifo f/p; find . -exec touch -d 2001-02-03T04:05:06.789 {} +`)
	if err := Seal(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	tree, err := OpenTree(View{Base: base, Lowers: []string{v.Layer}})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	want := time.Date(2001, 2, 3, 4, 5, 6, 789e6, time.Local)
	tree.Walk("", func(p string, e Entry) error {
		if !e.Time.Equal(want) {
			t.Errorf("%s (%s): %v, want %v", p, e.Kind, e.Time, want)
		}
		return nil
	})
	if root, err := tree.Stat("."); err != nil || !root.Time.Equal(want) {
		t.Errorf("root: %v %v", root.Time, err)
	}
}
