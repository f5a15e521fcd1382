package build

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"gurtos/image/step"
	"gurtos/image/uki"
)

// TestSameBytes makes initramfs and UKI twice from what was built here.
func TestSameBytes(t *testing.T) {
	b, err := Open(t.Context(), "../..", false, step.NewShow(io.Discard, false))
	if err != nil {
		t.Fatal(err)
	}
	c, err := b.chain(t.Context())
	if err != nil || !b.store.Has(c.base) {
		t.Skipf("nothing to make them of is built here (%v): make image", err)
	}
	twice := func(file string, make func(context.Context, *step.Work) error) []byte {
		t.Helper()
		var made [2][]byte
		for i := range made {
			dir := t.TempDir()
			if err := make(t.Context(), step.NewWork(dir, t.TempDir(), t.Output())); err != nil {
				t.Fatal(err)
			}
			if made[i], err = os.ReadFile(filepath.Join(dir, file)); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(made[0], made[1]) {
			t.Errorf("%s: the same inputs gave other bytes", file)
		}
		return made[0]
	}
	initrd := twice(InitrdFile, b.makeInitrd)
	whole := twice(UKIFile, func(ctx context.Context, w *step.Work) error { return b.makeUKI(ctx, w, c) })
	parts, err := uki.Read(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(parts.Initrd, initrd) {
		t.Error("the UKI holds another initramfs than the one that its inputs give")
	}
	if want := b.cmdline(idOf(c.system.Key()), idOf(c.tasks.Key())); parts.Cmdline != want {
		t.Errorf("the UKI's command line is %q, want %q", parts.Cmdline, want)
	}
}
