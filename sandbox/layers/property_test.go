package layers

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var (
	seedFlag   = flag.Uint64("seed", 0, "seed of the property test; 0 takes the time")
	roundsFlag = flag.Int("rounds", 1, "rounds of the property test")
)

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

// TestUndoProperty needs no program but itself in the first part, so that the
// boot tests can run it on the shipped kernel and the data partition: as root,
// TMPDIR=/data layers.test -test.run 'TestUndoProperty/temporary' -rounds 3.
func TestUndoProperty(t *testing.T) {
	needRoot(t)
	t.Run("temporary folder", func(t *testing.T) { undoProperty(t, t.TempDir()) })
	t.Run("xfs on a loop device", func(t *testing.T) { undoProperty(t, xfsFolder(t)) })
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
	var at unix.Statfs_t
	if err := unix.Statfs(dir, &at); err == nil && at.Type == unix.XFS_SUPER_MAGIC {
		return dir // as on a box, which has no mkfs.xfs for tests
	}
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
