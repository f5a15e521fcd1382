package layers

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Whatever tasks did and whichever of their layers two views have, Between says what a
// look at each file of both says.
func TestBetweenProperty(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	for range *roundsFlag {
		seed := *seedFlag
		if seed == 0 {
			seed = uint64(time.Now().UnixNano())
		}
		t.Log("seed", seed)
		w := &world{t: t, r: rand.New(rand.NewPCG(seed, 7)), dir: filepath.Join(dir, fmt.Sprint(seed)), baseM: modelLayer{}}
		w.base = filepath.Join(w.dir, "base")
		if err := os.MkdirAll(w.base, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(w.base, Canonical, Canonical); err != nil {
			t.Fatal(err)
		}
		var err error
		if w.m, err = NewMounter(); err != nil {
			t.Fatal(err)
		}
		differed := 0
		for w.n < 14 || len(w.open) > 0 {
			switch x := w.r.IntN(8); {
			case x < 3 && w.n < 14 && len(w.open) < 3:
				w.start()
			case x < 5 && len(w.open) > 0:
				w.edit(w.open[w.r.IntN(len(w.open))])
			case x < 7 && len(w.open) > 0:
				w.seal(w.r.IntN(len(w.open)))
				for range 3 {
					differed += w.between()
				}
			case x == 7 && w.r.IntN(3) == 0:
				w.fold()
			}
		}
		if differed == 0 {
			t.Error("no two views differed")
		}
		w.m.Close()
	}
}

// between holds two views of random layers against each other.
func (w *world) between() int {
	w.t.Helper()
	some := func() View {
		if w.r.IntN(10) == 0 {
			return View{}
		}
		v := View{Base: w.base}
		for _, k := range w.live {
			if w.r.IntN(4) != 0 {
				v.Lowers = append(v.Lowers, k.view.Layer)
			}
		}
		return v
	}
	was, is := some(), some()
	got, err := Between(w.t.Context(), was, is, func(p string) bool { return !strings.Contains(p, "a b") })
	if err != nil {
		w.t.Fatal(err)
	}
	olds, news := treeView(w.t, was), treeView(w.t, is)
	want := map[string]string{}
	for p := range both(olds, news) {
		o, n := olds[p], news[p]
		isFile := func(x *thing) bool { return x != nil && x.kind != "folder" }
		switch {
		case strings.Contains(p, "a b") || !isFile(o) && !isFile(n):
		case !isFile(o):
			want[p] = Added
		case !isFile(n):
			want[p] = Deleted
		case o.kind != n.kind || o.sum != n.sum || o.target != n.target:
			want[p] = Modified
		}
	}
	have := map[string]string{}
	for _, c := range got {
		have[c.Path] = c.Change
	}
	if !maps.Equal(have, want) || len(have) != len(got) {
		w.t.Fatalf("between %v and %v: %q, not %q", was, is, have, want)
	}
	if !slices.IsSortedFunc(got, func(a, b Change) int { return strings.Compare(a.Path, b.Path) }) {
		w.t.Fatal("not in order")
	}
	return len(got)
}

func both(a, b map[string]*thing) map[string]*thing {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
