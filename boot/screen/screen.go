package screen

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/boot/console"
	"gurtos/boot/guard"
	"gurtos/boot/ring"
)

// lastWait is how long the last words wait for one console.
const lastWait = 5 * time.Second

// A Screen keeps the consoles at the newest status.
type Screen struct {
	Enter func()                     // somebody pressed Enter on a console that is no keyboard's; may be nil
	Line  func(string)               // somebody typed a line, on whichever console, while the status asks for one; may be nil
	Shell func(console.Console) bool // whether a console's input is a shell's, and not ours to read; may be nil

	ring *ring.Ring
	log  *log.Logger

	mu     sync.Mutex
	status Status
	open   []*pane
}

type pane struct {
	console console.Console
	term    *terminal
	text    *console.Pane
	typed   string // of a line; guarded by Screen.mu
}

// New makes a screen that shows nothing yet.
func New(r *ring.Ring, log *log.Logger) *Screen { return &Screen{ring: r, log: log} }

// Attach opens consoles that are not yet shown on and shows the status there
// until ctx ends; on those that are written on, the log too.
func (s *Screen) Attach(ctx context.Context, list []console.Console) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range list {
		if s.has(c.Name) {
			continue
		}
		term, err := openTerminal(c.Path)
		if err != nil {
			s.log.Printf("console %s: %v", c.Name, err)
			continue
		}
		p := &pane{console: c, term: term, text: console.NewPane()}
		s.open = append(s.open, p)
		if s.Shell == nil || !s.Shell(c) {
			term.silence()
			guard.Go("reading console "+c.Name, func() { s.read(p) })
		}
		if c.Screen {
			guard.Go("showing on console "+c.Name, func() { s.serve(ctx, p) })
		} else {
			guard.Go("writing on console "+c.Name, func() { s.run(ctx, p) })
		}
		s.draw(p)
	}
}

func (s *Screen) has(name string) bool {
	for _, p := range s.open {
		if p.console.Name == name {
			return true
		}
	}
	return false
}

// serve writes drawings.
func (s *Screen) serve(ctx context.Context, p *pane) {
	if err := p.text.Write(ctx, p.term); err != nil {
		s.lost(p, err)
	}
}

// run writes the log and, between its lines, the status. The terminal's lock
// keeps a status block from being cut by a line.
func (s *Screen) run(ctx context.Context, p *pane) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	guard.Go("showing on console "+p.console.Name, func() {
		defer cancel()
		if err := p.text.Write(ctx, p.term); err != nil {
			s.lost(p, err)
		}
	})
	s.ring.Follow(ctx, func(line string, lost uint64) {
		if lost > 0 {
			line = fmt.Sprintf("(%d lines left out)\n%s", lost, line)
		}
		_, _ = io.WriteString(p.term, line+"\n") // a console that is gone shows in the pane's error
	})
}

// read hears what is typed, until the terminal is gone.
func (s *Screen) read(p *pane) {
	r := bufio.NewReader(p.term)
	for {
		c, err := r.ReadByte()
		if err != nil {
			return
		}
		if (c == '\n' || c == '\r') && !p.console.Screen && s.Enter != nil { // a keyboard's Enter is heard by package keys
			s.Enter()
		}
		if line := s.key(p, c); line != "" && s.Line != nil {
			s.Line(line)
		}
	}
}

// mostTyped is how many characters a line may have.
const mostTyped = 40

// key takes what was typed on a console, shows it there, and gives the line that it
// ends. Nothing that was typed before the status asked for a line is part of one.
func (s *Screen) key(p *pane, c byte) (line string) {
	s.mu.Lock()
	echo := ""
	switch n := len(p.typed); {
	case s.status.Ask == "":
		p.typed = ""
	case c == '\n' || c == '\r':
		line, p.typed, echo = strings.TrimSpace(p.typed), "", "\n"
	case c == '\b' || c == 0x7f:
		if n > 0 {
			p.typed, echo = p.typed[:n-1], "\b \b"
		}
	case c >= ' ' && c < 0x7f && n < mostTyped:
		p.typed, echo = p.typed+string(rune(c)), string(rune(c))
	}
	if p.console.Screen && echo != "" {
		s.draw(p)
	}
	s.mu.Unlock()
	if !p.console.Screen && echo != "" {
		_, _ = io.WriteString(p.term, echo) // a console that is gone shows in the pane's error
	}
	return line
}

func (s *Screen) lost(p *pane, err error) {
	s.log.Printf("console %s: %v", p.console.Name, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, o := range s.open {
		if o == p {
			s.open = append(s.open[:i], s.open[i+1:]...)
			p.term.Close()
			return
		}
	}
}

// Update changes the status; the consoles are written to if anything is
// different now.
func (s *Screen) Update(change func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.status
	change(&s.status)
	if s.status.equal(old) {
		return
	}
	for _, p := range s.open {
		if s.status.Ask != old.Ask {
			p.typed = ""
		}
		if !p.console.Screen && onlyDoing(old, s.status) {
			continue // the log tells each phase already
		}
		s.draw(p)
	}
}

func onlyDoing(a, b Status) bool {
	a.Doing = b.Doing
	return a.equal(b) && b.State == Starting
}

// Status is the newest one.
func (s *Screen) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

func (s *Screen) draw(p *pane) {
	if p.console.Screen {
		rows, cols := p.term.size()
		shown := s.status
		shown.typed = p.typed
		p.text.Show(shown.Drawing(rows, cols))
		return
	}
	p.text.Show(s.status.Lines())
}

// Last writes text on every console, after all else, and waits until it is
// written: for the last words before the machine ends. It takes no lock of s,
// which whoever panicked may hold.
func Last(list []console.Console, text string) {
	for _, c := range list {
		f, err := os.OpenFile(c.Path, os.O_WRONLY|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		_ = f.SetWriteDeadline(time.Now().Add(lastWait)) // a serial line may be held by its other end
		if c.Screen {
			_, _ = io.WriteString(f, "\x1b[H\x1b[2J")
		}
		_, _ = io.WriteString(f, strings.ReplaceAll(text, "\n", "\r\n"))
		f.Close()
	}
}
