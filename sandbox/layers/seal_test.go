package layers

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// runTask makes a layer over the view, runs the script in it as a task's user
// and seals it.
func runTask(t testing.TB, m *Mounter, base string, lowers []string, dir, script string) View {
	t.Helper()
	v := View{Base: base, Lowers: lowers, Layer: newLayer(t, dir)}
	inTask(t, m, v, script)
	if err := Seal(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	return v
}

func inTask(t testing.TB, m *Mounter, v View, script string) {
	t.Helper()
	ns, err := m.Userns(3)
	if err != nil {
		t.Fatal(err)
	}
	mt, err := m.Mount(v, ns)
	if err != nil {
		t.Fatal(err)
	}
	defer mt.Close()
	if out, err := inside(t, mt, 3, script); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// ownedBase makes a base folder by a script and gives it to Canonical.
func ownedBase(t testing.TB, dir, script string) string {
	t.Helper()
	base := filepath.Join(dir, "base")
	os.Mkdir(base, 0o755)
	c := exec.Command("/bin/bash", "-ec", script)
	c.Dir = base
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command("chown", "-hR", fmt.Sprint(Canonical, ":", Canonical), base).CombinedOutput(); err != nil {
		t.Fatal(string(out))
	}
	return base
}

// shown lists a tree as "path kind content" lines.
func shown(t testing.TB, v View) []string {
	t.Helper()
	tree, err := OpenTree(v)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	var all []string
	err = tree.Walk("", func(p string, e Entry) error {
		line := p
		switch e.Kind {
		case "folder":
			line += "/"
		case "symlink":
			line += " -> " + e.Target
		case "file":
			f, err := tree.Open(p)
			if err != nil {
				return err
			}
			defer f.Close()
			b, err := io.ReadAll(f)
			if err != nil {
				return err
			}
			text := strings.TrimSpace(string(b))
			if len(text) > 60 {
				text = fmt.Sprintf("%x", sha256.Sum256(b))
			}
			line += " " + text
		}
		all = append(all, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestSealedLayerStandsAlone(t *testing.T) {
	m := newMounter(t)
	dir := t.TempDir()
	base := ownedBase(t, dir, `mkdir -p d/sub x; echo f > d/sub/f; echo g > d/g; echo k > x/k; printf '\0' > bin`)
	a := runTask(t, m, base, nil, dir+"/a", `
		mv d moved; echo new > moved/sub/n; rm moved/g; mkdir d; echo other > d/o
		cp /bin/true x/suid; chmod 6755 x/suid; mkfifo p; rm bin; ln -s /etc/passwd l; rm -r x/k
		setfattr -n user.overlay.opaque -v y moved 2>/dev/null || python3 -c 'import os; os.setxattr("moved","user.overlay.opaque",b"y")'
		python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock")'`)
	want := []string{"d/", "d/o other", "l -> /etc/passwd", "moved/", "moved/sub/", "moved/sub/f f", "moved/sub/n new", "x/"}
	got := slices.DeleteFunc(shown(t, View{Base: base, Lowers: []string{a.Layer}}), func(s string) bool { return strings.HasPrefix(s, "x/suid") })
	if !slices.Equal(got, want) {
		t.Errorf("view of base and layer:\n got %q\nwant %q", got, want)
	}
	// Without the base the layer shows all that it says itself: nothing was left
	// behind in the folder that it moved.
	got = slices.DeleteFunc(shown(t, View{Lowers: []string{a.Layer}}), func(s string) bool { return strings.HasPrefix(s, "x/suid") })
	if !slices.Equal(got, want) {
		t.Errorf("view of the layer alone:\n got %q\nwant %q", got, want)
	}
	var st unix.Stat_t
	if err := unix.Lstat(a.Layer+"/upper/x/suid", &st); err != nil || st.Mode&0o7777 != 0o755 {
		t.Errorf("mode of the setuid file is %o, %v; want 755", st.Mode&0o7777, err)
	}
	changes, err := listChanges(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, c := range changes {
		list = append(list, c.Change+" "+c.Path+" "+c.Kind)
	}
	wantC := []string{"deleted bin file", "deleted d/g file", "added d/o file", "deleted d/sub/f file", "added l symlink", "added moved/sub/f file", "added moved/sub/n file", "deleted x/k file", "added x/suid file"}
	if !slices.Equal(list, wantC) {
		t.Errorf("changes:\n got %q\nwant %q", list, wantC)
	}
}

// TestSealTakesAway: what a task can't make today, but a hole in the sandbox or
// the kernel might let it make, is not sealed either.
func TestSealTakesAway(t *testing.T) {
	m := newMounter(t)
	dir := t.TempDir()
	base := ownedBase(t, dir, `echo 1 > below`)
	v := View{Base: base, Layer: newLayer(t, dir+"/a")}
	inTask(t, m, v, `echo x > prog; mkdir d; rm below`)
	up := v.Layer + "/upper/"
	os.Remove(up + "below")
	caps := []byte{1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0} // cap_net_raw, version 2
	for _, err := range []error{
		unix.Mknod(up+"disk", unix.S_IFBLK|0o666, int(unix.Mkdev(254, 0))),
		unix.Mknod(up+"below", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))),
		unix.Setxattr(up+"prog", xattrCaps, caps, 0),
		unix.Setxattr(up+"d", "trusted.overlay.protattr", []byte("i"), 0),
		unix.Setxattr(up+"d", "user.overlay.redirect", []byte("/etc"), 0),
		unix.Setxattr(up+"d", "user.mine", []byte("stays"), 0),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := Seal(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	if got, want := shown(t, View{Base: base, Lowers: []string{v.Layer}}), []string{"d/", "prog x"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for p, want := range map[string]string{"prog": "", "d": "user.mine"} {
		b := make([]byte, 1000)
		n, err := unix.Llistxattr(up+p, b)
		if got := strings.TrimSuffix(string(b[:max(n, 0)]), "\x00"); err != nil || got != want {
			t.Errorf("%s has attributes %q %v, want %q", p, got, err, want)
		}
	}

	bad := View{Base: base, Layer: newLayer(t, dir+"/b")}
	inTask(t, m, bad, `echo x > f`)
	if err := unix.Setxattr(bad.Layer+"/upper/f", xattrMetacopy, nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := Seal(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "points into another layer") {
		t.Errorf("sealing a file that is no more than a pointer: %v", err)
	}
}

func TestNewerFormatIsRefused(t *testing.T) {
	needRoot(t)
	dir := newLayer(t, t.TempDir()+"/l")
	for _, c := range []struct{ meta, want string }{
		{`{"version": 2, "state": "open", "id": "x"}`, "format 2, this build knows 1 at most"},
		{`{"version": 1, "state": "new", "id": "x"}`, `unknown state "new"`},
		{`{"version": 1, "state": "open"}`, "no id"},
		{`{"vers`, "unexpected end"},
	} {
		os.WriteFile(dir+"/meta", []byte(c.meta), 0o600)
		for what, do := range map[string]func() error{
			"StateOf": func() error { _, err := StateOf(dir); return err },
			"Seal":    func() error { return Seal(t.Context(), View{Layer: dir}) },
			"Drop":    func() error { return Drop(dir) },
			"Recover": func() error { _, err := Recover(dir); return err },
		} {
			if err := do(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s of %s: %v", what, c.meta, err)
			}
		}
	}
	if _, err := os.Stat(dir + "/upper"); err != nil {
		t.Error(err)
	}
}

// TestMovedFolderHidesWhatWasThere: a folder moved to where another one, or a
// file, was before shows nothing of it, neither now nor without the layers between.
func TestMovedFolderHidesWhatWasThere(t *testing.T) {
	m := newMounter(t)
	dir := t.TempDir()
	base := ownedBase(t, dir, `mkdir -p d x/in y; echo 1 > d/old; echo 2 > x/new; echo 3 > x/in/f; echo 4 > file; echo 5 > y/g`)
	a := runTask(t, m, base, nil, dir+"/a", `rm -r d; mv x d; rm file; mv y file`)
	want := []string{"d/", "d/in/", "d/in/f 3", "d/new 2", "file/", "file/g 5"}
	v := View{Base: base, Lowers: []string{a.Layer}}
	if got := shown(t, v); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, there := kernelView(t, m, v)["d/old"]; there {
		t.Error("the mounted view shows d/old")
	}
}

func TestParallelTasksBothShow(t *testing.T) {
	m := newMounter(t)
	dir := t.TempDir()
	base := ownedBase(t, dir, `echo b > b`)
	a := runTask(t, m, base, nil, dir+"/a", `mkdir out; echo a > out/a`)
	b := runTask(t, m, base, nil, dir+"/b", `mkdir out; echo b > out/b`)
	want := []string{"b b", "out/", "out/a a", "out/b b"}
	if got := shown(t, View{Base: base, Lowers: []string{b.Layer, a.Layer}}); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestWhiteoutsAreNotListed: a folder that one layer alone has, since the one it
// was changed over is undone, shows no whiteouts to those who list it.
func TestWhiteoutsAreNotListed(t *testing.T) {
	m := newMounter(t)
	dir := t.TempDir()
	base := ownedBase(t, dir, `echo b > b`)
	a := runTask(t, m, base, nil, dir+"/a", `mkdir d; echo 1 > d/gone; echo 2 > d/stays`)
	b := runTask(t, m, base, []string{a.Layer}, dir+"/b", `rm d/gone; echo n > d/new`)
	if err := Drop(a.Layer); err != nil {
		t.Fatal(err)
	}
	mt, err := m.Mount(View{Base: base, Lowers: []string{b.Layer}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer mt.Close()
	if out, err := inside(t, mt, 3, `ls d`); err != nil || out != "new\n" {
		t.Errorf("the folder shows %q, %v", out, err)
	}
}

func TestLiveChangesEqualSealedOnes(t *testing.T) {
	m := newMounter(t)
	dir := t.TempDir()
	base := ownedBase(t, dir, `mkdir -p a/b/c e; echo 1 > a/b/c/f; echo 2 > a/b/g; echo 3 > e/h`)
	v := View{Base: base, Layer: newLayer(t, dir+"/l")}
	inTask(t, m, v, `mv a/b a/z; mv a/z/c e/c; mv e a/e; echo 4 > a/e/c/n; rm a/z/g; touch a/e/h; chmod 700 a/e/h`)
	live, err := listChanges(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	if err := Seal(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	sealed, err := listChanges(t.Context(), v)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(live, sealed) {
		t.Errorf("live   %+v\nsealed %+v", live, sealed)
	}
	if len(live) == 0 {
		t.Error("no changes")
	}
}

func TestWriterPutsFilesIn(t *testing.T) {
	m := newMounter(t)
	dir := t.TempDir()
	base := ownedBase(t, dir, `mkdir d; echo old > d/f; ln -s /etc out; echo x > x`)
	v := View{Base: base, Layer: newLayer(t, dir+"/l")}
	w, err := m.Writer(v)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2020, 1, 2, 3, 4, 5, 6, time.UTC)
	for _, err := range []error{
		w.File("d/f", 0o644, at, strings.NewReader("new")),
		w.File("n/e/w", 0o6755, at, strings.NewReader("deep")),
		w.Symlink("../x", "d/l", at),
		w.Folder("empty", 0o700, at),
		w.Folder("n", 0o755, at),
		w.Link("n/e/w", "same"),
		w.Delete("x"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range []string{"out/passwd", "../x", "/etc/x", "d/../../x", "d", "x\x00y", strings.Repeat("a", 256)} {
		if err := w.File(bad, 0o644, at, strings.NewReader("evil")); err == nil {
			t.Errorf("File(%q) was taken", bad)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(v.Layer+"/upper/n/e/w", &st); err != nil || st.Mode&0o7777 != 0o755 {
		t.Errorf("mode %o, %v; want 755", st.Mode&0o7777, err)
	}
	if err := Seal(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	want := []string{"d/", "d/f new", "d/l -> ../x", "empty/", "n/", "n/e/", "n/e/w deep", "out -> /etc", "same deep"}
	if got := shown(t, View{Base: base, Lowers: []string{v.Layer}}); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for _, p := range []string{"n", "n/e/w", "d/l", "empty"} {
		if err := unix.Lstat(v.Layer+"/upper/"+p, &st); err != nil || st.Uid != Canonical || p != "n/e" && st.Mtim.Nano() != at.UnixNano() {
			t.Errorf("%s: uid %d, time %d, %v", p, st.Uid, st.Mtim.Nano(), err)
		}
	}
}

func TestDropWaitsForReaders(t *testing.T) {
	m := newMounter(t)
	dir := t.TempDir()
	base := ownedBase(t, dir, `echo b > b`)
	a := runTask(t, m, base, nil, dir+"/a", `echo a > a`)
	mt, err := m.Mount(View{Base: base, Lowers: []string{a.Layer}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := Drop(a.Layer); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(a.Layer); err != nil {
		t.Error("the layer went away under a mount:", err)
	}
	if _, err := OpenTree(View{Base: base, Lowers: []string{a.Layer}}); err == nil {
		t.Error("a dropped layer could be opened anew")
	}
	mt.Close()
	if _, err := os.Lstat(a.Layer); !os.IsNotExist(err) {
		t.Error("the layer is still there:", err)
	}
}
