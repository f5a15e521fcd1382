package task

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gurtos/core/budget"
	"gurtos/core/durable"
	"gurtos/core/durable/powercut"
	"gurtos/netpolicy/meter"
)

func keeping(t *testing.T, disk durable.FS, home string) *Tasks {
	return &Tasks{fold: newFold(), opt: Options{
		Home: home, Disk: disk, Prices: budget.ListPrices(), Now: func() time.Time { return time.UnixMilli(1_800_000_000_000) }, Slog: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}}
}

// The power goes after each operation that keeps a call, and one that forgets a call which
// was free. What was answered holds afterwards.
func TestKeptCallsOutliveAPowerCut(t *testing.T) {
	most := meter.Usage{Model: "m", Input: 25, Output: 7, Estimate: true}
	play := func(free bool, n int, seed uint64) (whole bool) {
		home := t.TempDir()
		if free {
			if err := keeping(t, durable.Disk, home).keepCall("t1.A", "t1", most); err != nil {
				t.Fatal(err)
			}
		}
		disk := powercut.New(home)
		disk.CutAfter(n)
		b := keeping(t, disk, home)
		if free {
			b.forgetCall("t1.A", false)
			whole = disk.Ops() < n
		} else {
			err := b.keepCall("t1.A", "t1", most)
			if err != nil && !errors.Is(err, powercut.ErrOff) {
				t.Fatal(err)
			}
			whole = err == nil
		}
		if err := disk.Cut(seed); err != nil {
			t.Fatal(err)
		}
		kept, err := keeping(t, durable.Disk, home).keptCalls()
		if err != nil {
			t.Fatal(err)
		}
		k, there := kept["t1.A"]
		if there && k != (keptCall{keptVersion, "t1", "m", 25, 7, 1_800_000_000_000, 0}) || whole && there == free {
			t.Errorf("free %v, cut after %d operations: %+v, kept %v", free, n, k, there)
		}
		if left, err := filepath.Glob(filepath.Join(home, "model-calls", "*.new")); err != nil || len(left) > 0 {
			t.Errorf("cut after %d operations: %q, %v are left", n, left, err)
		}
		return whole
	}
	for _, free := range []bool{false, true} {
		for n, whole := 0, false; !whole; n++ {
			for seed := range uint64(16) { // what of the unsynced is there after all
				whole = play(free, n, seed)
			}
		}
	}
}

// A call that can't be kept is not made, and its program reads why.
func TestCallThatCannotBeKept(t *testing.T) {
	for what, fails := range map[string]func(op powercut.Op) bool{
		"the disk is full":         func(op powercut.Op) bool { return strings.HasSuffix(op.Path, ".new") },
		"its name is not on disk":  func(op powercut.Op) bool { return op.Kind == powercut.SyncDir && op.Path == "model-calls" },
		"its folder is not either": func(op powercut.Op) bool { return op.Kind == powercut.Mkdir },
	} {
		home := t.TempDir()
		disk := powercut.New(home)
		disk.Fail(func(op powercut.Op) error {
			if fails(op) {
				return syscall.ENOSPC
			}
			return nil
		})
		q := &queue{Tasks: keeping(t, disk, home)}
		c := &modelCall{wire: modelWire{wire: &wire{q: q, id: "t1"}, calls: &modelCalls{}}, name: "t1.A"}
		err := c.Asked(meter.Usage{Model: "m", Input: 25, Output: 7})
		if err == nil || !strings.Contains(err.Error(), "so the model was not asked: ") || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%s: %v", what, err)
		}
		c.Over()
		if kept, err := q.keptCalls(); err != nil || len(kept) > 0 {
			t.Errorf("%s: %v, %v", what, kept, err)
		}
	}
}

// What was free is kept no more, nor is what is booked; what could not be booked is, for
// the next start.
func TestCallsThatAreOver(t *testing.T) {
	home := t.TempDir()
	q := &queue{Tasks: keeping(t, durable.Disk, home)}
	for name, c := range map[string]modelCall{"free": {}, "booked": {used: true}, "lost": {used: true, lost: true}} {
		c.wire, c.name = modelWire{wire: &wire{q: q, id: "t1"}, calls: &modelCalls{}}, name
		if err := c.Asked(meter.Usage{Model: "m", Input: 25, Output: 7}); err != nil {
			t.Fatal(err)
		}
		c.Over()
	}
	kept, err := q.keptCalls()
	if _, lost := kept["lost"]; err != nil || len(kept) != 1 || !lost {
		t.Errorf("%v, %v", kept, err)
	}
}
