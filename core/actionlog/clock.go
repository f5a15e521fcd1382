package actionlog

import "time"

const timeFormat = "2006-01-02T15:04:05.000Z"

// clock makes the at of lines and finds steps of the wall clock.
type clock struct {
	now  func() time.Time
	mono func() time.Duration // nil: steps can't be found

	wall, last time.Time     // read now, and kept before
	run, ran   time.Duration // the same of mono
}

func newClock(o Options) clock {
	c := clock{now: o.Now, mono: o.Mono}
	if c.now == nil {
		c.now = time.Now
		if c.mono == nil {
			start := time.Now()
			c.mono = func() time.Duration { return time.Since(start) }
		}
	}
	return c
}

// read is the time, and by how many milliseconds the clock was stepped since the
// last reading that was kept.
func (c *clock) read() (at string, step int64) {
	c.wall = c.now().UTC().Round(0) // without Go's monotonic reading
	at = c.wall.Format(timeFormat)
	if c.mono == nil {
		return at, 0
	}
	c.run = c.mono()
	if c.last.IsZero() {
		return at, 0
	}
	ran := c.run - c.ran
	off := c.wall.Sub(c.last) - ran
	// Slewing changes the clock's rate by half a thousandth at most.
	if off.Abs() < 2*time.Second+ran/1000 {
		return at, 0
	}
	return at, off.Milliseconds()
}

// keep makes the last reading the one that the next is measured against.
func (c *clock) keep() { c.last, c.ran = c.wall, c.run }

// text is the time as lines have it.
func (c *clock) text() string { return c.now().UTC().Format(timeFormat) }

// lastAt tells the at of the last line before this start. That time went by while
// the box was off is not to be told from a step; that it went back is.
func (c *clock) lastAt(at string) {
	last, err := time.Parse(timeFormat, at)
	if err != nil || c.mono == nil {
		return
	}
	if now := c.now().UTC().Round(0); now.Before(last) {
		c.last, c.ran = last, c.mono()
	}
}
