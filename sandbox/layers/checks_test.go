package layers

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// checkChanges holds that the changes turn before into after.
func (w *world) checkChanges(k *task, before, after map[string]*thing) {
	changes, err := listChanges(w.t.Context(), View{Layer: k.view.Layer})
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
	preview, err := listUndo(w.t.Context(), w.now(), k.view.Layer)
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
