package layers

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkMount mounts and lets go of a view through a cached user namespace.
func BenchmarkMount(b *testing.B) {
	m := newMounter(b)
	for _, n := range []int{0, 10, 100, 400} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			dir, err := os.MkdirTemp("/dev/shm", "layers")
			if err != nil {
				b.Fatal(err)
			}
			defer os.RemoveAll(dir)
			v := View{Base: filepath.Join(dir, "base"), Layer: newLayer(b, filepath.Join(dir, "top"))}
			os.Mkdir(v.Base, 0o755)
			for i := range n {
				v.Lowers = append(v.Lowers, sealedEmpty(b, filepath.Join(dir, fmt.Sprint("l", i))))
			}
			ns, err := m.Userns(1)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				mt, err := m.Mount(v, ns)
				if err != nil {
					b.Fatal(err)
				}
				mt.Close()
			}
		})
	}
}

func BenchmarkUserns(b *testing.B) {
	needRoot(b)
	for b.Loop() {
		f, err := NewUserns(IDMap{0, 0}, IDMap{Canonical, UID(1)})
		if err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
}

// BenchmarkCreateSealDrop is what an empty task costs in layers.
func BenchmarkCreateSealDrop(b *testing.B) {
	needRoot(b)
	dir := b.TempDir()
	for b.Loop() {
		l := newLayer(b, filepath.Join(dir, "l"))
		if err := Seal(b.Context(), View{Layer: l}); err != nil {
			b.Fatal(err)
		}
		if err := Drop(l); err != nil {
			b.Fatal(err)
		}
	}
}

// sealedEmpty makes a sealed layer without the work of sealing.
func sealedEmpty(t testing.TB, dir string) string {
	t.Helper()
	newLayer(t, dir)
	h, err := holdLayer(dir, true)
	if err != nil {
		t.Fatal(err)
	}
	defer h.release()
	h.meta.State = StateSealed
	if err := h.setMeta(h.meta); err != nil {
		t.Fatal(err)
	}
	return dir
}
