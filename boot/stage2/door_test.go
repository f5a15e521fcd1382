package stage2

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gurtos/boot/boxd"
	"gurtos/boot/ring"
	"gurtos/boot/screen"
	"gurtos/boot/supervise"
	"gurtos/core/config"
)

// programs are a boxd and a box command as shell scripts, over a log that is a file. They
// can be others until they run.
type programs struct {
	*Box
	t   *testing.T
	dir string
}

func newPrograms(t *testing.T, log, quarantine string) *programs {
	p := &programs{t: t, dir: t.TempDir(), Box: New(ring.New(1000, time.Now()), time.Now())}
	p.write("log", log)
	p.script("boxd", `[ "$(cat log)" = damaged ] || exec sleep 600; echo "boxd: line 2 of log.jsonl is changed" >&2; exit 65`)
	p.script("box", `case "$1 $2" in
		"log verify") [ "$(cat log)" = whole ] && echo "The log is whole." && exit 0
			echo "Line 2 was changed."; echo "Known gap: line 1"; echo "The log is not whole: 1 fault in 3 lines."; echo "box: the action log is not as it was written" >&2; exit 1;;
		"log quarantine") `+quarantine+`;;
		*) exit 2;; esac`)
	p.boxd = boxd.New(filepath.Join(p.dir, "box.sock"))
	p.services = []*supervise.Supervisor{{
		Service: supervise.Service{Name: "boxd", Path: filepath.Join(p.dir, "boxd"), Env: []string{"PATH=/usr/bin:/bin"}, Grace: 20 * time.Second, Hold: config.ExitDamaged},
		Ring:    p.Ring, Log: p.log,
	}}
	return p
}

// run starts boxd, and the watch over it.
func (p *programs) run() {
	ctx, end := context.WithCancel(p.t.Context())
	var wait sync.WaitGroup
	for _, run := range []func(context.Context){p.services[0].Run, p.watch} {
		wait.Add(1)
		go func() { defer wait.Done(); run(ctx) }()
	}
	p.t.Cleanup(func() { end(); wait.Wait() })
}

func (p *programs) write(name, text string) {
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

func (p *programs) script(name, text string) {
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte("#!/bin/sh\ncd "+p.dir+"\n"+text+"\n"), 0o700); err != nil {
		p.t.Fatal(err)
	}
}

// answer has boxd answer what it is asked.
func (p *programs) answer(with http.HandlerFunc) {
	l, err := net.Listen("unix", filepath.Join(p.dir, "box.sock"))
	if err != nil {
		p.t.Fatal(err)
	}
	server := &http.Server{Handler: with}
	served := make(chan struct{})
	go func() { defer close(served); server.Serve(l) }()
	p.t.Cleanup(func() { server.Close(); <-served })
}

// until waits for a state of the box.
func (p *programs) until(what string, ok func() bool) {
	p.t.Helper()
	late := time.After(2 * time.Minute)
	for tick := time.Tick(10 * time.Millisecond); !ok(); {
		select {
		case <-tick:
		case <-late:
			p.t.Fatalf("not so yet: %s; the screen shows\n%s", what, p.screen.Status().Lines())
		}
	}
}

func (p *programs) asks() bool { return p.screen.Status().Ask != "" }

func (p *programs) reasons() string { return strings.Join(p.screen.Status().Reasons, "\n") }

// A box whose log is damaged starts boxd once, says what is damaged and what can be done,
// and cuts nothing out before somebody at a console types the words for it.
func TestDoor(t *testing.T) {
	p := newPrograms(t, "damaged", `echo "Known gap: line 2 was cut out as damaged."; echo whole >log`)
	p.run()
	p.until("the question", p.asks)
	for _, want := range []string{"Line 2 was changed. The log is not whole", "Nothing is thrown away", "no longer knows"} {
		if !strings.Contains(p.reasons(), want) {
			t.Errorf("the reasons lack %q:\n%s", want, p.reasons())
		}
	}
	if strings.Contains(p.reasons(), "started again") || strings.Contains(p.reasons(), "Known gap") {
		t.Errorf("the reasons are\n%s", p.reasons())
	}
	if !p.well() {
		t.Error("the watchdog is not fed while a person is waited for")
	}
	p.lines <- "yes"
	p.until("the answer to another line", func() bool { return strings.Contains(p.reasons(), `Typed was "yes", which changes nothing.`) })
	if st := p.services[0].State(); !st.Held || st.Starts != 1 || !p.asks() {
		t.Errorf("after another line: %+v", st)
	}
	if text, _ := os.ReadFile(filepath.Join(p.dir, "log")); string(text) != "damaged" {
		t.Errorf("the log is %q", text)
	}
	p.lines <- yes
	p.until("boxd runs", func() bool { return p.services[0].State().Running })
	p.until("no question", func() bool { return !p.asks() && p.reasons() == "" })
	if said := strings.Join(p.Ring.Last(1000), "\n"); !strings.Contains(said, "somebody at a console has") || !strings.Contains(said, "Known gap: line 2 was cut out") {
		t.Errorf("the log of the init says\n%s", said)
	}
}

// A boxd that finds the damage while it runs is asked about, too; it is ended before
// anything is cut out.
func TestDoorOfABoxThatRuns(t *testing.T) {
	p := newPrograms(t, "old damage", `[ "$(cat log)" = "old damage" ] && echo whole >log`)
	p.script("boxd", `trap 'echo ended >>ends; exit 0' TERM; while :; do sleep 0.05; done`)
	var silent atomic.Int64 // questions that are still to get no answer
	p.answer(func(w http.ResponseWriter, _ *http.Request) {
		if silent.Add(-1) >= 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if log, _ := os.ReadFile(filepath.Join(p.dir, "log")); strings.Contains(string(log), "whole") {
			io.WriteString(w, `{"ok":true}`)
			return
		}
		io.WriteString(w, `{"ok":false,"error":"the action log is damaged: line 2 of log.jsonl is changed","logDamaged":true}`)
	})
	p.run()
	p.until("the question", p.asks)
	if !strings.Contains(p.reasons(), "Line 2 was changed.") || strings.Contains(p.reasons(), "is not well") || !p.services[0].State().Running {
		t.Errorf("the reasons are\n%s", p.reasons())
	}
	silent.Store(2)
	p.until("boxd is asked again after two answers that said nothing", func() bool { return silent.Load() < 0 })
	if !p.asks() {
		t.Error("the question is gone, though boxd did not say that the log is whole")
	}
	p.lines <- yes
	p.until("boxd runs again, and nothing is asked", func() bool {
		st := p.services[0].State()
		return st.Running && st.Starts == 2 && !p.asks() && p.screen.Status().State == screen.Ready
	})
	if ends, err := os.ReadFile(filepath.Join(p.dir, "ends")); string(ends) != "ended\n" {
		t.Errorf("boxd was not ended in order: %q %v", ends, err)
	}
}

// A long log takes long to look at, and nobody asks boxd how it is meanwhile: the watchdog is
// fed all the same.
func TestDoorWhileALogIsLookedAt(t *testing.T) {
	p := newPrograms(t, "old damage", `exit 1`)
	p.script("box", `echo looks >looks; while [ ! -e enough ]; do sleep 0.05; done; echo "Line 2 was changed."; exit 1`)
	p.answer(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"ok":false,"error":"the action log is damaged","logDamaged":true}`)
	})
	p.run()
	p.until("the log is looked at", func() bool { _, err := os.Lstat(filepath.Join(p.dir, "looks")); return err == nil })
	p.mu.Lock()
	p.health.answered = time.Now().Add(-2 * patience)
	p.mu.Unlock()
	if !p.well() {
		t.Error("the watchdog is not fed while the log is looked at")
	}
	p.write("enough", "")
	p.until("the question", p.asks)
}

// Where cutting out fails people learn why, and are asked again.
func TestDoorThatFails(t *testing.T) {
	p := newPrograms(t, "damaged", `echo "box: no space left on device" >&2; exit 1`)
	p.run()
	p.until("the question", p.asks)
	p.lines <- yes
	p.until("the fault, and the question again", func() bool {
		return p.asks() && strings.Contains(p.reasons(), "could not be cut out: box log quarantine: exit status 1: no space left on device.")
	})
	p.script("box", `[ "$2" = quarantine ] && echo whole >log; exit 0`)
	p.lines <- yes
	p.until("boxd runs", func() bool { return p.services[0].State().Running })
	p.until("no question", func() bool { return !p.asks() && p.reasons() == "" })
}

// Nobody is asked, and nothing that is typed does anything, on a box whose log is whole.
func TestDoorIsShut(t *testing.T) {
	p := newPrograms(t, "whole", `echo cut >log`)
	p.run()
	p.until("boxd runs", func() bool { return p.services[0].State().Running })
	p.lines <- yes
	p.until("it is heard", func() bool { return len(p.lines) == 0 })
	p.lines <- yes // room again: the first was looked at
	p.until("it is heard, too", func() bool { return len(p.lines) == 0 })
	if text, _ := os.ReadFile(filepath.Join(p.dir, "log")); string(text) != "whole" || p.asks() {
		t.Errorf("the log is %q; asked: %v", text, p.asks())
	}
}

// What docs/mending.md tells people to type is what is asked for.
func TestDocsHaveTheWords(t *testing.T) {
	text, err := os.ReadFile("../../docs/mending.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"    ask      " + askYes + "\n", "Type `" + yes + "` and press Enter"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("docs/mending.md lacks %q", want)
		}
	}
}
