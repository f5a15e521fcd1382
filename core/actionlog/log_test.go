package actionlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"gurtos/core/durable"
	"gurtos/core/durable/powercut"
)

// TestManyWriters: batches are whole and in one piece, every answered line is
// durable, nobody reads one that isn't, and all share syncs.
func TestManyWriters(t *testing.T) {
	const writers, batches = 32, 30
	dir := t.TempDir()
	disk := powercut.New(dir)
	l := mustOpen(t, dir, Options{FS: disk})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg, readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			next := int64(0)
			err := l.Follow(ctx, 0, func(_ []byte, ev func() (Event, error)) error {
				e, err := ev()
				if next++; err == nil && e.Seq != next {
					err = fmt.Errorf("line %d came as number %d", e.Seq, next)
				}
				if head, _ := l.Head(); err == nil && head < e.Seq {
					err = fmt.Errorf("line %d was shown, the durable head is %d", e.Seq, head)
				}
				if err == nil && next == 1+writers*batches*2 {
					err = errEnough
				}
				return err
			})
			if !errors.Is(err, errEnough) {
				t.Error(err)
			}
		})
	}
	for w := range writers {
		wg.Go(func() {
			for i := range batches {
				name := fmt.Sprintf("%d.%d", w, i)
				evs := []Event{step(name + "a"), step(name + "b")}
				last, err := l.Submit(evs...)
				if err != nil || evs[1].Seq != last || evs[0].Seq != last-1 || evs[1].Prev == "" {
					t.Errorf("submit: %d, %v, %+v", last, err, evs)
				}
				if err := l.Wait(ctx, last); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	readers.Wait()
	all := texts(events(t, l))
	for i := 0; i < len(all); i += 2 {
		if strings.TrimSuffix(all[i], "a") != strings.TrimSuffix(all[i+1], "b") {
			t.Fatalf("a batch is torn apart: %q, %q", all[i], all[i+1])
		}
	}
	if len(all) != writers*batches*2 {
		t.Errorf("%d lines", len(all))
	}
	if err := disk.Cut(0); err != nil {
		t.Fatal(err)
	}
	after := mustOpen(t, dir, Options{FS: powercut.New(dir)})
	if got := texts(events(t, after)); len(got) != len(all) {
		t.Errorf("%d of %d answered lines are left", len(got), len(all))
	}
}

var errEnough = errors.New("enough")

// TestGroupCommit: what is submitted while the disk is busy goes with one sync.
func TestGroupCommit(t *testing.T) {
	l := mustOpen(t, t.TempDir(), Options{})
	busy, free := make(chan struct{}), make(chan struct{})
	var syncs atomic.Int32
	l.journal.file = &gated{File: l.journal.file, sync: func() {
		if syncs.Add(1) == 1 {
			close(busy)
			<-free
		}
	}}
	l.Submit(step("first"))
	<-busy
	var last int64
	for i := range 100 {
		last, _ = l.Submit(step(fmt.Sprint(i)))
	}
	if head, _ := l.Head(); head != 1 {
		t.Errorf("head %d while nothing is synced", head)
	}
	if all := texts(events(t, l)); len(all) != 0 {
		t.Errorf("shown before the sync: %q", all)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Wait(ctx, last); !errors.Is(err, context.Canceled) {
		t.Errorf("wait without patience: %v", err)
	}
	close(free)
	if err := l.Wait(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	// The second batch may find the round full, and syncs twice then.
	if n := syncs.Load(); n > 3 {
		t.Errorf("%d syncs for 101 lines", n)
	}
}

// gated is a file that calls sync before each sync.
type gated struct {
	durable.File
	sync func()
}

func (g *gated) Datasync() error {
	g.sync()
	return g.File.Datasync()
}

// TestBroken: after a failed write or sync nothing is answered any more, with the
// reason, and what was durable can still be read.
func TestBroken(t *testing.T) {
	for _, kind := range []powercut.Kind{powercut.Write, powercut.Datasync} {
		t.Run(string(kind), func(t *testing.T) {
			dir := t.TempDir()
			disk := powercut.New(dir)
			l := mustOpen(t, dir, Options{FS: disk})
			mustAppend(t, l, "a")
			disk.Fail(func(op powercut.Op) error {
				if op.Kind == kind {
					return syscall.EIO
				}
				return nil
			})
			done := make(chan error, 1)
			go func() {
				done <- l.Follow(context.Background(), 0, func([]byte, func() (Event, error)) error { return nil })
			}()
			_, err := l.Append(t.Context(), step("b"))
			if !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "can't be written any more") {
				t.Errorf("append: %v", err)
			}
			disk.Fail(nil)
			if _, again := l.Append(t.Context(), step("c")); again == nil || again.Error() != err.Error() {
				t.Errorf("append after that: %v", again)
			}
			if again := l.Wait(t.Context(), 3); again == nil {
				t.Error("wait for a line that was never durable")
			}
			if l.Err() == nil || (<-done).Error() != err.Error() {
				t.Error("followers aren't told")
			}
			if got := texts(events(t, l)); len(got) != 1 {
				t.Errorf("read %q", got)
			}
			if l.Close() == nil {
				t.Error("closed without a word")
			}
		})
	}
}

// TestSubmitRefuses: a refused batch leaves nothing behind.
func TestSubmitRefuses(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir, Options{})
	for name, evs := range map[string][]Event{
		"an unknown type":     {step("x"), {Type: "what"}},
		"a line too long":     {step("x"), step(strings.Repeat("x", maxLine))},
		"a batch too long":    {step(strings.Repeat("x", maxLine-500)), step(strings.Repeat("x", maxLine-500)), step("x"), step(strings.Repeat("x", 1000))},
		"a missing task":      {{Type: TypeTaskStep}},
		"something not JSON":  {{Type: TypeNote, Data: []byte("{")}},
		"a field of another":  {{Type: TypeNote, Text: "x"}},
		"keep is not for now": {{Type: TypeKeep, Task: "t1"}},
	} {
		if last, err := l.Submit(evs...); err == nil {
			t.Errorf("%s: submitted as %d", name, last)
		}
	}
	if last, err := l.Submit(); err != nil || last != 1 {
		t.Errorf("nothing: %d, %v", last, err)
	}
	if err := l.Wait(t.Context(), 2); err == nil {
		t.Error("waited for a line that was never submitted")
	}
	mustAppend(t, l, strings.Repeat("x", maxLine-500), "y")
	mustClose(t, l)
	if r := mustVerify(t, dir); !r.OK() || r.Lines != 3 {
		t.Errorf("%s", r)
	}
	if _, err := l.Submit(step("z")); !errors.Is(err, ErrClosed) {
		t.Errorf("submit after close: %v", err)
	}
	if err := l.Read(t.Context(), 0, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("read after close: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Errorf("close again: %v", err)
	}
}

func TestFollow(t *testing.T) {
	l := mustOpen(t, t.TempDir(), Options{})
	mustAppend(t, l, "a", "b")
	got := make(chan string)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	follow := func(after int64) {
		ended <- l.Follow(ctx, after, func(line []byte, ev func() (Event, error)) error {
			e, err := ev()
			got <- e.Text
			return err
		})
	}
	go follow(2)
	if text := <-got; text != "b" {
		t.Errorf("first %q", text)
	}
	mustAppend(t, l, "c")
	if text := <-got; text != "c" {
		t.Errorf("then %q", text)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	// From ahead of the end: what comes before it is left out.
	ctx = t.Context()
	go follow(5)
	mustAppend(t, l, "d", "e", "f")
	if text := <-got; text != "e" {
		t.Errorf("from line 6 on: %q", text)
	}
	<-got
	mustClose(t, l)
	if err := <-ended; !errors.Is(err, ErrClosed) {
		t.Errorf("ended with %v", err)
	}
}

func TestLockedOnce(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir, Options{})
	if _, err := Open(dir, small(Options{})); !errors.Is(err, durable.ErrLocked) {
		t.Errorf("opened twice: %v", err)
	}
	if r := mustVerify(t, dir); !r.Running || !r.OK() {
		t.Errorf("verify while it is open: %+v", r)
	}
	mustClose(t, l)
	if r := mustVerify(t, dir); r.Running {
		t.Error("running after close")
	}
}

// TestVerifyWhileWriting never sees a fault in what is being written.
func TestVerifyWhileWriting(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir, Options{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := l.Append(t.Context(), step(strings.Repeat("x", 3000))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 30 {
		if r := mustVerify(t, dir); !r.OK() {
			t.Fatalf("%s", r)
		}
	}
	close(stop)
	wg.Wait()
}

// indexed is a closed log of n steps, with the index that came of it.
func indexed(t testing.TB, n int) string {
	t.Helper()
	dir := t.TempDir()
	l := mustOpen(t, dir, Options{})
	evs := make([]Event, 100)
	for from := 0; from < n; from += len(evs) {
		for i := range evs {
			evs[i] = step(fmt.Sprint(from + i))
		}
		if _, err := l.Append(t.Context(), evs...); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, l)
	return dir
}

// reads counts what is read of the log.
type reads struct {
	durable.File
	bytes atomic.Int64
}

func (r *reads) ReadAt(p []byte, off int64) (int, error) {
	n, err := r.File.ReadAt(p, off)
	r.bytes.Add(int64(n))
	return n, err
}

// TestIndex: an index that is missing, old, of another log, or spoiled changes no
// answer; a good one saves reading what is before.
func TestIndex(t *testing.T) {
	const n = 3000
	from := indexed(t, n)
	index, err := os.ReadFile(filepath.Join(from, indexName))
	if err != nil || len(index) != (n+1)/indexEvery*indexSize+indexSize {
		t.Fatalf("index of %d bytes, %v", len(index), err)
	}
	other, err := os.ReadFile(filepath.Join(indexed(t, n), indexName))
	if err != nil {
		t.Fatal(err)
	}
	spoiled := bytes.Clone(index)
	for i := indexSize; i < len(spoiled); i += 7 {
		spoiled[i]++
	}
	for name, b := range map[string][]byte{
		"good":      index,
		"none":      nil,
		"old":       index[:5*indexSize],
		"torn":      index[:5*indexSize+11],
		"another's": other,
		"spoiled":   spoiled,
		"zeros":     make([]byte, len(index)),
		"too long":  append(bytes.Clone(index), index[indexSize:]...),
		"garbage":   bytes.Repeat([]byte("x"), 5000),
	} {
		t.Run(name, func(t *testing.T) {
			dir := copyDir(t, from)
			write(t, dir, indexName, b)
			l := mustOpen(t, dir, Options{Upfront: 20000})
			for _, after := range []int64{0, 1, 255, 256, 257, 1000, n - 1, n, n + 1, n + 5} {
				want := max(0, n+1-int(after))
				got := 0
				err := l.Read(t.Context(), after, func(_ []byte, ev func() (Event, error)) error {
					e, err := ev()
					if got++; err == nil && e.Seq != after+int64(got) {
						err = fmt.Errorf("line %d came as %d behind %d", e.Seq, got, after)
					}
					return err
				})
				if err != nil || got != want {
					t.Errorf("behind %d: %d lines, want %d (%v)", after, got, want, err)
				}
			}
			mustClose(t, l)
			// It is whole again, if only from where the start had to look.
			if name == "good" || name == "none" || name == "garbage" || name == "zeros" || name == "another's" {
				now, err := os.ReadFile(filepath.Join(dir, indexName))
				if err != nil || !bytes.Equal(now, index) {
					t.Errorf("the index wasn't made anew: %d bytes, %v", len(now), err)
				}
			}
		})
	}
	l := mustOpen(t, copyDir(t, from), Options{})
	count := &reads{File: l.file}
	l.file = count
	if err := l.Read(t.Context(), n-5, func([]byte, func() (Event, error)) error { return nil }); err != nil {
		t.Fatal(err)
	}
	info, _ := l.file.Stat()
	if got := count.bytes.Load(); got > info.Size()/2 {
		t.Errorf("%d of %d bytes read for the last lines", got, info.Size())
	}
}

// TestCheckedLater: damage before what Open looks at breaks the log soon after.
func TestCheckedLater(t *testing.T) {
	dir := indexed(t, 3000)
	mustClose(t, mustOpen(t, dir, Options{Upfront: 20000}))
	lines := read(t, dir)
	lines[40] = bytes.Replace(lines[40], []byte(`"text":"39"`), []byte(`"text":"93"`), 1)
	write(t, dir, logName, bytes.Join(lines, nil))
	told := make(chan error, 1)
	l := mustOpen(t, dir, Options{Upfront: 20000, Damaged: func(err error) { told <- err }})
	var damage *DamageError
	if err := <-told; !errors.As(err, &damage) || damage.First != 41 {
		t.Errorf("told %v", err)
	}
	if _, err := l.Append(t.Context(), step("x")); !errors.As(err, &damage) {
		t.Errorf("append: %v", err)
	}
	l.Close()
	// When all is looked at, Open refuses.
	if _, err := Open(dir, small(Options{})); !errors.As(err, &damage) || damage.First != 41 {
		t.Errorf("open: %v", err)
	}
}

func TestCheckpoint(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir, Options{})
	load := func(l *Log) string {
		seq, state, ok := l.LoadCheckpoint()
		if !ok {
			return "none"
		}
		return fmt.Sprintf("%d %s", seq, state)
	}
	if got := load(l); got != "none" {
		t.Errorf("a new log: %s", got)
	}
	mustAppend(t, l, "a", "b", "c")
	if err := l.SaveCheckpoint(9, []byte("x")); err == nil {
		t.Error("saved for a line that isn't there")
	}
	for _, seq := range []int64{2, 4} {
		if err := l.SaveCheckpoint(seq, fmt.Appendf(nil, "state\nof %d", seq)); err != nil {
			t.Fatal(err)
		}
	}
	if got := load(l); got != "4 state\nof 4" {
		t.Errorf("saved: %q", got)
	}
	mustClose(t, l)
	file := filepath.Join(dir, checkpointName)
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// Of another log with as many lines.
	otherDir := made(t, "a", "b", "c")
	for name, c := range map[string]struct {
		dir  string
		b    []byte
		want string
	}{
		"the same":        {dir, good, "4 state\nof 4"},
		"cut short":       {dir, good[:len(good)-1], "none"},
		"a state changed": {dir, bytes.Replace(good, []byte("state\n"), []byte("State\n"), 1), "none"},
		"a newer format":  {dir, bytes.Replace(good, []byte(`"format":1`), []byte(`"format":2`), 1), "none"},
		"another seq":     {dir, bytes.Replace(good, []byte(`"seq":4`), []byte(`"seq":3`), 1), "none"},
		"a seq too high":  {dir, bytes.Replace(good, []byte(`"seq":4`), []byte(`"seq":400`), 1), "none"},
		"garbage":         {dir, []byte("x\ny"), "none"},
		"empty":           {dir, nil, "none"},
		"another log's":   {otherDir, good, "none"},
	} {
		write(t, c.dir, checkpointName, c.b)
		l := mustOpen(t, c.dir, Options{})
		if got := load(l); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		mustClose(t, l)
	}
}

// TestRoom: a full disk shows before an append fails, the reserve then carries the
// log on, and it comes back when there is room.
func TestRoom(t *testing.T) {
	dir := t.TempDir()
	disk := powercut.New(dir)
	free := int64(1000)
	o := Options{FS: disk, Free: func() (int64, error) { return free, nil }, Reserve: 300, Low: 200, journal: 4 * journalBlock}
	l, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	want := func(when string, reserve int64, full bool) {
		t.Helper()
		room, err := l.Room()
		if err != nil || room != (Room{Free: free, Reserve: reserve, Full: full}) {
			t.Errorf("%s: %+v, %v; want reserve %d, full %v", when, room, err, reserve, full)
		}
	}
	want("at first", 300, false)
	free = 200
	want("just enough", 300, false)
	free = 199
	want("too little", 300, true)
	free = 399
	want("a little more", 300, true)
	free = 400
	want("twice what is needed", 300, false)

	free = 0
	want("nothing left", 300, true)
	fullWrites := 0
	disk.Fail(func(op powercut.Op) error {
		if op.Kind == powercut.Write && op.Path == logName && fullWrites == 0 {
			fullWrites++
			return &powercut.Short{N: 20, Err: syscall.ENOSPC}
		}
		return nil
	})
	mustAppend(t, l, "on the reserve")
	if _, err := os.Stat(filepath.Join(dir, reserveName)); err == nil {
		t.Error("the reserve is still there")
	}
	want("the reserve is given up", 0, true)
	free = 699
	want("not enough for both", 0, true)
	free = 700
	want("enough for both", 300, false)
	l.ReleaseReserve()
	want("released by hand, with room", 300, false)

	// No reserve and no room: broken.
	disk.Fail(func(op powercut.Op) error {
		if op.Kind == powercut.Write && op.Path == logName || op.Kind == powercut.Allocate {
			return syscall.ENOSPC
		}
		return nil
	})
	if _, err := l.Append(t.Context(), step("x")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("append: %v", err)
	}
	if got := texts(events(t, l)); len(got) != 1 {
		t.Errorf("read %q", got)
	}
}

// TestClockSteps: a step shows in the line behind it, slewing and time that the box
// was off don't.
func TestClockSteps(t *testing.T) {
	dir := t.TempDir()
	wall := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	mono := time.Duration(0)
	o := Options{Now: func() time.Time { return wall }, Mono: func() time.Duration { return mono }}
	l := mustOpen(t, dir, o)
	at := func(walls, monos time.Duration) Event {
		t.Helper()
		wall, mono = wall.Add(walls), mono+monos
		evs := []Event{step("x"), step("y")}
		if _, err := l.Submit(evs...); err != nil {
			t.Fatal(err)
		}
		if evs[1].Clock != 0 {
			t.Error("a step shows twice")
		}
		return evs[0]
	}
	for _, c := range []struct {
		wall, mono time.Duration
		want       int64
	}{
		{0, 0, 0},
		{time.Hour, time.Hour, 0},
		{time.Hour + 4*time.Second, time.Hour, 0}, // slewing
		{time.Hour, 0, 3600_000},
		{-24 * time.Hour, time.Second, -86401_000},
		{time.Second, time.Second, 0},
	} {
		if e := at(c.wall, c.mono); e.Clock != c.want || e.At != wall.Format(timeFormat) {
			t.Errorf("%v after %v: clock %d, at %s", c.wall, c.mono, e.Clock, e.At)
		}
	}
	wall = wall.Add(time.Minute)
	if now, step := l.Now(); step != 60_000 || !now.Equal(wall) {
		t.Errorf("now %v, step %d", now, step)
	}
	mustClose(t, l)
	wall, mono = wall.Add(72*time.Hour), 0
	l = mustOpen(t, dir, o)
	if e := at(0, 0); e.Clock != 0 {
		t.Errorf("off for three days: clock %d", e.Clock)
	}
	mustClose(t, l)
	wall = wall.Add(-48 * time.Hour)
	l = mustOpen(t, dir, o)
	if e := at(0, 0); e.Clock != -48*3600_000 {
		t.Errorf("back by two days while off: clock %d", e.Clock)
	}
}
