package step

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func open(t *testing.T) (*Store, *bytes.Buffer) {
	t.Helper()
	out := &bytes.Buffer{}
	s, err := Open(filepath.Join(t.TempDir(), "cache"), NewShow(out, false))
	if err != nil {
		t.Fatal(err)
	}
	return s, out
}

// counted is a step that writes one file and counts how often it ran.
func counted(n *int, in ...Input) Step {
	return Step{Name: "thing", What: "the thing", In: in, Make: func(_ context.Context, w *Work) error {
		*n++
		return os.WriteFile(filepath.Join(w.Dir, "out"), []byte("made"), 0o644)
	}}
}

func TestWhy(t *testing.T) {
	s, _ := open(t)
	n := 0
	base := []Input{{"recipe", strings.Repeat("a", 64)}, {"tool", "1.5"}}
	if _, err := s.Get(t.Context(), counted(&n, base...)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		holds string
		in    []Input
		want  []string
	}{
		{"the same inputs", base, nil},
		{"the same inputs in another order", []Input{base[1], base[0]}, nil},
		{"a long hash is not printed", []Input{{"recipe", strings.Repeat("b", 64)}, base[1]}, []string{"recipe changed"}},
		{"a short value is", []Input{base[0], {"tool", "1.8"}}, []string{"tool was 1.5 and is 1.8"}},
		{"a new input", append(slices.Clone(base), Input{"kernel", "6.12"}), []string{"kernel is new"}},
		{"a lost input", base[:1], []string{"tool is gone"}},
		{"two at once", []Input{{"recipe", strings.Repeat("b", 64)}}, []string{"recipe changed", "tool is gone"}},
	} {
		if got := s.Why(counted(&n, c.in...)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.holds, got, c.want)
		}
	}
	never := Step{Name: "other"}
	if got := s.Why(never); !slices.Equal(got, []string{"it was never made here"}) {
		t.Errorf("a step that never ran: %q", got)
	}
}

func TestMadeOnce(t *testing.T) {
	s, out := open(t)
	n := 0
	for range 3 {
		dir, err := s.Get(t.Context(), counted(&n, Input{"recipe", "1"}))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "out")); err != nil || string(b) != "made" {
			t.Fatalf("result: %q, %v", b, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "temp")); err == nil {
			t.Error("the scratch folder stayed in the result")
		}
	}
	if n != 1 {
		t.Errorf("made %d times, want once", n)
	}
	if !strings.Contains(out.String(), "✓ the thing") {
		t.Errorf("nothing said about it: %q", out)
	}
}

func TestFailureLeavesNothing(t *testing.T) {
	s, _ := open(t)
	st := Step{Name: "bad", What: "the bad thing", Make: func(_ context.Context, w *Work) error {
		os.WriteFile(filepath.Join(w.Dir, "half"), nil, 0o644)
		w.Log.Write([]byte("one\ntwo\nthree\n"))
		return errors.New("tool ended with 1")
	}}
	_, err := s.Get(t.Context(), st)
	var f *Failed
	if !errors.As(err, &f) || !strings.Contains(err.Error(), f.Log) {
		t.Fatalf("error %v does not name its log file", err)
	}
	if got := f.Tail(2); !slices.Equal(got, []string{"two", "three"}) {
		t.Errorf("tail %q", got)
	}
	if s.Has(st) {
		t.Error("a failed step has a result")
	}
	if left, _ := filepath.Glob(s.dir + "/new-*"); left != nil {
		t.Errorf("left behind: %v", left)
	}
}

func TestInterruptedIsRemovedAtOpen(t *testing.T) {
	s, _ := open(t)
	left := filepath.Join(s.dir, "new-0123456789abcdef-1")
	if err := os.MkdirAll(left+"/root", 0o755); err != nil {
		t.Fatal(err)
	}
	held := filepath.Join(s.dir, "new-fedcba9876543210-1")
	if err := os.MkdirAll(held, 0o755); err != nil {
		t.Fatal(err)
	}
	unlock, err := s.lock("fedcba9876543210", 2)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if _, err := Open(s.dir, s.show); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("what an interrupted build left is still there")
	}
	if _, err := os.Stat(held); err != nil {
		t.Error("what another process is making was removed")
	}
}

func TestRoom(t *testing.T) {
	s, _ := open(t)
	n := 0
	st := counted(&n)
	st.Room = 1 << 60
	if _, err := s.Get(t.Context(), st); err == nil || !strings.Contains(err.Error(), "needs 1152921504.6 GB of free disk") || n != 0 {
		t.Errorf("ran %d times with %v", n, err)
	}
}

func TestPrune(t *testing.T) {
	s, _ := open(t)
	n := 0
	var dirs []string
	for _, v := range []string{"1", "2", "3", "4"} {
		dir, err := s.Get(t.Context(), counted(&n, Input{"recipe", v}))
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	for i, age := range []time.Duration{40, 30, 20, 10} {
		then := time.Now().Add(-age * time.Hour)
		if err := os.Chtimes(dirs[i]+"/made.json", then, then); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Prune(1, 25*time.Hour); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, false, true, true} { // the newest stays in any case, the third is too young
		if _, err := os.Stat(dirs[i]); (err == nil) != want {
			t.Errorf("result %d there: %v, want %v", i+1, err == nil, want)
		}
	}
}
