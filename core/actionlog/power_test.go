package actionlog

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gurtos/core/durable"
	"gurtos/core/durable/powercut"
)

// scene is something that is done with a log until the power goes, and what must
// hold then.
type scene struct {
	name string
	// setup makes the folder as it is before.
	setup func(t *testing.T, dir string)
	// act does it on fs; what it has been answered it writes down.
	act func(fs *powercut.Disk, dir string, w *witness) error
	// opt opens the log afterwards.
	opt Options
	// check holds more than every scene must.
	check func(dir string, l *Log, w *witness) error
	// spare are the syncs that act could do without, and why they are there.
	spare map[string]string
}

// witness is what act was told.
type witness struct {
	steps  []string // appended and answered
	seen   []string // lines shown to a reader
	opened int64    // seq of what was remembered when it was open
	closed bool
	head   Mark // when it was closed
}

func (w *witness) append(l *Log, texts ...string) error {
	for _, text := range texts {
		if _, err := l.Append(context.Background(), step(text)); err != nil {
			return err
		}
		w.steps = append(w.steps, text)
	}
	return nil
}

func (w *witness) open(dir string, o Options) (*Log, error) {
	l, err := Open(dir, small(o))
	if err != nil {
		return nil, err
	}
	w.opened = l.journal.mark.Seq
	return l, l.Read(context.Background(), 0, func(line []byte, _ func() (Event, error)) error {
		w.seen = append(w.seen, string(line))
		return nil
	})
}

func (w *witness) close(l *Log) error {
	w.head = l.head
	err := l.Close()
	w.closed = err == nil
	return err
}

// play does a scene with the power gone after n operations, one sync forgotten,
// and says what is wrong afterwards. forget names a sync and counts it from 1.
func (s scene) play(t *testing.T, n int, seed uint64, forget string) (finished bool, fault error) {
	t.Helper()
	dir := memoryDir(t)
	defer os.RemoveAll(dir)
	s.setup(t, dir)
	disk := powercut.New(dir)
	disk.CutAfter(n)
	times := map[string]int{}
	disk.Fail(func(op powercut.Op) error {
		if name := syncName(op, times); name != "" && name == forget {
			return powercut.Skip
		}
		return nil
	})
	var w witness
	err := s.act(disk, dir, &w)
	if err != nil && !errors.Is(err, powercut.ErrOff) {
		t.Fatalf("%s: %v", s.name, err)
	}
	if seed > 0 {
		seed += uint64(n) << 32 // other luck at each cut
	}
	if err := disk.Cut(seed); err != nil {
		t.Fatal(err)
	}
	return err == nil, s.after(dir, &w)
}

// syncName names a sync by its kind, file and how often that came.
func syncName(op powercut.Op, times map[string]int) string {
	if op.Kind != powercut.Sync && op.Kind != powercut.Datasync && op.Kind != powercut.SyncDir {
		return ""
	}
	path := op.Path
	if strings.HasPrefix(path, "log.cut") || strings.HasPrefix(path, "log.damaged") {
		path = path[:strings.IndexByte(path, '-')]
	}
	name := fmt.Sprintf("%s %s", op.Kind, path)
	times[name]++
	return fmt.Sprintf("%s %d", name, times[name])
}

// after holds what must be so after any cut.
func (s scene) after(dir string, w *witness) error {
	was, err := recall(powercut.New(dir), dir)
	if err != nil {
		return err
	}
	switch remembered := was.head; {
	case remembered.Seq < w.opened:
		return fmt.Errorf("the log was open at line %d, remembered is %d", w.opened, remembered.Seq)
	case w.closed && remembered != w.head:
		return fmt.Errorf("closed at %d, remembered %d", w.head.Seq, remembered.Seq)
	}
	o := s.opt
	o.FS = powercut.New(dir)
	l, err := Open(dir, small(o))
	if err != nil {
		return err
	}
	defer l.Close()
	if c := l.Recovered().Cut; c != nil && c.Lost > 0 && !o.Quarantine {
		return fmt.Errorf("%d durable lines are gone", c.Lost)
	}
	var have []string
	err = l.Read(context.Background(), 0, func(line []byte, ev func() (Event, error)) error {
		have = append(have, string(line))
		e, err := ev()
		if err != nil {
			return err
		}
		if e.Type == TypeTaskStep {
			have = append(have, e.Text)
		}
		return kept(dir, e)
	})
	if err != nil {
		return err
	}
	for _, text := range append(slices.Clone(w.seen), w.steps...) {
		if !slices.Contains(have, text) {
			return fmt.Errorf("%s was answered or shown and is gone", text)
		}
	}
	if s.check != nil {
		if err := s.check(dir, l, w); err != nil {
			return err
		}
	}
	if err := w.append(l, "one more"); err != nil {
		return err
	}
	if err := l.Close(); err != nil {
		return err
	}
	if r, err := Verify(dir); err != nil || !r.OK() {
		return fmt.Errorf("verify: %s %w", r, err)
	}
	return nil
}

// kept holds that what a note says was kept is there.
func kept(dir string, e Event) error {
	if e.Type != TypeNote {
		return nil
	}
	line, err := Encode(&e)
	if err != nil {
		return err
	}
	n, err := readNote(line)
	if err != nil {
		return err
	}
	files := map[string]string{}
	if n.Cut != nil {
		files[n.Cut.File] = n.Cut.SHA256
	}
	for _, g := range n.Gaps {
		files[g.File] = g.SHA256
	}
	for file, sum := range files {
		if file == "" {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			return err
		}
		if hash(b) != sum {
			return fmt.Errorf("%s is not what was cut out", file)
		}
	}
	return nil
}

var scenes = []scene{
	{
		name:  "a new log",
		setup: func(*testing.T, string) {},
		act: func(fs *powercut.Disk, dir string, w *witness) error {
			l, err := w.open(dir, Options{FS: fs})
			if err != nil {
				return err
			}
			if err := w.append(l, "a", "b", "c", "d", "e", "f"); err != nil {
				l.Close()
				return err
			}
			return w.close(l)
		},
	},
	{
		name: "a log whose boxd was killed before the sync",
		setup: func(t *testing.T, dir string) {
			mustClose(t, mustOpen(t, dir, unsynced(dir)))
		},
		act: func(fs *powercut.Disk, dir string, w *witness) error {
			l, err := Open(dir, small(Options{FS: fs}))
			if err != nil {
				return err
			}
			l.journal.file = unsyncable{l.journal.file}
			l.Submit(step("a"))
			l.Close() // the sync of its last line fails: so it is with kill -9
			again, err := w.open(dir, Options{FS: fs})
			if err != nil {
				return err
			}
			return again.Close()
		},
		spare: map[string]string{
			"sync log.jsonl 1":      "the first start; the second does it again",
			"syncdir  1":            "nothing is new",
			"syncdir  2":            "nothing is new",
			"datasync log.commit 1": "the first start; the second does it again",
		},
	},
	{
		name:  "a log whose boxd was killed when it had made it",
		setup: func(*testing.T, string) {},
		act: func(fs *powercut.Disk, dir string, w *witness) error {
			if _, err := Open(dir, small(Options{FS: unsyncableDir{fs}})); !errors.Is(err, errKilled) {
				return err
			}
			l, err := w.open(dir, Options{FS: fs})
			if err != nil {
				return err
			}
			return w.close(l)
		},
		spare: map[string]string{
			"sync log.jsonl 1": "the first start; the second does it again",
			"sync log.jsonl 2": "the first start did it already",
		},
	},
	{
		name: "a torn tail",
		setup: func(t *testing.T, dir string) {
			l := mustOpen(t, dir, unsynced(dir))
			mustAppend(t, l, "a", "b")
			mustClose(t, l)
			whole := bytes.Join(read(t, dir), nil)
			write(t, dir, logName, append(whole, `{"seq":4,"at":"2026-0`...))
		},
		act: func(fs *powercut.Disk, dir string, w *witness) error {
			l, err := w.open(dir, Options{FS: fs})
			if err != nil {
				return err
			}
			if err := w.append(l, "c"); err != nil {
				l.Close()
				return err
			}
			return w.close(l)
		},
		spare: map[string]string{
			"sync log.jsonl 1":      "all of this log is durable already",
			"datasync log.commit 1": "what was remembered before is as true",
		},
	},
	{
		name: "a damaged line, cut out",
		setup: func(t *testing.T, dir string) {
			l := mustOpen(t, dir, unsynced(dir))
			mustAppend(t, l, "a", "b", "c")
			if err := l.SaveCheckpoint(4, []byte("made of a, b and c")); err != nil {
				t.Fatal(err)
			}
			mustClose(t, l)
			lines := read(t, dir)
			lines[2][20]++
			write(t, dir, logName, bytes.Join(lines, nil))
			kept, err := os.ReadFile(filepath.Join(dir, checkpointName))
			if err != nil {
				t.Fatal(err)
			}
			forget(t, dir) // the journal would put the line back
			if err := os.WriteFile(filepath.Join(dir, checkpointName), kept, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		act: func(fs *powercut.Disk, dir string, w *witness) error {
			l, err := w.open(dir, Options{FS: fs, Quarantine: true})
			if err != nil {
				return err
			}
			if err := w.append(l, "d"); err != nil {
				l.Close()
				return err
			}
			return w.close(l)
		},
		opt: Options{Quarantine: true},
		check: func(_ string, l *Log, w *witness) error {
			all := []string{}
			err := l.Read(context.Background(), 0, func(_ []byte, ev func() (Event, error)) error {
				e, err := ev()
				all = append(all, e.Text)
				return err
			})
			if err == nil && (!slices.Contains(all, "a") || !slices.Contains(all, "c")) {
				err = fmt.Errorf("whole lines are gone: %q", all)
			}
			if _, state, ok := l.LoadCheckpoint(); ok && err == nil {
				err = fmt.Errorf("a state that was made of what is cut out is still kept: %s", state)
			}
			return err
		},
		spare: map[string]string{
			"sync log.jsonl.new 2": "written anew, all of it is durable already",
			"syncdir  1":           "a file system that keeps names in their order needs none between the removal of the kept state and the rename",
		},
	},
}

var errKilled = errors.New("killed")

type unsyncable struct{ durable.File }

func (unsyncable) Datasync() error { return errKilled }

type unsyncableDir struct{ durable.FS }

func (unsyncableDir) SyncDir(string) error { return errKilled }

var cutSeeds = flag.Int("cut-seeds", 8, "how often the power is cut at each operation")

// TestPowerCut: at every moment of every scene.
func TestPowerCut(t *testing.T) {
	for _, s := range scenes {
		t.Run(s.name, func(t *testing.T) {
			cuts := 0
			for n := 0; ; n++ {
				finished := false
				for seed := range uint64(*cutSeeds) {
					var fault error
					if finished, fault = s.play(t, n, seed, ""); fault != nil {
						t.Errorf("power gone after %d operations, seed %d: %v", n, seed, fault)
					}
					cuts++
				}
				if finished {
					break
				}
			}
			t.Logf("%d cuts", cuts)
		})
	}
}

// TestEverySyncIsNeeded forgets one sync after the other and must see some cut
// show it.
func TestEverySyncIsNeeded(t *testing.T) {
	for i, s := range scenes {
		if (testing.Short() || racing) && i > 0 {
			return // the others take half a minute, and minutes under the race detector, which sees one goroutine here
		}
		t.Run(s.name, func(t *testing.T) {
			all := s.syncs(t)
			for name := range s.spare {
				if !slices.Contains(all, name) {
					t.Errorf("there is no %s to spare, only %q", name, all)
				}
			}
			for _, name := range all {
				caught := s.catches(t, name)
				if caught == nil && s.spare[name] == "" {
					t.Errorf("without %s no cut shows a fault", name)
				}
				t.Logf("without %s: %v", name, caught)
			}
		})
	}
}

// syncs are the names of all syncs of a scene.
func (s scene) syncs(t *testing.T) (all []string) {
	dir := t.TempDir()
	s.setup(t, dir)
	disk := powercut.New(dir)
	times := map[string]int{}
	disk.Fail(func(op powercut.Op) error {
		if name := syncName(op, times); name != "" {
			all = append(all, name)
		}
		return nil
	})
	if err := s.act(disk, dir, &witness{}); err != nil {
		t.Fatal(err)
	}
	return all
}

// catches is the first fault that a cut shows once a sync is forgotten. Luck may be
// needed to see it.
func (s scene) catches(t *testing.T, forget string) error {
	seeds := []uint64{8, 100}
	if s.spare[forget] != "" {
		seeds = seeds[:1]
	}
	for _, most := range seeds {
		for n, finished := 0, false; !finished; n++ {
			for seed := range most {
				var fault error
				if finished, fault = s.play(t, n, seed, forget); fault != nil {
					return fault
				}
			}
		}
	}
	return nil
}
