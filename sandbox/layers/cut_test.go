package layers

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestMain is also the process that is cut: with LAYERS_CUT=n it does one thing
// and kills itself before the n-th step.
func TestMain(m *testing.M) {
	if n, err := strconv.Atoi(os.Getenv("LAYERS_CUT")); err == nil {
		step = func(string) {
			if n--; n == 0 {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		}
		if err := cutVerbs[os.Args[1]](os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var cutVerbs = map[string]func(base string, layers []string) error{
	"seal": func(base string, l []string) error {
		return Seal(context.Background(), View{Base: base, Lowers: l[1:], Layer: l[0]})
	},
	"drop": func(_ string, l []string) error { return Drop(l[0]) },
	"fold": func(base string, l []string) error { return Fold(context.Background(), base, l) },
}

// cutAt runs a verb that dies before its n-th step. done means that it had fewer.
func cutAt(t *testing.T, n int, verb, base string, layers ...string) (done bool) {
	t.Helper()
	c := exec.Command("/proc/self/exe", append([]string{verb, base}, layers...)...)
	c.Env = append(os.Environ(), fmt.Sprint("LAYERS_CUT=", n))
	out, err := c.CombinedOutput()
	if ws, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL {
		return false
	}
	if err != nil {
		t.Fatalf("%s: %v %s", verb, err, out)
	}
	return true
}

// copyOf gives a copy of a prepared folder, overlayfs's marks with it.
func copyOf(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "w")
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	return to
}

func noSetuid(v map[string]*thing) map[string]*thing {
	out := maps.Clone(v)
	maps.DeleteFunc(out, func(p string, x *thing) bool {
		return x.kind != "file" && x.kind != "folder" && x.kind != "symlink" // sealing takes them away
	})
	for p, x := range out {
		y := *x
		if y.kind == "file" {
			y.mode &= 0o1777
		}
		out[p] = &y
	}
	return out
}

func TestSealCutAtEachStep(t *testing.T) {
	m := newMounter(t)
	dir := t.TempDir()
	tmpl := filepath.Join(dir, "w")
	os.Mkdir(tmpl, 0o700)
	base := ownedBase(t, tmpl, `mkdir -p a/b/c d x; echo 1 > a/b/c/f; echo 2 > a/b/g; echo 3 > d/h; echo k > x/k; echo s > sock`)
	v := View{Base: base, Layer: newLayer(t, filepath.Join(tmpl, "l"))}
	inTask(t, m, v, `
		mv a/b a/z; mv a/z/c d/c; mv d e; echo 4 > e/c/n; rm a/z/g; mkdir d new; echo o > d/o; echo n > new/n
		cp /bin/true s; chmod 4755 s; rm sock; mkfifo sock; rm -r x; mkdir x; echo y > x/y; chmod 700 x
		python3 -c 'import os; os.setxattr("e","user.overlay.opaque",b"y"); os.setxattr("s","user.note",b"kept")'`)
	want := noSetuid(kernelView(t, m, v))
	var changes []Change
	for n := 1; ; n++ {
		w := copyOf(t, tmpl)
		v := View{Base: w + "/base", Layer: w + "/l"}
		done := cutAt(t, n, "seal", v.Base, v.Layer)
		s, err := Recover(v.Layer)
		if err != nil {
			t.Fatal(err)
		}
		if s == StateOpen {
			if d := compareViews(want, noSetuid(kernelView(t, m, v))); d != "" {
				t.Fatalf("cut before step %d: the open layer shows\n%s", n, d)
			}
		}
		if err := Seal(t.Context(), v); err != nil {
			t.Fatalf("cut before step %d: %v", n, err)
		}
		if d := compareViews(want, kernelView(t, m, View{Base: v.Base, Lowers: []string{v.Layer}})); d != "" {
			t.Fatalf("cut before step %d: the sealed layer shows\n%s", n, d)
		}
		got, err := listChanges(t.Context(), v)
		if err != nil {
			t.Fatal(err)
		}
		if changes == nil {
			changes = got
		}
		if !slices.Equal(got, changes) {
			t.Fatalf("cut before step %d: changes %v, want %v", n, got, changes)
		}
		if e, _ := os.ReadDir(v.Layer + "/tmp"); len(e) > 0 {
			t.Fatalf("cut before step %d: left in tmp: %v", n, e)
		}
		if done {
			t.Log(n-1, "cuts")
			if n < 20 {
				t.Errorf("only %d cuts", n-1)
			}
			return
		}
	}
}

func TestDropCutAtEachStep(t *testing.T) {
	m := newMounter(t)
	tmpl := filepath.Join(t.TempDir(), "w")
	os.Mkdir(tmpl, 0o700)
	base := ownedBase(t, tmpl, `echo 1 > a`)
	runTask(t, m, base, nil, tmpl+"/l", `mkdir -p x/y; echo z > x/y/z`)
	for n := 1; ; n++ {
		w := copyOf(t, tmpl)
		done := cutAt(t, n, "drop", w+"/base", w+"/l")
		s, err := Recover(w + "/l")
		if err != nil {
			t.Fatal(err)
		}
		if s == StateSealed != (n == 1) || s != StateSealed && s != "" {
			t.Fatalf("cut before step %d: the layer is %q", n, s)
		}
		if s == StateSealed {
			if err := Drop(w + "/l"); err != nil {
				t.Fatal(err)
			}
		}
		if e, _ := os.ReadDir(w); len(e) != 1 {
			t.Fatalf("cut before step %d: left over: %v", n, e)
		}
		if done {
			t.Log(n-1, "cuts")
			return
		}
	}
}

func TestFoldCutAtEachStep(t *testing.T) {
	m := newMounter(t)
	tmpl := filepath.Join(t.TempDir(), "w")
	os.Mkdir(tmpl, 0o700)
	base := ownedBase(t, tmpl, `mkdir d; echo 1 > d/a; echo 2 > b; echo 3 > c`)
	lowers := []string{}
	for i, script := range []string{`rm b; echo x > d/x`, `mv d e; echo y > d`, `rm d; mkdir d; ln -s nowhere d/l; ln e/x e/x2`} {
		l := filepath.Join(tmpl, fmt.Sprint("l", i))
		runTask(t, m, base, slices.Clone(lowers), l, script)
		lowers = append([]string{l}, lowers...)
	}
	want := kernelView(t, m, View{Base: base, Lowers: lowers})
	for n := 1; ; n++ {
		w := copyOf(t, tmpl)
		base := w + "/base"
		var ls []string
		for _, l := range lowers {
			ls = append(ls, filepath.Join(w, filepath.Base(l)))
		}
		done := cutAt(t, n, "fold", base, ls...)
		applied, err := RecoverBase(base, ls)
		if err != nil {
			t.Fatal(err)
		}
		if len(applied) != 0 && len(applied) != len(ls) {
			t.Fatalf("cut before step %d: applied %q", n, applied)
		}
		if d := compareViews(want, kernelView(t, m, View{Base: base, Lowers: ls})); d != "" {
			t.Fatalf("cut before step %d, with the layers:\n%s", n, d)
		}
		if len(applied) == 0 {
			if done {
				t.Fatal("done, and nothing applied")
			}
			if err := Fold(t.Context(), base, ls); err != nil {
				t.Fatal(err)
			}
		}
		if d := compareViews(want, kernelView(t, m, View{Base: base})); d != "" {
			t.Fatalf("cut before step %d, the base alone:\n%s", n, d)
		}
		e, _ := os.ReadDir(w)
		for _, x := range e {
			if strings.Contains(x.Name(), "~") {
				t.Fatalf("cut before step %d: left over: %s", n, x.Name())
			}
		}
		if done {
			t.Log(n-1, "cuts")
			return
		}
	}
}
