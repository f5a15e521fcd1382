package step

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// Show tells a person what is going on: on a terminal one line that changes, elsewhere a line now and then.
type Show struct {
	mu   sync.Mutex // guards out, one line at a time
	out  io.Writer
	live bool
}

// NewShow writes to out. live means that out is a terminal.
func NewShow(out io.Writer, live bool) *Show { return &Show{out: out, live: live} }

// Line is one thing that goes on.
type Line struct {
	show  *Show
	what  string
	start time.Time
	stop  chan struct{}
	done  chan struct{}

	mu  sync.Mutex // guards now
	now string
}

// Begin starts a line about making what.
func (s *Show) Begin(what string) *Line {
	l := &Line{show: s, what: what, start: time.Now(), stop: make(chan struct{}), done: make(chan struct{})}
	go l.tick()
	return l
}

// Say replaces what is being done now.
func (l *Line) Say(now string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = now
}

// tick repeats the line while it lasts: each second where it can be overwritten, else every ten.
func (l *Line) tick() {
	defer close(l.done)
	every := 10 * time.Second
	if l.show.live {
		every = time.Second
	}
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-t.C:
			l.mu.Lock()
			now := l.now
			l.mu.Unlock()
			l.print("…", now)
		}
	}
}

func (l *Line) print(mark, now string) {
	l.show.mu.Lock()
	defer l.show.mu.Unlock()
	text := fmt.Sprintf("%s %-30s %5.1f s  %s", mark, l.what, time.Since(l.start).Seconds(), now)
	switch {
	case !l.show.live:
		fmt.Fprintln(l.show.out, strings.TrimRight(text, " "))
	case mark == "…":
		fmt.Fprintf(l.show.out, "\r\x1b[K%.110s", text)
	default:
		fmt.Fprintf(l.show.out, "\r\x1b[K%s\n", strings.TrimRight(text, " "))
	}
}

// End closes the line, with how long it took.
func (l *Line) End(err error) {
	close(l.stop)
	<-l.done
	if err != nil {
		l.print("✗", "")
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.print("✓", "")
}

// Above is a writer whose lines stand above a line that changes.
func (s *Show) Above(w io.Writer) io.Writer { return above{s, w} }

type above struct {
	show *Show
	w    io.Writer
}

func (a above) Write(p []byte) (int, error) {
	a.show.mu.Lock()
	defer a.show.mu.Unlock()
	if a.show.live {
		io.WriteString(a.w, "\r\x1b[K")
	}
	return a.w.Write(p)
}
