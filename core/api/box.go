package api

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/core/actionlog"
	"gurtos/core/budget"
	"gurtos/core/task"
)

// Health is the answer to whether the box is there.
type Health struct {
	OK      bool   `json:"ok" doc:"Whether the box takes work: its action log can be written."`
	Version string `json:"version" doc:"Version of GurtOS."`
	Edition string `json:"edition" doc:"Edition of GurtOS."`
	Paused  bool   `json:"paused" doc:"Whether all agents stand still."`
	State   string `json:"state,omitempty" doc:"Why no agent works: paused, or paused: disk full."`
	Error   string `json:"error,omitempty" doc:"Why the box takes no work."`

	LogDamaged bool `json:"logDamaged,omitempty" doc:"The box takes no work because lines of its action log are not what was written."`
}

func (s *Server) health(c *call) error {
	state := s.opt.Tasks.Standstill()
	h := Health{OK: true, Version: s.opt.Version, Edition: s.opt.Edition, Paused: state != "", State: state}
	if err := s.broken(); err != nil {
		h.OK, h.Error = false, "the action log can't be written: "+err.Error()
		h.LogDamaged = errors.As(err, new(*actionlog.DamageError))
	}
	return c.json(http.StatusOK, h)
}

func (s *Server) broken() error {
	if s.opt.Broken == nil {
		return nil
	}
	return s.opt.Broken()
}

// Box is what the box is and how it fares.
type Box struct {
	Name       string   `json:"name" doc:"The box's name."`
	URL        string   `json:"url" doc:"The box's address, without a slash at its end: the one that the caller used, or, where only the box itself can use that, one for others."`
	Version    string   `json:"version" doc:"Version of GurtOS."`
	Slot       string   `json:"slot" doc:"System slot that runs; empty elsewhere than on a box."`
	Edition    string   `json:"edition" doc:"Edition of GurtOS."`
	Uptime     int64    `json:"uptime" doc:"Seconds since boxd started."`
	Disk       Disk     `json:"disk" doc:"The disk that holds the box's data."`
	Memory     Memory   `json:"memory" doc:"The machine's memory."`
	TimeSynced bool     `json:"timeSynced" doc:"Whether the clock is held to a time server."`
	Time       string   `json:"time" doc:"The box's clock."`
	LogHead    LogHead  `json:"logHead" doc:"The last line of the action log."`
	Weaker     []string `json:"weaker" doc:"What this machine can't hold that a box would, in sentences."`
}

// Disk is room in bytes.
type Disk struct {
	Used int64 `json:"used" doc:"Bytes in use."`
	Free int64 `json:"free" doc:"Bytes free."`
}

// Memory is memory in bytes.
type Memory struct {
	Total     int64 `json:"total" doc:"Bytes there are."`
	Available int64 `json:"available" doc:"Bytes that programs can still get."`
}

// LogHead is the end of the log.
type LogHead struct {
	Seq  int64  `json:"seq" doc:"Number of the last line that is on disk."`
	Hash string `json:"hash" doc:"Its SHA-256: whoever keeps it can tell later whether the log was cut off."`
}

func (s *Server) box(c *call) error {
	b := Box{
		Name:    s.opt.Settings.Values().BoxName,
		URL:     s.address(c),
		Version: s.opt.Version,
		Slot:    s.opt.Slot,
		Edition: s.opt.Edition,
		Uptime:  int64(time.Since(s.started) / time.Second),
		Time:    time.Now().UTC().Format(timeForm),
		Weaker:  list(s.opt.Weaker),
	}
	b.LogHead.Seq, b.LogHead.Hash = s.opt.Events.Head()
	var err error
	if b.Disk, err = diskOf(s.opt.Home); err != nil {
		return err
	}
	if b.Memory, err = memory(); err != nil {
		return err
	}
	// An unprivileged read; STA_UNSYNC is set until a time server was heard.
	var tx unix.Timex
	if _, err := unix.Adjtimex(&tx); err == nil {
		b.TimeSynced = tx.Status&unix.STA_UNSYNC == 0
	}
	b.TimeSynced = b.TimeSynced || s.opt.Synced != nil && s.opt.Synced()
	return c.json(http.StatusOK, b)
}

func diskOf(dir string) (Disk, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return Disk{}, fmt.Errorf("reading how full the disk is: %w", err)
	}
	return Disk{int64(st.Blocks-st.Bfree) * st.Bsize, int64(st.Bavail) * st.Bsize}, nil
}

func memory() (Memory, error) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return Memory{}, err
	}
	defer f.Close()
	var m Memory
	for sc := bufio.NewScanner(f); sc.Scan(); {
		name, rest, _ := strings.Cut(sc.Text(), ":")
		kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			continue
		}
		switch name {
		case "MemTotal":
			m.Total = kb << 10
		case "MemAvailable":
			m.Available = kb << 10
		}
	}
	return m, nil
}

// Spend is what was spent on a day.
type Spend struct {
	Day   string       `json:"day" doc:"UTC day."`
	App   string       `json:"app,omitempty" doc:"The app whose task or tool spent it; missing for the box's own."`
	Model string       `json:"model,omitempty" doc:"The model that was paid; missing for what tools spent."`
	Cents budget.Cents `json:"cents" doc:"US cents, exact."`
}

func (s *Server) spending(c *call) error {
	q, err := c.query()
	if err != nil {
		return err
	}
	for _, name := range []string{"from", "to"} {
		if q.Has(name) {
			if _, err := time.Parse(time.DateOnly, q.Get(name)); err != nil {
				return bad("%s: a day such as 2026-12-01 is needed", name)
			}
		}
	}
	if q.Has("from") && q.Has("to") && q.Get("from") > q.Get("to") {
		return bad("from: %s is after to, %s", q.Get("from"), q.Get("to"))
	}
	sums, err := s.opt.Tasks.Spend(c.r.Context(), q.Get("from"), q.Get("to"))
	if err != nil {
		return err
	}
	out := make([]Spend, len(sums))
	for i, sum := range sums {
		out[i] = Spend{sum.Day, sum.App, sum.Model, sum.Cents}
	}
	slices.SortStableFunc(out, func(a, b Spend) int { return strings.Compare(b.Day, a.Day) })
	return c.json(http.StatusOK, out)
}

// metrics writes what Prometheus reads.
func (s *Server) metrics(c *call) error {
	var b strings.Builder
	gauge := func(kind, name, help string, v any) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n%s %v\n", name, help, name, kind, name, v)
	}
	seq, _ := s.opt.Events.Head()
	gauge("counter", "gurtos_log_lines_total", "Durable lines of the action log.", seq)
	gauge("gauge", "gurtos_uptime_seconds", "Seconds since boxd started.", int64(time.Since(s.started)/time.Second))
	up := 1
	if s.broken() != nil {
		up = 0
	}
	gauge("gauge", "gurtos_log_writable", "1 while the action log can be written.", up)
	paused := 0
	if s.opt.Tasks.Standstill() != "" {
		paused = 1
	}
	gauge("gauge", "gurtos_paused", "1 while all agents stand still.", paused)
	gauge("gauge", "gurtos_devices", "Paired devices.", len(s.opt.Devices.List()))
	if d, err := diskOf(s.opt.Home); err == nil {
		gauge("gauge", "gurtos_disk_free_bytes", "Bytes free for the box's data.", d.Free)
		gauge("gauge", "gurtos_disk_used_bytes", "Bytes in use on that disk.", d.Used)
	}
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	gauge("gauge", "gurtos_boxd_heap_bytes", "Bytes of boxd's live heap.", mem.HeapAlloc)
	gauge("gauge", "gurtos_boxd_goroutines", "Goroutines of boxd.", runtime.NumGoroutine())
	s.machineMetrics(&b)
	if err := s.taskMetrics(c, &b); err != nil {
		return err
	}
	s.counts.write(&b)
	return c.text("text/plain; version=0.0.4; charset=utf-8", b.String())
}

func (s *Server) taskMetrics(c *call, b *strings.Builder) error {
	counts, err := s.opt.Tasks.Counts(c.r.Context())
	if err != nil {
		return err
	}
	b.WriteString("# HELP gurtos_tasks Tasks by state.\n# TYPE gurtos_tasks gauge\n")
	for _, st := range []task.State{task.Queued, task.Running, task.Waiting, task.Done, task.Failed, task.Undone} {
		fmt.Fprintf(b, "gurtos_tasks{state=%q} %d\n", st, counts[st])
	}
	return nil
}

func (c *counts) write(b *strings.Builder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	for k, n := range c.by {
		lines = append(lines, fmt.Sprintf("gurtos_http_requests_total{route=%q,status=\"%d\"} %d\n", k.route, k.status, n))
	}
	slices.Sort(lines)
	b.WriteString("# HELP gurtos_http_requests_total Answered requests by route and status.\n# TYPE gurtos_http_requests_total counter\n")
	for _, l := range lines {
		b.WriteString(l)
	}
}
