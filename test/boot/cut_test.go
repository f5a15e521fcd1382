package boot

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/task"
	"gurtos/test/boot/box"
	"gurtos/test/boot/nbd"
)

// long says whether the long forms are asked for (`make test-all`).
func long() bool { return os.Getenv("BOX_TEST_ALL") != "" }

// twenty is a task of twenty lines, each with an effect that can be looked at
// afterwards. A line that is cut in the middle runs again: append may be there twice.
var twenty = []string{
	"write one.txt first",
	"mkdir dir",
	"write dir/two.txt second",
	"append one.txt more",
	"move dir/two.txt dir/three.txt",
	"write gone.txt not for long",
	"delete gone.txt",
	"run echo eight > eight.txt",
	"step nine",
	"read one.txt",
	"run mkdir -p repo && echo eleven > repo/file",
	"run head -c 300000 /dev/zero | tr '\\0' x > big.bin",
	"write long.txt " + strings.Repeat("0123456789", 500),
	"mkdir deep",
	"move dir/three.txt deep/four.txt",
	"append deep/four.txt end",
	"delete dir",
	"run ls > $HOME/list.txt && cp $HOME/list.txt list.txt",
	"append one.txt last",
	"summary all twenty",
}

// effects looks at what each of the twenty lines did.
func effects(t *testing.T, api *box.API, ws string, got task.Task) {
	t.Helper()
	file := func(path string) string { return api.File(ws, path) }
	holds := func(path string, words ...string) {
		t.Helper()
		text := file(path)
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("%s holds %.100q, %q isn't in it", path, text, w)
			}
		}
	}
	holds("one.txt", "first", "more", "last")
	holds("eight.txt", "eight")
	holds("repo/file", "eleven")
	holds("long.txt", twenty[12][len("write long.txt "):])
	holds("deep/four.txt", "second", "end")
	holds("list.txt", "one.txt", "deep", "repo", "big.bin")
	if text := file("big.bin"); text != strings.Repeat("x", 300000) {
		t.Errorf("big.bin has %d bytes, or others than x", len(text))
	}
	for _, gone := range []string{"gone.txt", "dir", "deep/three.txt"} {
		api.With(t).Refused(404, "", "GET", "/api/workspaces/"+ws+"/files?path="+gone, nil)
	}
	if got.Summary != "all twenty" {
		t.Errorf("the summary is %q", got.Summary)
	}
	seen := map[int]bool{}
	for _, s := range api.Steps(got.ID) {
		seen[s.Line] = true
	}
	for n := 1; n <= len(twenty); n++ {
		if !seen[n] {
			t.Errorf("line %d left no step", n)
		}
	}
}

// moment is the box at one moment of a task, had the power been cut then.
type moment struct {
	disk     *nbd.Disk
	loss     nbd.Loss
	answered []actionlog.Event // what had left the box before
	step     int               // steps of the task among them
}

// watch runs the twenty lines and takes moments while they run: the disk is
// copied as a cut would leave it, and the box goes on. Half of them are at
// random, half just before a flush, when most is unflushed.
func watch(t *testing.T, r *rand.Rand, b *box.Box, ws string) (id string, taken []moment) {
	t.Helper()
	var all []moment
	api := b.API.With(t)
	f := api.Follow(0)
	defer f.Close()
	id = api.New(ws, "twenty lines", twenty...).ID
	var mu sync.Mutex // guards all and r
	take := func() {
		mu.Lock()
		defer mu.Unlock()
		m := moment{answered: f.Seen()}
		m.disk, m.loss = b.Data.Cut(r.Uint64())
		for _, e := range m.answered {
			if e.Task == id && e.Type == actionlog.TypeTaskStep {
				m.step++
			}
		}
		all = append(all, m)
	}
	b.Data.OnFlush(take)
	defer b.Data.OnFlush(nil)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.Until(5*time.Minute, "the end of the twenty lines", func(e actionlog.Event) bool {
			return e.Task == id && e.Type == actionlog.TypeTaskState && e.State != string(task.Running) && e.State != string(task.Queued)
		})
	}()
	for {
		take()
		mu.Lock()
		pause := time.Duration(1+r.IntN(150)) * time.Millisecond
		mu.Unlock()
		select {
		case <-ended:
			mu.Lock()
			defer mu.Unlock()
			return id, slices.Clone(all)
		case <-time.After(pause):
		}
	}
}

// choose takes n moments, spread over the task; one with unflushed writes where
// there is any.
func choose(r *rand.Rand, all []moment, n int) []moment {
	var chosen []moment
	for i := range min(n, len(all)) {
		part := all[i*len(all)/n : (i+1)*len(all)/n]
		if busy := slices.DeleteFunc(slices.Clone(part), func(m moment) bool { return m.loss.Unflushed == 0 }); len(busy) > 0 {
			part = busy
		}
		chosen = append(chosen, part[r.IntN(len(part))])
	}
	return chosen
}

// after boots a box with the disk of a moment and looks at what is left: every
// answered event, a log without a gap, and the task done with all its effects.
func after(t *testing.T, m moment, token, ws, id string) {
	t.Logf("cut at step %d of %d: %v; %d events were answered", m.step, len(twenty), m.loss, len(m.answered))
	b := box.Boot(t, box.Setup{Data: m.disk})
	b.Token = token
	t.Logf("API after %v (%s)", b.Ready().Round(time.Millisecond), b.VM.Accel)
	got := b.End(id, box.Limit(b.VM.Accel, time.Minute))
	events := b.CheckChain()
	for _, e := range m.answered {
		if int(e.Seq) > len(events) {
			t.Fatalf("event %d was answered before the cut and is gone; the log ends at %d", e.Seq, len(events))
		}
		if now := events[e.Seq-1]; !reflect.DeepEqual(now, e) {
			t.Fatalf("event %d was answered as\n%+v\nand is now\n%+v", e.Seq, e, now)
		}
	}
	if got.State != task.Done {
		t.Fatalf("after the cut the task is %s: %s", got.State, got.Error)
	}
	effects(t, b.API, ws, got)
}

func cuts(t *testing.T, chosen []moment, token, ws, id string) {
	for i, m := range chosen {
		t.Run(fmt.Sprint("cut ", i+1), func(t *testing.T) { after(t, m, token, ws, id) })
	}
}
