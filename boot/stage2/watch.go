package stage2

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"time"

	"gurtos/boot/boxd"
	"gurtos/boot/screen"
)

const (
	askSoon  = time.Second      // until boxd has answered once, and when it stopped to
	askLater = 5 * time.Second  // while all is well
	silence  = 20 * time.Second // boxd may be silent for so long before people are told
	starting = time.Minute      // and after its start, before its first answer: a long log is read then
	patience = time.Minute      // silence after which the watchdog is no longer fed
	firstRun = 5 * time.Minute  // the same before the first answer
	pairing  = time.Hour        // how long links are shown unasked on a box that nobody is paired with
	onEnter  = 5 * time.Minute  // and how long after a press of Enter
)

// health is what the questions to boxd found.
type health struct {
	began    time.Time // when boxd was to be there
	answered time.Time // zero until it answered first
	held     bool      // it waits for a person, or is held while something is mended
}

// well says whether the watchdog is to be fed.
func (b *Box) well() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.health.well(time.Now(), b.stopping)
}

func (h health) well(now, stopping time.Time) bool {
	switch {
	case !stopping.IsZero():
		return now.Sub(stopping) < endTime
	case h.began.IsZero(), h.held: // there is no data disk, or a damaged log: a restart would help nobody
		return true
	case h.answered.IsZero():
		return now.Sub(h.began) < firstRun
	}
	return now.Sub(h.answered) < patience
}

// watch asks boxd how it is and keeps the screen at that, until ctx ends.
func (b *Box) watch(ctx context.Context) {
	b.mu.Lock()
	b.health.began = time.Now()
	b.mu.Unlock()
	b.screen.Update(func(s *screen.Status) { s.State, s.Doing = screen.Starting, "boxd" })
	p := pairer{box: b, until: time.Now().Add(pairing)}
	d := door{box: b}
	for {
		next := askSoon
		if b.ask(ctx) {
			next = askLater
			if !d.open {
				p.refresh(ctx)
			}
		}
		d.look(ctx)
		select {
		case <-time.After(next):
		case line := <-b.lines:
			d.hear(ctx, line)
		case <-b.enter:
			if d.open { // it ended a line
				continue
			}
			p.until = later(p.until, time.Now().Add(onEnter))
			p.asked = true
		case <-b.again:
			if !p.leadsHere() {
				p.link = boxd.Pair{}
			}
		case <-ctx.Done():
			return
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// ask asks once and shows the answer.
func (b *Box) ask(ctx context.Context) bool {
	h, err := b.boxd.Health(ctx)
	if ctx.Err() != nil {
		return false
	}
	now := time.Now()
	b.mu.Lock()
	first := b.health.answered.IsZero()
	if err == nil {
		b.health.answered, b.damaged = now, h.LogDamaged // of which silence says nothing
	}
	silent, limit := now.Sub(b.health.answered), silence
	if first {
		silent, limit = now.Sub(b.health.began), starting
	}
	b.mu.Unlock()
	if err != nil {
		st := b.services[0].State()
		switch {
		case st.Held:
			b.because("boxd", "")
			return false // the door says what is wrong
		case !st.Running && st.LastExit != "":
			b.because("boxd", fmt.Sprintf("The box's daemon, boxd, %s; it is started again.", st.LastExit))
		case silent >= limit:
			b.because("boxd", "The box's daemon, boxd, does not answer.")
		}
		if silent >= limit {
			b.screen.Update(func(s *screen.Status) { s.State, s.Doing, s.Pair = screen.Degraded, "", "" })
		}
		return false
	}
	if first && b.loader != nil {
		b.loader.Release()
	}
	if first {
		b.log.Printf("boxd answers, %d ms after the kernel's start", b.since())
	}
	text := ""
	if !h.OK && !h.LogDamaged { // of that the door tells
		text = "The box's daemon, boxd, is not well: " + h.Error + "."
	}
	b.because("boxd", text)
	b.mu.Lock()
	state := screen.Ready
	if len(b.reasons) > 0 || !h.OK {
		state = screen.Degraded
	}
	b.mu.Unlock()
	doing := ""
	if h.Paused {
		doing = "all agents are paused"
	}
	b.screen.Update(func(s *screen.Status) {
		s.State, s.Doing = state, doing
		s.Open = nil
		for _, a := range s.Addresses {
			s.Open = append(s.Open, portal(a))
		}
	})
	return true
}

func portal(addr string) string {
	for _, c := range addr {
		if c == ':' {
			return "http://[" + addr + "]"
		}
	}
	return "http://" + addr
}

// A pairer keeps a pairing link on the screen: for the first hour of a box that
// nobody is paired with, and for a while after each press of Enter.
type pairer struct {
	box   *Box
	until time.Time
	asked bool // by Enter
	link  boxd.Pair
}

func (p *pairer) refresh(ctx context.Context) {
	now := time.Now()
	show := now.Before(p.until)
	if show && !p.asked {
		devices, err := p.box.boxd.Devices(ctx)
		show = err == nil && len(devices) == 0
	}
	if !show {
		p.link, p.asked = boxd.Pair{}, false
		p.show("", "Enter shows a link for pairing a device")
		return
	}
	if len(p.box.screen.Status().Addresses) == 0 {
		p.show("", "")
		return
	}
	// Half a minute before its end a link is of no use to whoever types it.
	if p.link.URL == "" || now.After(p.link.ExpiresAt.Add(-30*time.Second)) {
		link, err := p.box.boxd.Pair(ctx)
		if err != nil {
			p.box.log.Print(err)
			return
		}
		p.link = link
	}
	p.show(p.link.URL, "")
}

// leadsHere says whether the link's address is still one of the box's.
func (p *pairer) leadsHere() bool {
	u, err := url.Parse(p.link.URL)
	return err == nil && slices.Contains(p.box.screen.Status().Addresses, u.Hostname())
}

func (p *pairer) show(link, hint string) {
	p.box.screen.Update(func(s *screen.Status) { s.Pair, s.Hint = link, hint })
}
