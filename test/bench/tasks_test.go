package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"gurtos/core/actionlog"
	"gurtos/core/settings"
	"gurtos/core/task"
)

// What an old task of BenchmarkMillionOfTasks is made of: 50 lines, with a prompt as long as people write them, and a question with the call's input.
const (
	linesEach  = 50
	promptEach = 2 << 10
	inputEach  = 4 << 10
	layersEach = 64
)

// BenchmarkMillionOfTasks is what a million events cost a box that did 20,000 tasks: the first start, which folds all of them, a start with the state that
// was kept, what stays in memory, and a page of the oldest tasks.
func BenchmarkMillionOfTasks(b *testing.B) {
	dir := benchDir(b)
	if err := fillTasks(dir, million/linesEach); err != nil {
		b.Fatal(err)
	}
	checkpoint := filepath.Join(dir, "log.checkpoint")
	b.Run("start/fold-all", func(b *testing.B) { benchTasks(b, dir, func() { os.Remove(checkpoint) }, nil) })
	b.Run("start/checkpoint", func(b *testing.B) { benchTasks(b, dir, func() {}, nil) })
	b.Run("page-of-the-oldest", func(b *testing.B) {
		benchTasks(b, dir, func() {}, func(t *task.Tasks) error {
			list, err := t.List(b.Context(), task.Filter{Before: fmt.Sprintf("t%011d", 100), Limit: 100})
			if err == nil && (len(list) != 100 || len(list[0].Prompt) < promptEach) {
				err = fmt.Errorf("%d tasks", len(list))
			}
			return err
		})
	})
}

// fillTasks makes a log of n tasks, each done.
func fillTasks(dir string, n int) error {
	l, err := actionlog.Open(dir, actionlog.Options{})
	if err != nil {
		return err
	}
	input := json.RawMessage(fmt.Sprintf(`{"text":%q}`, strings.Repeat("x", inputEach)))
	var layers []string
	for i := range n {
		id := fmt.Sprintf("t%011d", i)
		evs := oldTask(id, layers, input)
		if len(layers) == layersEach {
			evs[len(evs)-2] = actionlog.Event{Type: actionlog.TypeNote, Track: "box", Data: json.RawMessage(fmt.Sprintf(`{"what":"layers folded","workspace":"home","tasks":[%q]}`, layers[layersEach-1]))}
		}
		if _, err := l.Append(context.Background(), evs...); err != nil {
			return errors.Join(err, l.Close())
		}
		layers = append([]string{id}, layers[:min(len(layers), layersEach-1)]...)
	}
	return l.Close()
}

func oldTask(id string, layers []string, input json.RawMessage) []actionlog.Event {
	yes := true
	spec, err := json.Marshal(map[string]any{
		"title": "An old task", "prompt": strings.Repeat("Do this. ", promptEach/9+1), "workspace": "home", "worker": "fake", "tools": []string{"a.b"}, "hosts": []string{}, "budgetCents": 100, "source": "api",
	})
	if err != nil {
		panic(err)
	}
	ask, err := json.Marshal(map[string]any{"id": id + ".budget.k", "task": id, "question": "Spend $3.00 with a.b?", "costCents": 300, "state": "pending", "key": "k", "tool": "a.b", "input": input})
	if err != nil {
		panic(err)
	}
	evs := []actionlog.Event{
		{Type: actionlog.TypeTaskCreated, Task: id, Spec: spec, User: "box-" + id},
		{Type: actionlog.TypeTaskState, Task: id, State: "running", Layers: layers},
		{Type: actionlog.TypeApprovalAsked, Task: id, Approval: ask},
		{Type: actionlog.TypeTaskState, Task: id, State: "waiting"},
		{Type: actionlog.TypeApprovalAnswered, Task: id, ID: id + ".budget.k", Approved: &yes, By: "box screen"},
		{Type: actionlog.TypeTaskState, Task: id, State: "running"},
		{Type: actionlog.TypeToolCall, Task: id, Key: "k", Tool: "a.b", Input: input},
		{Type: actionlog.TypeToolResult, Task: id, Key: "k", OK: &yes, Output: json.RawMessage(`{}`), Cents: "300"},
	}
	for len(evs) < linesEach-1 {
		evs = append(evs, actionlog.Event{Type: actionlog.TypeTaskStep, Task: id, Text: strings.Repeat("step ", 20), Data: json.RawMessage(`{"line":12}`)})
	}
	return append(evs, actionlog.Event{Type: actionlog.TypeTaskState, Task: id, State: "done"})
}

type noLayers struct{ task.Layers }

type standard struct{}

func (standard) Values() settings.Values { return settings.Defaults() }

// benchTasks opens log and tasks, looks at them, and keeps the state as an orderly end does.
func benchTasks(b *testing.B, dir string, prepare func(), look func(t *task.Tasks) error) {
	var kept float64
	for b.Loop() {
		b.StopTimer()
		prepare()
		var err error
		if kept, err = startTasks(b, dir, look); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(kept/(1<<20), "MB-kept")
	if st, err := os.Stat(filepath.Join(dir, "log.checkpoint")); err == nil {
		b.ReportMetric(float64(st.Size())/(1<<20), "MB-checkpoint")
	}
	b.ReportMetric(float64(maxRSS())/1024, "MB-rss")
}

// startTasks is one start, and a look at it; the timer runs for the start, or for the look alone where there is one. kept is what of it stays in memory.
func startTasks(b *testing.B, dir string, look func(t *task.Tasks) error) (kept float64, err error) {
	before := heap()
	if look == nil {
		b.StartTimer()
	}
	l, err := actionlog.Open(dir, actionlog.Options{})
	if err != nil {
		return 0, err
	}
	defer l.Close()
	t, err := task.New(b.Context(), task.Options{Home: dir, Log: l, Layers: noLayers{}, Settings: standard{}, Slog: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		return 0, err
	}
	if look != nil {
		b.StartTimer()
		if err := look(t); err != nil {
			return 0, err
		}
	}
	b.StopTimer()
	after := heap()
	ctx, stop := context.WithCancel(b.Context())
	stop()
	return after - before, t.Run(ctx, nil)
}

// heap is how many bytes are in use once nothing is left to be collected: what a pool or a finalizer held goes with the second and third time.
func heap() float64 {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
