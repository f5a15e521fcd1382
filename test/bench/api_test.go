package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/test/daemon"
)

// BenchmarkFollowers is an event's way to 200 streams of GET /api/events that are open at once: from the request that makes it until the last of them
// has it; and what a stream costs boxd in memory.
func BenchmarkFollowers(b *testing.B) {
	const streams = 200
	home := daemon.New(b)
	boxd := home.Start()
	before, err := boxd.Memory()
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	got := make(chan int64, streams) // the seq of each pause that a stream tells
	broken := make(chan error, streams)
	client := &http.Client{Transport: &http.Transport{}}
	for range streams {
		resp, err := send(ctx, client, "GET", home.URL()+"/api/events?after=0", "")
		if err != nil {
			b.Fatal(err)
		}
		go func() {
			defer resp.Body.Close()
			broken <- pauses(resp.Body, got)
		}()
	}
	all := func() {
		late := time.After(time.Minute)
		for range streams {
			select {
			case <-got:
			case err := <-broken:
				b.Fatalf("a stream ended: %v", err)
			case <-late:
				b.Fatal("an event is not everywhere after a minute")
			}
		}
	}
	var ms []float64
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		resp, err := send(ctx, client, "POST", home.URL()+"/api/pause", fmt.Sprintf(`{"paused":%t}`, i%2 == 0))
		if err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
		all()
		ms = append(ms, float64(time.Since(start).Microseconds())/1000)
	}
	after, err := boxd.Memory()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(quantile(ms, 0.5), "p50-ms")
	b.ReportMetric(quantile(ms, 0.95), "p95-ms")
	b.ReportMetric(float64(max(0, after-before))/streams, "each-KB")
	b.ReportMetric(0, "ns/op")
}

// pauses tells of each note of a pause in a stream.
func pauses(stream io.Reader, got chan<- int64) error {
	for lines := bufio.NewReader(stream); ; {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return err
		}
		data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
		if !ok || !bytes.Contains(data, []byte(`"what":"pause"`)) {
			continue
		}
		ev, err := actionlog.Decode(data)
		if err != nil {
			return err
		}
		got <- ev.Seq
	}
}

// BenchmarkMillionAPI is a box whose log has a million events: its start with and without the folded state beside the log, what it holds in memory, and
// GET /api/log near the end.
func BenchmarkMillionAPI(b *testing.B) {
	home := daemon.New(b)
	if err := fillHome(home.Dir, million); err != nil {
		b.Fatal(err)
	}
	b.Run("folded_anew", func(b *testing.B) {
		benchBoot(b, home, func() {
			if err := os.Remove(filepath.Join(home.Dir, "log.checkpoint")); err != nil && !errors.Is(err, fs.ErrNotExist) {
				b.Fatal(err)
			}
		})
	})
	b.Run("folded_before", func(b *testing.B) { benchBoot(b, home, func() {}) })
	b.Run("near_the_end", func(b *testing.B) {
		d := home.Start()
		defer d.Stop()
		client := &http.Client{Transport: &http.Transport{}}
		var ms []float64
		for b.Loop() {
			start := time.Now()
			resp, err := send(b.Context(), client, "GET", fmt.Sprintf("%s/api/log?after=%d", home.URL(), million-10), "")
			if err != nil {
				b.Fatal(err)
			}
			var lines []json.RawMessage
			err = errors.Join(json.NewDecoder(resp.Body).Decode(&lines), resp.Body.Close())
			if err != nil || len(lines) < 10 || len(lines) > 100 {
				b.Fatalf("%d lines, %v", len(lines), err)
			}
			ms = append(ms, float64(time.Since(start).Microseconds())/1000)
		}
		kb, err := d.Memory()
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(quantile(ms, 0.5), "p50-ms")
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(float64(kb)/1024, "memory-MB")
	})
}

// benchBoot is the time from boxd's start until it answers.
func benchBoot(b *testing.B, home *daemon.Home, before func()) {
	var ms []float64
	for b.Loop() {
		before()
		start := time.Now()
		d := home.Start()
		ms = append(ms, float64(time.Since(start).Microseconds())/1000)
		d.Stop()
	}
	b.ReportMetric(quantile(ms, 0.5), "p50-ms")
	b.ReportMetric(0, "ns/op")
}

// fillHome makes the log of a box on which tasks have made n events, a thousand each.
func fillHome(dir string, n int) error {
	l, err := actionlog.Open(dir, actionlog.Options{})
	if err != nil {
		return err
	}
	spec := json.RawMessage(`{"title":"Filled","prompt":"step x","workspace":"home","worker":"fake","tools":[],"hosts":[],"budgetCents":100,"source":"api"}`)
	for i := range n / 1000 {
		id := fmt.Sprintf("t%012d", i)
		evs := []actionlog.Event{
			{Type: actionlog.TypeTaskCreated, Task: id, Spec: spec, User: "box-" + id},
			{Type: actionlog.TypeTaskState, Task: id, State: "running", Layers: []string{}},
		}
		for line := range 997 {
			evs = append(evs, actionlog.Event{Type: actionlog.TypeTaskStep, Task: id, Text: strings.Repeat("step ", 20), Data: json.RawMessage(fmt.Sprintf(`{"line":%d}`, line+1))})
		}
		evs = append(evs, actionlog.Event{Type: actionlog.TypeTaskState, Task: id, State: "failed", Error: "Stopped by box screen."})
		if _, err := l.Append(context.Background(), evs...); err != nil {
			return errors.Join(err, l.Close())
		}
	}
	return l.Close()
}

// send makes a request from the box's own screen, which has to go well.
func send(ctx context.Context, client *http.Client, method, url, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 300 {
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		return nil, fmt.Errorf("%s %s: %s %s", method, url, resp.Status, text)
	}
	return resp, nil
}
