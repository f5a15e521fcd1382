package broker_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/approval"
	"gurtos/core/task"
	"gurtos/sandbox"
)

// heard is a time server that is always heard.
func heard() bool { return true }

// timed is a box whose clock the test sets: that of the wall, and how long it ran.
type timed struct {
	*box
	mu    sync.Mutex
	wall  time.Time
	ran   time.Duration
	known bool
	id    string
	n     int
}

func newTimed(t *testing.T) *timed {
	t.Helper()
	c := &timed{wall: time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)}
	c.box = shopBox(t, &till{}, boxOptions{
		now:    func() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.wall },
		mono:   func() time.Duration { c.mu.Lock(); defer c.mu.Unlock(); return c.ran },
		synced: func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.known },
	})
	if _, err := c.tasks.SetRights(t.Context(), "shop", []byte(`{"dailyLimitCents":100}`), "me"); err != nil {
		t.Fatal(err)
	}
	c.id = c.begin(buys + `,"budgetCents":100000`)
	return c
}

// pass lets time go by, step sets the clock.
func (c *timed) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.ran = c.wall.Add(d), c.ran+d
}
func (c *timed) step(d time.Duration) { c.mu.Lock(); defer c.mu.Unlock(); c.wall = c.wall.Add(d) }

// off starts the box again, whose clock says that so much went by.
func (c *timed) off(d time.Duration) {
	c.t.Helper()
	c.halt()
	c.step(d)
	c.mu.Lock()
	c.known = false
	c.mu.Unlock()
	c.start()
	c.runner.wait(c.t, c.id)
	if err := c.tasks.Note(c.t.Context(), "start", nil, ""); err != nil { // as boxd does
		c.t.Fatal(err)
	}
}

// hear lets a time server be heard, which sets the clock by d.
func (c *timed) hear(d time.Duration) {
	c.t.Helper()
	c.step(d)
	c.mu.Lock()
	c.known = true
	c.mu.Unlock()
	n := len(c.events(actionlog.TypeNote, ""))
	eventually(c.t, func() bool {
		all := c.events(actionlog.TypeNote, "")
		return len(all) > n && strings.Contains(string(all[len(all)-1].Data), "clock checked")
	}, func() string { return "no line about the clock" })
}

// asks says whether 30 cents need an OK, which is not given.
func (c *timed) asks() bool {
	c.t.Helper()
	c.n++
	key := fmt.Sprint("k", c.n)
	got := make(chan answered, 1)
	go func() {
		a, _ := c.send(context.Background(), c.id, "POST", "/call", fmt.Sprintf(`{"key":%q,"tool":"shop.buy","input":{"cents":30,"n":%d}}`, key, c.n))
		got <- a
	}()
	asked := false
	eventually(c.t, func() bool {
		all, err := c.tasks.Approvals(c.t.Context(), approval.Pending)
		if err != nil {
			c.t.Fatal(err)
		}
		asked = len(all) > 0
		return asked || len(got) > 0
	}, func() string { return "neither asked nor answered" })
	if asked {
		a := c.pending(c.id)
		if !strings.Contains(a.Question, " today of its daily limit of $1.00.") {
			c.t.Fatal(a.Question)
		}
		c.answer(a.ID, false)
	}
	<-got
	return asked
}

// Nothing that is done to the clock brings a second allowance for a day: not a step
// while the box runs, and not one while it is off. A day that really went by does, once
// that is known.
func TestClockStepsResetNoLimit(t *testing.T) {
	const h = time.Hour
	for _, row := range []struct {
		name string
		do   func(c *timed)
		asks bool
	}{
		{"the same day", func(c *timed) { c.pass(11 * h) }, true},
		{"midnight", func(c *timed) { c.pass(13 * h) }, false},
		{"set forward", func(c *timed) { c.step(36 * h) }, true},
		{"set forward, then midnight of that", func(c *timed) { c.step(11*h + 59*time.Minute); c.pass(2 * time.Minute) }, true},
		{"set back", func(c *timed) { c.step(-72 * h) }, true},
		{"set back and forward", func(c *timed) { c.step(-72 * h); c.off(0); c.step(96 * h) }, true},
		{"set forward while off", func(c *timed) { c.off(36 * h) }, true},
		{"set close to midnight while off", func(c *timed) { c.off(11*h + 59*time.Minute); c.pass(2 * time.Minute) }, true},
		{"again and again", func(c *timed) {
			for range 5 {
				c.off(36 * h)
				c.pass(h)
			}
		}, true},
		{"set back while off", func(c *timed) { c.off(-36 * h) }, true},
		{"a day on, however often off", func(c *timed) {
			for range 7 {
				c.off(0)
				c.pass(2 * h)
			}
		}, false},
		{"a night off, told by a time server", func(c *timed) { c.off(20 * h); c.hear(0) }, false},
		{"the same without having heard one before", func(c *timed) { c.off(20 * h); c.hear(0) }, true},
		{"set forward while off, and put right", func(c *timed) { c.off(36 * h); c.hear(-35 * h) }, true},
		{"spent behind a night off, before the time server was heard", func(c *timed) {
			c.pass(13 * h)
			c.off(2 * h)
			if c.asks() {
				c.t.Fatal("asked on a new day")
			}
			for range 2 { // 90 in all
				c.asks()
			}
			c.hear(0)
		}, true},
		{"put right while it runs, spent, and started again", func(c *timed) {
			c.step(36 * h)
			if err := c.tasks.Note(c.t.Context(), "start", nil, ""); err != nil {
				c.t.Fatal(err)
			}
			eventually(c.t, func() bool {
				n := 0
				for _, ev := range c.events(actionlog.TypeNote, "") {
					if strings.Contains(string(ev.Data), "clock checked") {
						n++
					}
				}
				return n == 2
			}, func() string { return "the clock is not looked at again" })
			for range 3 { // 90 in all
				if c.asks() {
					c.t.Fatal("asked on a new day")
				}
			}
			c.off(0)
			c.hear(0)
		}, true},
		{"a clock that begins in 1970", func(c *timed) { c.off(-490_000 * h); c.pass(h); c.hear(490_000 * h) }, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel() // each waits for the box to look at its clock
			c := newTimed(t)
			if !strings.Contains(row.name, "without") {
				c.hear(0)
			}
			if a := c.call(c.id, "first", "shop.buy", `{"cents":80}`); a.body["ok"] != true {
				t.Fatal(a)
			}
			row.do(c)
			if asks := c.asks(); asks != row.asks {
				t.Errorf("asks %v, not %v", asks, row.asks)
			}
		})
	}
}

// No clock that is wrong has files deleted before their time, and time in which the box
// was off counts once it is proven.
func TestNoClockDeletesEarly(t *testing.T) {
	const day = 24 * time.Hour
	for _, row := range []struct {
		name string
		do   func(c *timed)
		kept bool
	}{
		{"29 days", func(c *timed) { c.pass(29 * day) }, true},
		{"31 days", func(c *timed) { c.pass(31 * day) }, false},
		{"set forward", func(c *timed) { c.step(400 * day) }, true},
		{"set forward while off", func(c *timed) { c.off(400 * day) }, true},
		{"set forward while off, and put right", func(c *timed) { c.off(400 * day); c.hear(-399 * day) }, true},
		{"off for 31 days, told by a time server", func(c *timed) { c.off(31 * day); c.hear(0) }, false},
		{"off for 31 days, with a clock that stood", func(c *timed) { c.off(0); c.hear(31 * day) }, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel() // each waits for the box to look at its clock
			c := newTimed(t)
			c.hear(0)
			id := c.begin("")
			c.runner.get(id).end(sandbox.Exit{Code: 1})
			c.until(id, task.Failed)
			row.do(c)
			swept := c.begin("") // its end has the janitor look, which is told by its files
			if _, err := c.tasks.Undo(t.Context(), swept, "me"); err != nil {
				t.Fatal(err)
			}
			gone := func(id string) bool { _, err := os.Stat(filepath.Join(c.home, "tasks", id)); return os.IsNotExist(err) }
			eventually(t, func() bool { return gone(swept) }, func() string { return "the janitor doesn't come" })
			if row.kept == gone(id) {
				t.Errorf("kept: %v", !gone(id))
			}
		})
	}
}
