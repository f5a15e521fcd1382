package durable_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gurtos/core/durable"
	"gurtos/core/durable/powercut"
)

// cutReplace replaces a file, with the power gone after n operations and one sync
// forgotten (0 for none), and says what is wrong afterwards.
func cutReplace(t *testing.T, n, forget int, seed uint64) (done bool, fault error) {
	t.Helper()
	dir := t.TempDir()
	name := filepath.Join(dir, "settings.json")
	oldText, newText := strings.Repeat("old", 700), strings.Repeat("new", 900)
	if err := os.WriteFile(name, []byte(oldText), 0o600); err != nil {
		t.Fatal(err)
	}
	d := powercut.New(dir)
	d.CutAfter(n)
	d.Fail(func(op powercut.Op) error {
		if op.N == forget {
			return powercut.Skip
		}
		return nil
	})
	err := durable.Replace(d, name, []byte(newText), 0o640)
	if err != nil && !errors.Is(err, powercut.ErrOff) {
		t.Fatal(err)
	}
	done = err == nil
	if err := d.Cut(seed); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(name)
	switch {
	case err != nil:
		return done, err
	case done && string(got) != newText:
		return done, errors.New("it was answered and isn't there")
	case string(got) != newText && string(got) != oldText:
		return done, errors.New("neither the old nor the new contents")
	}
	if done {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o640 {
			return done, errors.New("another mode")
		}
	}
	// A leftover is no hindrance.
	if err := durable.Replace(powercut.New(dir), name, []byte("third"), 0o600); err != nil {
		return done, err
	}
	return done, nil
}

func TestReplaceSurvivesAnyCut(t *testing.T) {
	for seed := range uint64(12) {
		for n := 0; ; n++ {
			done, fault := cutReplace(t, n, 0, seed)
			if fault != nil {
				t.Errorf("cut after %d operations, seed %d: %v", n, seed, fault)
			}
			if done {
				break
			}
		}
	}
}

// TestReplaceNeedsEverySync forgets each sync in turn and must see a cut that
// shows it.
func TestReplaceNeedsEverySync(t *testing.T) {
	var syncs []powercut.Op
	dir := t.TempDir()
	d := powercut.New(dir)
	d.Fail(func(op powercut.Op) error {
		if op.Kind == powercut.Sync || op.Kind == powercut.SyncDir {
			syncs = append(syncs, op)
		}
		return nil
	})
	if err := durable.Replace(d, dir+"/settings.json", []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if len(syncs) != 2 {
		t.Fatalf("syncs %v, want the file's and the folder's", syncs)
	}
	for _, op := range syncs {
		caught := false
		for seed := range uint64(12) {
			for n := 0; ; n++ {
				done, fault := cutReplace(t, n, op.N, seed)
				caught = caught || fault != nil
				if done {
					break
				}
			}
		}
		if !caught {
			t.Errorf("without %v no cut shows a fault", op)
		}
	}
}

func TestReplaceSaysWhatFailed(t *testing.T) {
	for _, kind := range []powercut.Kind{powercut.Create, powercut.Chmod, powercut.Write, powercut.Sync, powercut.Rename, powercut.SyncDir} {
		t.Run(string(kind), func(t *testing.T) {
			dir := t.TempDir()
			name := dir + "/f"
			os.WriteFile(name, []byte("old"), 0o600)
			d := powercut.New(dir)
			full := errors.New("no space left on device")
			d.Fail(func(op powercut.Op) error {
				if op.Kind == kind {
					return full
				}
				return nil
			})
			err := durable.Replace(d, name, []byte("new"), 0o600)
			if !errors.Is(err, full) || !strings.Contains(err.Error(), name) {
				t.Errorf("error %v", err)
			}
			if got, _ := os.ReadFile(name); string(got) != "old" && kind != powercut.SyncDir {
				t.Errorf("contents %q after an error", got)
			}
			if _, err := os.Stat(name + ".new"); err == nil {
				t.Error("the unfinished file is left")
			}
		})
	}
}

func TestMkdirAll(t *testing.T) {
	for n := 0; ; n++ {
		dir := t.TempDir()
		d := powercut.New(dir)
		d.CutAfter(n)
		err := durable.MkdirAll(d, dir+"/a/b/c", 0o700)
		if err := d.Cut(0); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			continue
		}
		if _, err := os.Stat(dir + "/a/b/c"); err != nil {
			t.Errorf("answered and gone: %v", err)
		}
		break
	}
}

func TestLock(t *testing.T) {
	name := t.TempDir() + "/f"
	first, err := durable.Disk.Open(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	second, err := durable.Disk.Open(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if err := first.Lock(); err != nil {
		t.Fatal(err)
	}
	if err := second.Lock(); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("a second lock: %v", err)
	}
	looker, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer looker.Close()
	if held, err := durable.Locked(looker); err != nil || !held {
		t.Errorf("looking at a lock that is held: %v, %v", held, err)
	}
	first.Close()
	if held, err := durable.Locked(looker); err != nil || held {
		t.Errorf("looking at a lock that was given back: %v, %v", held, err)
	}
	if err := second.Lock(); err != nil {
		t.Errorf("after the first is closed: %v", err)
	}
}
