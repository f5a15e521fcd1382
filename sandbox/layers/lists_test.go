package layers

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func listChanges(ctx context.Context, v View) (all []Change, err error) {
	err = EachChange(ctx, v, nil, func(c Change, _ []string) error {
		all = append(all, c)
		return nil
	})
	return all, err
}

func listUndo(ctx context.Context, now View, layer string) (all []UndoPath, err error) {
	err = UndoPreview(ctx, now, layer, func(p UndoPath) error {
		all = append(all, p)
		return nil
	})
	return all, err
}

// However many paths a layer has, no list of them is in memory: not of its changes, as it is written and sealed, not of those of layers beside it,
// not of what undo would do.
func TestListsAreNotKept(t *testing.T) {
	const folders, files = 20, 200
	m := newMounter(t)
	dir := t.TempDir()
	base := ownedBase(t, dir, "")
	fill := `for d in {1..20}; do mkdir $d; (cd $d; touch ` + strings.Repeat("n", 230) + `{1..200}); done`
	open := View{Base: base, Layer: newLayer(t, filepath.Join(dir, "open"))}
	inTask(t, m, open, fill)
	first := runTask(t, m, base, nil, filepath.Join(dir, "first"), fill)
	beside := runTask(t, m, base, nil, filepath.Join(dir, "beside"), fill)
	later := runTask(t, m, base, []string{first.Layer}, filepath.Join(dir, "later"), `rm -r *`)
	now := View{Base: base, Lowers: []string{later.Layer, beside.Layer, first.Layer}}
	each := func(v View, others ...string) func(func()) error {
		return func(told func()) error {
			return EachChange(t.Context(), v, others, func(_ Change, also []string) error {
				if len(also) != len(others) {
					t.Fatalf("%d of %d layers change it too", len(also), len(others))
				}
				told()
				return nil
			})
		}
	}
	undo := func(layer string) func(func()) error {
		return func(told func()) error {
			return UndoPreview(t.Context(), now, layer, func(UndoPath) error { told(); return nil })
		}
	}
	for _, c := range []struct {
		name string
		list func(told func()) error
	}{
		{"changes of an open layer", each(open)},
		{"changes of a sealed layer", each(first)},
		{"changes, beside another layer's", each(first, beside.Layer)},
		{"what was deleted", each(later)},
		{"undo", undo(first.Layer)},
		{"undo of what was deleted", undo(later.Layer)},
	} {
		t.Run(c.name, func(t *testing.T) {
			told, most := 0, uint64(0)
			before := inUse()
			err := c.list(func() {
				if told++; told%1000 == 0 {
					most = max(most, inUse())
				}
			})
			if err != nil || told != folders*files {
				t.Fatalf("%d paths of %d, %v", told, folders*files, err)
			}
			// The paths alone are 0.9 MB, and those of one folder 47 KB.
			if grown := int64(most) - int64(before); grown > 300<<10 {
				t.Errorf("%d bytes more are in memory", grown)
			}
		})
	}
}

// inUse is the memory of what can still be reached.
func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A layer that is deleted while its list is read is told to be, and not that it lacks a file.
func TestDeletedWhileItIsRead(t *testing.T) {
	m := newMounter(t)
	dir := t.TempDir()
	v := runTask(t, m, ownedBase(t, dir, ""), nil, filepath.Join(dir, "l"), `echo 1 > a`)
	for _, deleted := range []bool{false, true} {
		err := eachRecord(t.Context(), View{Layer: v.Layer}, func(record) error {
			if deleted {
				if err := Drop(v.Layer); err != nil {
					t.Fatal(err)
				}
			}
			_, err := os.Stat(filepath.Join(v.Layer, "none"))
			return err
		})
		if errors.Is(err, ErrGone) != deleted || errors.Is(err, os.ErrNotExist) == deleted {
			t.Errorf("deleted %v: %v", deleted, err)
		}
	}
}

// Lists of layers are in one order, whatever bytes stand in names: that of their folders.
func TestComparePaths(t *testing.T) {
	paths := []string{"a", "a/b", "a/b/c", "a/b-c", "a/\x01", "a\x01", "a\x01/b", "a-b", "a-b/c", "a.b", "a0", "ab", "ab/", "b", "\xff/a", "\xff"}
	for _, a := range paths {
		for _, b := range paths {
			want := slices.Compare(strings.Split(a, "/"), strings.Split(b, "/"))
			if got := comparePaths(a, b); cmp.Compare(got, 0) != want {
				t.Errorf("%q and %q compare as %d, want %d", a, b, got, want)
			}
		}
	}
}
