package layers

import (
	"crypto/sha256"
	"fmt"
	"path"
	"slices"
	"strings"
)

// A model of views that knows nothing of file systems: a layer is a map from
// paths to what it puts there, and a view is looked up path by path.

type thing struct {
	kind   string // file, folder, symlink; "gone" hides what is below
	sum    string // of a file's content
	target string
	mode   uint32
	mtime  int64 // of files and links, ns
	attr   string
	opaque bool
}

func (x thing) String() string {
	return fmt.Sprintf("%s %s%s %o %d %q", x.kind, x.sum, x.target, x.mode, x.mtime, x.attr)
}

type modelLayer map[string]*thing

// look finds a path in layers, newest first. nil is nothing.
func look(layers []modelLayer, p string) *thing {
	if p == "." {
		return &thing{kind: "folder"}
	}
	for _, l := range layers {
		hidden := false
		for q := path.Dir(p); q != "."; q = path.Dir(q) {
			if x := l[q]; x != nil && (x.kind != "folder" || x.opaque) {
				hidden = true
			}
		}
		if x := l[p]; x != nil {
			if x.kind == "gone" {
				return nil
			}
			return x
		}
		if hidden {
			return nil
		}
	}
	return nil
}

// all lists a view: only what can be reached through folders.
func all(layers []modelLayer) map[string]*thing {
	cand := map[string]bool{}
	for _, l := range layers {
		for p := range l {
			cand[p] = true
		}
	}
	view := map[string]*thing{}
	for p := range cand {
		ok := true
		for q := path.Dir(p); q != "."; q = path.Dir(q) {
			if x := look(layers, q); x == nil || x.kind != "folder" {
				ok = false
			}
		}
		if x := look(layers, p); ok && x != nil {
			view[p] = x
		}
	}
	return view
}

// A modelTask is a running task: its own layer over those it saw.
type modelTask struct {
	own   modelLayer
	below []modelLayer
}

func (t *modelTask) layers() []modelLayer    { return append([]modelLayer{t.own}, t.below...) }
func (t *modelTask) see(p string) *thing     { return look(t.layers(), p) }
func (t *modelTask) saw(p string) bool       { return look(t.below, p) != nil }
func (t *modelTask) view() map[string]*thing { return all(t.layers()) }

// touch copies a path and the folders above it up into the layer.
func (t *modelTask) touch(p string) *thing {
	if p == "." {
		return &thing{kind: "folder"}
	}
	t.touch(path.Dir(p))
	if x := t.own[p]; x != nil {
		return x
	}
	x := *t.see(p)
	x.opaque = false
	t.own[p] = &x
	return &x
}

// put sets a path. A folder in place of something below hides it.
func (t *modelTask) put(p string, x thing) {
	t.touch(path.Dir(p))
	x.opaque = x.kind == "folder" && t.saw(p)
	t.own[p] = &x
}

func (t *modelTask) remove(p string) {
	t.touch(path.Dir(p))
	for q := range t.own {
		if q == p || strings.HasPrefix(q, p+"/") {
			delete(t.own, q)
		}
	}
	if t.saw(p) {
		t.own[p] = &thing{kind: "gone"}
	}
}

// move renames; the whole of a folder is in the layer afterwards.
func (t *modelTask) move(from, to string) {
	moved := map[string]*thing{}
	for p, x := range t.view() {
		if p == from || strings.HasPrefix(p, from+"/") {
			if t.own[p] == nil { // else names of one file go on being that
				y := *x
				x = &y
			}
			moved[to+strings.TrimPrefix(p, from)] = x
		}
	}
	t.remove(from)
	if t.see(to) != nil {
		t.remove(to)
	}
	t.touch(path.Dir(to))
	for p, x := range moved {
		x.opaque = false
		t.own[p] = x
	}
	if t.own[to].kind == "folder" && t.saw(to) {
		t.own[to].opaque = true
	}
}

func sum(b []byte) string { return fmt.Sprintf("%x", sha256.Sum256(b))[:16] }

// compareViews says how two views differ, "" when they don't.
func compareViews(want, got map[string]*thing) string {
	var diffs []string
	for p, w := range want {
		g := got[p]
		if g == nil {
			diffs = append(diffs, fmt.Sprintf("%q missing, want %v", p, w))
		} else if w.String() != g.String() {
			diffs = append(diffs, fmt.Sprintf("%q is %v, want %v", p, g, w))
		}
	}
	for p, g := range got {
		if want[p] == nil {
			diffs = append(diffs, fmt.Sprintf("%q is %v, want nothing", p, g))
		}
	}
	slices.Sort(diffs)
	return strings.Join(diffs[:min(len(diffs), 12)], "\n")
}
