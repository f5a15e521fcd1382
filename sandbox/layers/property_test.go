package layers

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "seed of the property test; 0 takes the time")
	roundsFlag = flag.Int("rounds", 1, "rounds of the property test")
)

// onThread runs f on a thread of its own as the slot's user, with the mount as
// root of relative paths. The thread dies with it.
func onThread(t testing.TB, mt *Mount, slot int, f func()) {
	t.Helper()
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err = unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return
		}
		if err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return
		}
		if err = unix.MoveMount(int(mt.File.Fd()), "", unix.AT_FDCWD, "/mnt", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return
		}
		if err = unix.Chdir("/mnt"); err != nil {
			return
		}
		if slot >= 0 {
			uid := uintptr(UID(slot))
			// Raw calls: the package's own would change all threads of the process.
			for _, nr := range []uintptr{unix.SYS_SETRESGID, unix.SYS_SETRESUID} {
				if _, _, e := unix.RawSyscall(nr, uid, uid, uid); e != 0 {
					err = e
					return
				}
			}
		}
		unix.Umask(0)
		f()
	}()
	<-done
	if err != nil {
		t.Fatal("entering the view: ", err)
	}
}

// kernelView reads the mounted view.
func kernelView(t testing.TB, m *Mounter, v View) map[string]*thing {
	t.Helper()
	mt, err := m.Mount(v, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer mt.Close()
	got := map[string]*thing{}
	onThread(t, mt, -1, func() {
		err = filepath.WalkDir(".", func(p string, d os.DirEntry, err error) error {
			if err != nil || p == "." {
				return err
			}
			x, err := readThing(p)
			got[p] = x
			return err
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func readThing(p string) (*thing, error) {
	var st unix.Stat_t
	if err := unix.Lstat(p, &st); err != nil {
		return nil, err
	}
	x := &thing{kind: kindWord(&st), mode: st.Mode & 0o7777}
	switch x.kind {
	case "file":
		b, err := os.ReadFile(p)
		if err != nil {
			return nil, err
		}
		x.sum, x.mtime = sum(b), st.Mtim.Nano()
	case "symlink":
		x.target, _ = os.Readlink(p)
		x.mtime = st.Mtim.Nano()
	}
	b := make([]byte, 100)
	if n, err := unix.Lgetxattr(p, "user.note", b); err == nil {
		x.attr = string(b[:n])
	}
	if st.Uid != Canonical {
		return x, fmt.Errorf("%q belongs to %d", p, st.Uid)
	}
	return x, nil
}

// treeView reads the view as boxd does.
func treeView(t testing.TB, v View) map[string]*thing {
	t.Helper()
	tree, err := OpenTree(v)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	got := map[string]*thing{}
	err = tree.Walk("", func(p string, e Entry) error {
		x := &thing{kind: e.Kind, target: e.Target, mode: uint32(e.Mode.Perm())}
		if e.Kind != "folder" {
			x.mtime = e.Time.UnixNano()
		}
		if e.Kind == "symlink" {
			x.mode = 0o777
		}
		if e.Kind == "file" {
			f, err := tree.Open(p)
			if err != nil {
				return err
			}
			defer f.Close()
			b, err := io.ReadAll(f)
			if err != nil {
				return err
			}
			x.sum = sum(b)
		}
		got[p] = x
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// withoutAttrs is what a Tree shows of a model's view.
func withoutAttrs(v map[string]*thing) map[string]*thing {
	out := map[string]*thing{}
	for p, x := range v {
		y := *x
		y.attr = ""
		y.mode &= 0o777
		out[p] = &y
	}
	return out
}

// A world is a workspace with its model.
type world struct {
	t     *testing.T
	r     *rand.Rand
	dir   string
	m     *Mounter
	base  string
	baseM modelLayer
	live  []*task // newest first
	open  []*task
	n     int
	clock int64
}

type task struct {
	name  string
	view  View
	model *modelTask
	saw   []*task
}

func (w *world) lowers() (dirs []string, ms []modelLayer) {
	for _, k := range w.live {
		dirs = append(dirs, k.view.Layer)
		ms = append(ms, k.model.own)
	}
	return dirs, append(ms, w.baseM)
}

func (w *world) now() View {
	dirs, _ := w.lowers()
	return View{Base: w.base, Lowers: dirs}
}

func (w *world) start() {
	dirs, ms := w.lowers()
	w.n++
	k := &task{name: fmt.Sprintf("t%d", w.n), saw: slices.Clone(w.live)}
	k.view = View{Base: w.base, Lowers: dirs, Layer: newLayer(w.t, filepath.Join(w.dir, k.name))}
	k.model = &modelTask{own: modelLayer{}, below: ms}
	w.open = append(w.open, k)
}

// edit does some random things in the task's mounted view, and in its model.
func (w *world) edit(k *task) {
	ns, err := w.m.Userns(w.n % 5)
	if err != nil {
		w.t.Fatal(err)
	}
	mt, err := w.m.Mount(k.view, ns)
	if err != nil {
		w.t.Fatal(err)
	}
	defer mt.Close()
	var did string
	onThread(w.t, mt, w.n%5, func() {
		for range 1 + w.r.IntN(12) {
			if did, err = w.one(k.model); err != nil {
				return
			}
		}
	})
	if err != nil {
		w.t.Fatalf("%s: %s: %v", k.name, did, err)
	}
}

var oddNames = []string{"a", "b", "c", "d", "e", "a b", "-rf", "new\nline", "\xff\xfe", "ü", "\"q\"", "~old.x", "back\\slash", ".hidden", strings.Repeat("n", 255), "*", "~deep0"}

func (w *world) pick(view map[string]*thing, ok func(p string, x *thing) bool) (string, bool) {
	var c []string
	for p, x := range view {
		if ok(p, x) {
			c = append(c, p)
		}
	}
	if len(c) == 0 {
		return "", false
	}
	slices.Sort(c)
	return c[w.r.IntN(len(c))], true
}

// newPath is a path in a folder of the view that nothing has yet.
func (w *world) newPath(view map[string]*thing) string {
	for {
		dir, ok := w.pick(view, func(p string, x *thing) bool { return x.kind == "folder" && strings.Count(p, "/") < 4 })
		if !ok || w.r.IntN(4) == 0 {
			dir = "."
		}
		p := path.Join(dir, oddNames[w.r.IntN(len(oddNames))])
		if w.r.IntN(3) == 0 {
			w.clock++
			p = path.Join(dir, fmt.Sprint("f", w.clock))
		}
		if view[p] == nil {
			return p
		}
	}
}

func (w *world) content() []byte {
	switch w.r.IntN(8) {
	case 0:
		return nil
	case 1: // sparse and large
		b := make([]byte, 1<<20+w.r.IntN(1<<20))
		copy(b[w.r.IntN(len(b)):], "in the middle")
		return b
	case 2:
		b := make([]byte, w.r.IntN(100000))
		for i := range b {
			b[i] = byte(w.r.Uint32())
		}
		return b
	}
	var b bytes.Buffer
	for range w.r.IntN(20) {
		fmt.Fprintf(&b, "line %d\n", w.r.IntN(1000))
	}
	return b.Bytes()
}

func (w *world) stamp(p string) (int64, error) {
	w.clock++
	at := time.Date(2021, 1, 1, 0, 0, int(w.clock), w.r.IntN(1e9), time.UTC).UnixNano()
	ts := unix.NsecToTimespec(at)
	return at, unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
}

// one makes one edit. It gives what it did, for the message.
func (w *world) one(m *modelTask) (did string, err error) {
	view := m.view()
	isFile := func(p string, x *thing) bool { return x.kind == "file" }
	any := func(p string, x *thing) bool { return true }
	write := func(p string, b []byte) error {
		f, err := os.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		if len(b) > 1<<20 { // leave the holes
			f.Truncate(int64(len(b)))
			i := bytes.Index(b, []byte("in the mid"))
			_, err = f.WriteAt(b[i:min(len(b), i+13)], int64(i))
			return err
		}
		_, err = f.Write(b)
		return err
	}
	switch w.r.IntN(14) {
	case 0, 1: // a new file
		p, b := w.newPath(view), w.content()
		if len(b) > 1<<20 && !bytes.Contains(b, []byte("in the mid")) {
			b = []byte("short")
		}
		did = fmt.Sprintf("create %q", p)
		if err := write(p, b); err != nil {
			return did, err
		}
		x := thing{kind: "file", sum: sum(b), mode: 0o644}
		x.mtime, err = w.stamp(p)
		m.put(p, x)
	case 2, 3: // change a file
		p, ok := w.pick(view, isFile)
		if !ok {
			return
		}
		b := []byte(fmt.Sprint("changed ", w.r.IntN(1e6), "\n"))
		did = fmt.Sprintf("overwrite %q", p)
		os.Chmod(p, 0o644)
		if err := write(p, b); err != nil {
			return did, err
		}
		x := m.touch(p)
		x.sum, x.mode = sum(b), 0o644
		x.mtime, err = w.stamp(p)
		w.sync(m, p, x)
	case 4: // append: what is there is carried along
		p, ok := w.pick(view, isFile)
		if !ok {
			return
		}
		did = fmt.Sprintf("append %q", p)
		os.Chmod(p, 0o600)
		f, err := os.OpenFile(p, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return did, err
		}
		fmt.Fprintln(f, "more", w.clock)
		f.Close()
		b, err := os.ReadFile(p)
		if err != nil {
			return did, err
		}
		x := m.touch(p)
		x.sum, x.mode = sum(b), 0o600
		x.mtime, err = w.stamp(p)
		w.sync(m, p, x)
		return did, err
	case 5:
		p := w.newPath(view)
		did = fmt.Sprintf("mkdir %q", p)
		err = unix.Mkdir(p, 0o755)
		m.put(p, thing{kind: "folder", mode: 0o755})
	case 6, 7: // delete
		p, ok := w.pick(view, any)
		if !ok {
			return
		}
		did = fmt.Sprintf("delete %q", p)
		err = os.RemoveAll(p)
		m.remove(p)
	case 8, 9: // move to a new place
		p, ok := w.pick(view, any)
		if !ok {
			return
		}
		to := w.newPath(view)
		if to == p || strings.HasPrefix(to, p+"/") {
			return
		}
		did = fmt.Sprintf("move %q to %q", p, to)
		err = unix.Rename(p, to)
		m.move(p, to)
	case 10: // a symlink, often dangling or outward
		p := w.newPath(view)
		to := []string{"/etc/passwd", "..", "a", "nowhere", "../../../../tmp"}[w.r.IntN(5)]
		did = fmt.Sprintf("symlink %q", p)
		err = unix.Symlink(to, p)
		x := thing{kind: "symlink", target: to, mode: 0o777}
		if err == nil {
			x.mtime, err = w.stamp(p)
		}
		m.put(p, x)
	case 11: // mode or attribute
		p, ok := w.pick(view, func(p string, x *thing) bool { return x.kind != "symlink" })
		if !ok {
			return
		}
		if view[p].kind == "file" && w.r.IntN(2) == 0 {
			did = fmt.Sprintf("setxattr %q", p)
			os.Chmod(p, 0o644)
			v := fmt.Sprint("v", w.r.IntN(100))
			err = unix.Setxattr(p, "user.note", []byte(v), 0)
			x := m.touch(p)
			x.attr, x.mode = v, 0o644
			w.sync(m, p, x)
			return did, err
		}
		mode := []uint32{0o700, 0o755, 0o750}[w.r.IntN(3)]
		did = fmt.Sprintf("chmod %o %q", mode, p)
		err = unix.Chmod(p, mode)
		x := m.touch(p)
		x.mode = mode
		w.sync(m, p, x)
	case 12: // a hard link
		p, ok := w.pick(view, isFile)
		if !ok {
			return
		}
		to := w.newPath(view)
		did = fmt.Sprintf("link %q to %q", p, to)
		err = unix.Link(p, to)
		x := m.touch(p)
		m.put(to, *x)
		// From here on the two are one file; changes to one show in the other.
		if m.own[to] != nil {
			m.own[to] = x
		}
	case 13: // another kind in its place
		p, ok := w.pick(view, any)
		if !ok {
			return
		}
		did = fmt.Sprintf("replace %q", p)
		if err := os.RemoveAll(p); err != nil {
			return did, err
		}
		m.remove(p)
		if view[p].kind == "folder" {
			err = write(p, []byte("was a folder\n"))
			x := thing{kind: "file", sum: sum([]byte("was a folder\n")), mode: 0o644}
			if err == nil {
				x.mtime, err = w.stamp(p)
			}
			m.put(p, x)
		} else {
			err = unix.Mkdir(p, 0o755)
			m.put(p, thing{kind: "folder", mode: 0o755})
		}
	}
	return did, err
}

// sync is there for hard links: names of one file share one thing in the model,
// so a change through one is seen through all.
func (w *world) sync(m *modelTask, p string, x *thing) { m.own[p] = x }

func (w *world) seal(i int) {
	k := w.open[i]
	w.open = slices.Delete(w.open, i, i+1)
	before := treeView(w.t, View{Base: k.view.Base, Lowers: k.view.Lowers})
	if err := Seal(w.t.Context(), k.view); err != nil {
		w.t.Fatal(err)
	}
	w.live = append([]*task{k}, w.live...)
	after := treeView(w.t, View{Base: k.view.Base, Lowers: append([]string{k.view.Layer}, k.view.Lowers...)})
	w.checkChanges(k, before, after)
	w.check("after sealing " + k.name)
}

// checkChanges holds that the changes turn before into after.
func (w *world) checkChanges(k *task, before, after map[string]*thing) {
	changes, err := Changes(w.t.Context(), View{Layer: k.view.Layer})
	if err != nil {
		w.t.Fatal(err)
	}
	said := map[string]string{}
	for _, c := range changes {
		said[c.Path] = c.Change
	}
	left := maps.Clone(said)
	same := func(a, b *thing) bool {
		return a.kind == b.kind && a.sum == b.sum && a.target == b.target && a.mode == b.mode
	}
	for p := range merge(before, after) {
		want := ""
		b, a := before[p], after[p]
		switch {
		case b == nil:
			want = Added
		case a == nil:
			want = Deleted
		case !same(a, b):
			want = Modified
		}
		got := said[p]
		folder := (a == nil || a.kind == "folder") && (b == nil || b.kind == "folder")
		if got == "" && folder && want != Modified && anyBelow(p, said) {
			continue
		}
		if got != want {
			w.t.Fatalf("%s: change of %q is %q, want %q (%v → %v)", k.name, p, got, want, b, a)
		}
		delete(left, p)
	}
	if len(left) > 0 {
		w.t.Fatalf("%s: changes of paths that are not there: %q", k.name, left)
	}
}

func anyBelow(p string, m map[string]string) bool {
	for q := range m {
		if strings.HasPrefix(q, p+"/") {
			return true
		}
	}
	return false
}

func merge(a, b map[string]*thing) map[string]bool {
	out := map[string]bool{}
	for p := range a {
		out[p] = true
	}
	for p := range b {
		out[p] = true
	}
	return out
}

func (w *world) check(when string) {
	w.t.Helper()
	_, ms := w.lowers()
	want := all(ms)
	if d := compareViews(want, kernelView(w.t, w.m, w.now())); d != "" {
		w.t.Fatalf("%s the mounted view differs from the model's:\n%s", when, d)
	}
	if d := compareViews(withoutAttrs(want), treeView(w.t, w.now())); d != "" {
		w.t.Fatalf("%s the tree differs from the model's:\n%s", when, d)
	}
}

func (w *world) undo(i int) {
	k := w.live[i]
	before := treeView(w.t, w.now())
	preview, err := UndoPreview(w.t.Context(), w.now(), k.view.Layer)
	if err != nil {
		w.t.Fatal(err)
	}
	later := map[string]*task{}
	for _, l := range w.live[:i] {
		later[l.view.Layer] = l
	}
	w.live = slices.Delete(w.live, i, i+1)
	if err := Drop(k.view.Layer); err != nil {
		w.t.Fatal(err)
	}
	w.check("after undoing " + k.name)
	after := treeView(w.t, w.now())

	said := map[string]string{}
	for _, u := range preview {
		b, a := before[u.Path], after[u.Path]
		ok := false
		switch u.Outcome {
		case Removed:
			ok = b != nil && a == nil
		case Restored:
			ok = a != nil && len(u.Later) == 0
		case Kept, Conflict:
			ok = fmt.Sprint(a) == fmt.Sprint(b) && len(u.Later) > 0
		}
		if !ok {
			w.t.Fatalf("undo of %s says %q is %s (later %q), but it was %v and is %v", k.name, u.Path, u.Outcome, u.Later, b, a)
		}
		for _, l := range u.Later {
			if later[l] == nil {
				w.t.Fatalf("undo of %s names %s as a later layer of %q", k.name, l, u.Path)
			}
		}
		if u.Outcome == Conflict && !slices.Contains(later[u.Later[0]].saw, k) {
			w.t.Fatalf("undo of %s: conflict at %q with a task that never saw it", k.name, u.Path)
		}
		said[u.Path] = u.Outcome
	}
	for p := range merge(before, after) {
		b, a := before[p], after[p]
		if b != nil && a != nil && b.kind == a.kind && b.sum == a.sum && b.target == a.target && b.mode == a.mode {
			continue
		}
		folder := (a == nil || a.kind == "folder") && (b == nil || b.kind == "folder")
		if s := said[p]; s != Removed && s != Restored && !(folder && anyBelow(p, said)) {
			w.t.Fatalf("undo of %s says %q of %q, but it was %v and is %v", k.name, s, p, b, a)
		}
	}
}

// restart is what a new boxd does.
func (w *world) restart() {
	w.m.Close()
	var dirs []string
	for _, k := range append(slices.Clone(w.live), w.open...) {
		if _, err := Recover(k.view.Layer); err != nil {
			w.t.Fatal(err)
		}
		dirs = append(dirs, k.view.Layer)
	}
	if _, err := RecoverBase(w.base, dirs); err != nil {
		w.t.Fatal(err)
	}
	var err error
	if w.m, err = NewMounter(); err != nil {
		w.t.Fatal(err)
	}
}

// fold puts the oldest layers into the base, where no open task saw fewer.
func (w *world) fold() {
	n := 1 + w.r.IntN(3)
	if n > len(w.live) || len(w.open) > 0 {
		return
	}
	old := w.live[len(w.live)-n:]
	var dirs []string
	var ms []modelLayer
	for _, k := range old {
		dirs = append(dirs, k.view.Layer)
		ms = append(ms, k.model.own)
	}
	if err := Fold(w.t.Context(), w.base, dirs); err != nil {
		w.t.Fatal(err)
	}
	w.baseM = all(append(ms, w.baseM))
	for p, x := range w.baseM {
		y := *x
		y.opaque = false
		w.baseM[p] = &y
	}
	w.check("after folding, before the layers are dropped")
	w.live = w.live[:len(w.live)-n]
	w.check("after folding")
	for _, d := range dirs {
		if s, _ := StateOf(d); s != StateApplied {
			w.t.Fatalf("%s is %s after folding", d, s)
		}
		if err := Drop(d); err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestUndoProperty(t *testing.T) {
	needRoot(t)
	t.Run("ext4 or what the temporary folder is on", func(t *testing.T) { undoProperty(t, t.TempDir()) })
	t.Run("xfs with reflinks", func(t *testing.T) { undoProperty(t, xfsFolder(t)) })
}

func undoProperty(t *testing.T, dir string) {
	for range *roundsFlag {
		seed := *seedFlag
		if seed == 0 {
			seed = uint64(time.Now().UnixNano())
		}
		t.Log("seed", seed)
		w := &world{t: t, r: rand.New(rand.NewPCG(seed, 1)), dir: filepath.Join(dir, fmt.Sprint(seed)), baseM: modelLayer{}}
		if err := os.Mkdir(w.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		w.base = filepath.Join(w.dir, "base")
		os.Mkdir(w.base, 0o755)
		os.Chown(w.base, Canonical, Canonical)
		var err error
		if w.m, err = NewMounter(); err != nil {
			t.Fatal(err)
		}
		for w.n < 30 || len(w.open) > 0 {
			switch x := w.r.IntN(10); {
			case x < 3 && w.n < 30 && len(w.open) < 3:
				w.start()
			case x < 6 && len(w.open) > 0:
				w.edit(w.open[w.r.IntN(len(w.open))])
			case x < 8 && len(w.open) > 0:
				w.seal(w.r.IntN(len(w.open)))
			case x == 8 && w.r.IntN(3) == 0:
				w.fold()
			case x == 9 && w.r.IntN(4) == 0:
				w.restart()
			}
		}
		for len(w.live) > 0 {
			w.undo(w.r.IntN(len(w.live)))
			if w.r.IntN(5) == 0 {
				w.restart()
			}
		}
		w.m.Close()
		left, _ := os.ReadDir(w.dir)
		if len(left) != 1 || left[0].Name() != "base" {
			t.Errorf("left over: %v", left)
		}
		os.RemoveAll(w.dir)
	}
}

// xfsFolder gives a folder on a fresh XFS with reflinks, on a loop device.
func xfsFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	img, mnt := filepath.Join(dir, "img"), filepath.Join(dir, "mnt")
	os.Mkdir(mnt, 0o755)
	for _, c := range [][]string{
		{"truncate", "-s", "400M", img},
		{"mkfs.xfs", "-q", "-m", "reflink=1", img},
		{"mount", "-o", "loop", img, mnt},
	} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("needs xfsprogs and a loop device: %q: %v %s", c, err, out)
		}
	}
	t.Cleanup(func() {
		if err := unix.Unmount(mnt, 0); err != nil {
			t.Errorf("the file system is still in use: %v", err)
			unix.Unmount(mnt, unix.MNT_DETACH)
		}
	})
	return mnt
}
