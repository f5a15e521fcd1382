package layers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestUndoTellsTheTruth: one base, three layers (the second saw the first, the
// third did not), and what is said of undoing the first.
func TestUndoTellsTheTruth(t *testing.T) {
	m := newMounter(t)
	for _, c := range []struct {
		name             string
		first            string // undone
		second           string // saw it
		third            string // ran beside both
		base             string
		want             []string
		showsAfterwards  []string
		doesNotShowAfter []string
	}{
		{name: "its own files go", base: `echo b > b`, first: `echo a > a; mkdir -p d/e; echo x > d/e/x`,
			want: []string{"removed a", "removed d/e/x"}, showsAfterwards: []string{"b b"}, doesNotShowAfter: []string{"a", "d"}},
		{name: "what it changed and deleted comes back", base: `echo 1 > f; echo 2 > g; mkdir d; echo 3 > d/h; ln -s f l`,
			first: `echo 9 > f; rm g l; rm -r d`,
			want:  []string{"restored d/h", "restored f", "restored g", "restored l"}, showsAfterwards: []string{"f 1", "g 2", "d/h 3", "l -> f"}},
		{name: "appended to: the later one carries its bytes", first: `echo from-first > f`, second: `echo more >> f`,
			want: []string{"conflict f 2"}, showsAfterwards: []string{"f from-first\nmore"}},
		{name: "chmod carries all", first: `echo from-first > f`, second: `chmod 700 f`,
			want: []string{"conflict f 2"}, showsAfterwards: []string{"f from-first"}},
		{name: "written anew: nothing is carried", first: `echo from-first > f`, second: `echo quite different > f`,
			want: []string{"kept f 2"}, showsAfterwards: []string{"f quite different"}},
		{name: "replaced by a rename, as editors do, with its lines", first: `printf 'one\ntwo\n' > f`, second: `sed -i s/two/three/ f`,
			want: []string{"conflict f 2"}},
		{name: "put back to what it was before", base: `echo old > f`, first: `echo new > f`, second: `echo old > f`,
			want: []string{"kept f 2"}},
		{name: "only lines taken away are missing later too", base: `printf 'a\nb\nc\n' > f`, first: `sed -i /b/d f`, second: `echo d >> f`,
			want: []string{"conflict f 2"}},
		{name: "beside it: nothing is carried, though the text is alike", first: `echo same > f`, third: `echo same > f`,
			want: []string{"kept f 3"}},
		{name: "beside it, in a file of the base", base: `echo old > f`, first: `echo new > f`, third: `echo new >> f`,
			want: []string{"kept f 3"}},
		{name: "deleted later", first: `echo a > f; echo b > g`, second: `rm f`,
			want: []string{"kept f 2", "removed g"}, doesNotShowAfter: []string{"f", "g"}},
		{name: "a folder deleted later, whole", first: `mkdir d; echo a > d/f`, second: `rm -r d`,
			want: []string{"kept d/f 2"}, doesNotShowAfter: []string{"d"}},
		{name: "a later file in its folder keeps the folder", first: `mkdir d; echo a > d/f`, second: `echo b > d/g`,
			want: []string{"removed d/f"}, showsAfterwards: []string{"d/", "d/g b"}, doesNotShowAfter: []string{"d/f"}},
		{name: "a folder that it emptied fills again beside later files", base: `mkdir d; echo 1 > d/f`, first: `rm -r d`, second: `mkdir d; echo 2 > d/g`,
			want: []string{"restored d/f"}, showsAfterwards: []string{"d/f 1", "d/g 2"}},
		{name: "moved: the old place comes back, the new one goes", base: `mkdir d; echo 1 > d/f`, first: `mv d e`,
			want: []string{"restored d/f", "removed e/f"}, showsAfterwards: []string{"d/f 1"}, doesNotShowAfter: []string{"e"}},
		{name: "a file in a folder's place", base: `mkdir d; echo 1 > d/f`, first: `rm -r d; echo x > d`,
			want: []string{"restored d", "restored d/f"}, showsAfterwards: []string{"d/f 1"}},
		{name: "a binary file that was appended to", first: `head -c 2000 /dev/urandom > f`, second: `printf '\0more' >> f`,
			want: []string{"conflict f 2"}},
		{name: "touched only", base: `echo 1 > f; mkdir d; echo 2 > d/g`, first: `touch f; echo h > d/h`,
			want: []string{"removed d/h"}},
		{name: "a later link to the same place", first: `ln -s x l`, second: `ln -sfn x l; ln -sfn x l2`,
			want: []string{"conflict l 2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			base := ownedBase(t, dir, c.base)
			l1, l2, l3 := filepath.Join(dir, "1"), filepath.Join(dir, "2"), filepath.Join(dir, "3")
			runTask(t, m, base, nil, l1, c.first)
			runTask(t, m, base, []string{l1}, l2, c.second)
			runTask(t, m, base, nil, l3, c.third)
			now := View{Base: base, Lowers: []string{l3, l2, l1}}
			all, err := listUndo(t.Context(), now, l1)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, u := range all {
				line := u.Outcome + " " + u.Path
				if u.Outcome == Kept || u.Outcome == Conflict {
					for _, l := range u.Later {
						line += " " + filepath.Base(l)
					}
				}
				got = append(got, line)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("said %q, want %q", got, c.want)
			}
			if err := Drop(l1); err != nil {
				t.Fatal(err)
			}
			after := shown(t, View{Base: base, Lowers: []string{l3, l2}})
			for _, s := range c.showsAfterwards {
				if !slices.Contains(after, s) {
					t.Errorf("afterwards %q lacks %q", after, s)
				}
			}
			for _, s := range c.doesNotShowAfter {
				if slices.ContainsFunc(after, func(x string) bool { return strings.Split(strings.TrimSuffix(x, "/"), " ")[0] == s }) {
					t.Errorf("afterwards %q has %q", after, s)
				}
			}
		})
	}
}

func TestAlsoChanged(t *testing.T) {
	m := newMounter(t)
	dir := t.TempDir()
	base := ownedBase(t, dir, `mkdir d; echo 1 > d/f; echo 2 > g`)
	a := runTask(t, m, base, nil, dir+"/a", `echo a > d/f; echo a > n; mkdir x; echo a > x/a; echo a > x-a; echo a > x.a; echo a > z`)
	b := runTask(t, m, base, nil, dir+"/b", `rm -r d; echo b > g; mkdir x; echo b > x/a; echo b > x-a; echo b > x/y`)
	c := runTask(t, m, base, nil, dir+"/c", `echo c > x.a; echo c > z`)
	var got []string
	err := EachChange(t.Context(), a, []string{a.Layer, b.Layer, dir + "/gone", c.Layer}, func(ch Change, also []string) error {
		line := ch.Path
		for _, l := range also {
			line += " " + filepath.Base(l)
		}
		got = append(got, line)
		return nil
	})
	if want := []string{"d/f b", "n", "x/a b", "x-a b", "x.a c", "z c"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, want %q, %v", got, want, err)
	}
}

// TestUsernsLeavesNoProcess: the one that it was made with is gone.
func TestUsernsLeavesNoProcess(t *testing.T) {
	needRoot(t)
	f, err := NewUserns(IDMap{0, 0}, IDMap{Canonical, UID(5)})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	for _, l := range lists {
		if b, _ := os.ReadFile(l); len(b) > 0 {
			t.Errorf("a process is left: %s", b)
		}
	}
}

// TestUsernsSaysWhatIsMissing: on a machine that allows none, the error says so and what to do. The machine is a user namespace with
// settings of its own.
func TestUsernsSaysWhatIsMissing(t *testing.T) {
	needRoot(t)
	const inside = "GURTOS_TEST_NO_USERNS"
	if os.Getenv(inside) != "" {
		if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0); err != nil {
			t.Fatal(err)
		}
		f, err := NewUserns(IDMap{0, 0})
		if err == nil {
			f.Close()
		}
		fmt.Printf("said %v\n", err)
		return
	}
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
	c := exec.Command("/proc/self/exe", "-test.run=^TestUsernsSaysWhatIsMissing$")
	c.Env = append(os.Environ(), inside+"=1")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids}
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "raise the sysctl user.max_user_namespaces") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestUsernsThroughSignals: what comes meanwhile to the group of this process, as from a
// terminal, neither stops it nor has it come back before it is made.
func TestUsernsThroughSignals(t *testing.T) {
	needRoot(t)
	done, sent := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(sent)
		for {
			select {
			case <-done:
				return
			default:
				syscall.Kill(0, syscall.SIGWINCH) // whoever heeds none ignores it
				runtime.Gosched()
			}
		}
	}()
	defer func() { close(done); <-sent }()
	for range 50 {
		f, err := NewUserns(IDMap{0, 0}, IDMap{Canonical, UID(5)})
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
}
