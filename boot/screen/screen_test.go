package screen

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/boot/console"
	"gurtos/boot/ring"
)

var update = flag.Bool("update", false, "write the golden files anew")

var (
	ready = Status{
		Version: "0.1.0", Slot: "a", Name: "gurtos-x4k2", State: Ready,
		Addresses: []string{"203.0.113.15", "2001:db8::15"},
		Open:      []string{"http://203.0.113.15", "http://[2001:db8::15]"},
		Pair:      "http://203.0.113.15/#pair=12345678",
		Clock:     "confirmed by 203.0.113.2",
	}
	degraded = Status{
		Version: "0.1.0 (debug)", Slot: "b", State: Degraded,
		Hint: "Enter shows a link for pairing a device",
		Reasons: []string{
			"There is no data disk: attach a blank disk of at least 2.1 GB. vdb (8.0 GB, Test disk, serial S1) holds an NTFS file system and was left untouched: only a blank disk is ever taken.",
			"The network can't be kept: no memory.",
		},
	}
	starting = Status{State: Starting, Doing: "data disk"}
	asking   = Status{
		Version: "0.1.0", Slot: "a", Name: "gurtos-x4k2", State: Degraded,
		Ask:     "type  cut out  and press Enter to have the damaged lines cut out",
		Reasons: []string{"The action log is damaged."},
		typed:   "cut",
	}
)

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (go test ./boot/screen -update writes it anew):\n%s\nwant\n%s", name, got, want)
	}
}

func TestLines(t *testing.T) {
	golden(t, "lines", ready.Lines()+degraded.Lines()+starting.Lines()+asking.Lines())
}

func TestDrawing(t *testing.T) {
	for _, c := range []struct {
		name       string
		s          Status
		rows, cols int
	}{{"ready-50x160", ready, 50, 160}, {"ready-25x80", ready, 25, 80}, {"degraded-25x80", degraded, 25, 80}, {"degraded-5x40", degraded, 5, 40}, {"asking-25x80", asking, 25, 80}} {
		got := c.s.Drawing(c.rows, c.cols)
		golden(t, c.name, got)
		body := got[strings.Index(got, "\x1b[2J")+4:]
		lines := strings.Split(body, "\r\n")
		if len(lines) > c.rows {
			t.Errorf("%s: %d lines on %d rows", c.name, len(lines), c.rows)
		}
		for _, l := range lines {
			if n := len([]rune(l)); n > c.cols {
				t.Errorf("%s: a line of %d on %d columns: %s", c.name, n, c.cols, l)
			}
		}
	}
}

// pseudoTerminal makes a pseudo terminal and returns its far side's path and all that
// is written there.
func pseudoTerminal(t *testing.T) (path string, read func() string) {
	path, read, _ = terminalWithInput(t)
	return path, read
}

func terminalWithInput(t *testing.T) (path string, read func() string, typed func(string)) {
	t.Helper()
	m, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	if err := unix.IoctlSetPointerInt(int(m.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(m.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(m.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	far := os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { far.Close() })
	var all strings.Builder
	return fmt.Sprintf("/dev/pts/%d", n), func() string {
			buf := make([]byte, 64<<10)
			for {
				_ = far.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
				n, err := far.Read(buf)
				all.Write(buf[:n])
				if err != nil {
					return strings.ReplaceAll(all.String(), "\r\n", "\n")
				}
			}
		}, func(s string) {
			if _, err := far.WriteString(s); err != nil {
				t.Error(err)
			}
		}
}

// Enter on a serial console is heard, and what is typed is not echoed. A shell's
// console is left to the shell.
func TestEnter(t *testing.T) {
	for _, shell := range []bool{false, true} {
		path, read, typed := terminalWithInput(t)
		pressed := make(chan struct{}, 4)
		s := New(ring.New(10, time.Now()), log.New(io.Discard, "", 0))
		s.Enter = func() { pressed <- struct{}{} }
		s.Shell = func(console.Console) bool { return shell }
		s.Attach(t.Context(), []console.Console{{Name: "pts", Path: path}})
		read()
		typed("x\r")
		patience := time.Minute
		if shell {
			patience = time.Second // for what is not to come
		}
		select {
		case <-pressed:
			if shell {
				t.Error("the shell's input was read")
			}
		case <-time.After(patience):
			if !shell {
				t.Error("Enter was not heard")
			}
		}
		if got := read(); !shell && strings.Contains(got, "x") {
			t.Errorf("what was typed stands on the screen: %q", got)
		}
	}
}

// A line is heard from a screen's keyboard as from a serial line while one is asked for,
// and shown as it is typed; what was typed before is no part of it.
func TestAsk(t *testing.T) {
	for _, drawn := range []bool{false, true} {
		path, read, typed := terminalWithInput(t)
		lines, enters := make(chan string, 4), make(chan struct{}, 4)
		s := New(ring.New(10, time.Now()), log.New(io.Discard, "", 0))
		s.Line = func(line string) { lines <- line }
		s.Enter = func() { enters <- struct{}{} }
		s.Attach(t.Context(), []console.Console{{Name: "pts", Path: path, Screen: drawn}})
		typed("cut out\rcut ")
		if !drawn {
			<-enters // then it has read the line, too
		}
		before := read()
		if strings.Contains(before, "cut") {
			t.Errorf("shown though nothing was asked: %q", before)
		}
		s.Update(func(st *Status) { st.Ask = "type cut out" })
		typed("xut\x7f\x7f\x7fcu")
		for deadline := time.Now().Add(time.Minute); !strings.Contains(read()[len(before):], map[bool]string{false: "cu", true: "typed     cu_"}[drawn]); {
			if time.Now().After(deadline) {
				t.Fatalf("what is typed is not shown: %q", read()[len(before):])
			}
		}
		typed("t out\r")
		select {
		case got := <-lines:
			if got != "cut out" {
				t.Errorf("heard %q", got)
			}
		case <-time.After(time.Minute):
			t.Fatalf("nothing was heard: %q", read())
		}
		s.Update(func(st *Status) { st.Ask = "" })
		select {
		case got := <-lines:
			t.Errorf("heard %q, too", got)
		default:
		}
	}
}

// A console gets log and status, and nothing when nothing has changed.
func TestRewrittenOnlyOnChange(t *testing.T) {
	path, read := pseudoTerminal(t)
	keep, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0) // the far side would end with its last user
	if err != nil {
		t.Fatal(err)
	}
	defer keep.Close()
	r := ring.New(10, time.Now())
	s := New(r, log.New(io.Discard, "", 0))
	s.Update(func(st *Status) { *st = ready })
	r.Add("a line of the log")
	list := []console.Console{{Name: "pts", Path: path}}
	s.Attach(t.Context(), list)
	s.Attach(t.Context(), list) // a second time changes nothing
	first := read()
	if strings.Count(first, ready.Lines()) != 1 || !strings.Contains(first, "a line of the log\n") {
		t.Fatalf("the console shows\n%s", first)
	}
	s.Update(func(st *Status) { st.State = Ready })
	s.Update(func(st *Status) { st.Addresses = []string{"203.0.113.15", "2001:db8::15"} })
	if got := read(); got != first {
		t.Errorf("written again though nothing has changed:\n%s", got[len(first):])
	}
	s.Update(func(st *Status) { st.Reasons = []string{"The data disk is full."} })
	if got := read()[len(first):]; !strings.Contains(got, "reason   The data disk is full.\n---\n") {
		t.Errorf("after a change:\n%s", got)
	}
}

// What a reason quotes steers no terminal.
func TestReasonsAreText(t *testing.T) {
	s := Status{State: Degraded, Reasons: []string{"The vault \x1b]0;x\x07\u009b2Jis damaged."}}
	if got := s.Lines(); !strings.Contains(got, "reason   The vault ]0;x2Jis damaged.\n") {
		t.Errorf("%q", got)
	}
	if got := s.Drawing(25, 80); strings.Count(got, "\x1b") != strings.Count(Status{}.Drawing(25, 80), "\x1b") || strings.Contains(got, "\u009b") {
		t.Errorf("%q", got)
	}
}
