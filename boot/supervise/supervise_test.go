package supervise

import (
	"bytes"
	"context"
	"io"
	"log"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gurtos/boot/ring"
)

// await waits until ok, or fails the test.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 20 s", what)
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("%s: the test ended", what)
		}
	}
}

// start runs a shell script as a service.
func start(t *testing.T, script string, grace time.Duration) (s *Supervisor, stop func(), lines func() string) {
	t.Helper()
	return startHeld(t, script, grace, 0)
}

// startHeld is start of one that is held after an exit code.
func startHeld(t *testing.T, script string, grace time.Duration, hold int) (s *Supervisor, stop func(), lines func() string) {
	t.Helper()
	r := ring.New(200, time.Now())
	s = &Supervisor{
		Service: Service{Name: "svc", Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Grace: grace, Hold: hold},
		Ring:    r,
		Log:     log.New(r.Writer("log"), "", 0),
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return s, stop, func() string { return strings.Join(r.Last(200), "\n") }
}

func TestStartsAgainLaterAndLater(t *testing.T) {
	s, stop, lines := start(t, "echo here $$; exit 3", time.Second)
	await(t, "three starts", func() bool { return s.State().Starts >= 3 })
	stop()
	for _, want := range []string{"svc: here ", "exit status 3; starting it again in 500ms", "starting it again in 1s"} {
		if !strings.Contains(lines(), want) {
			t.Errorf("the log has no %q:\n%s", want, lines())
		}
	}
	if st := s.State(); st.Running || !strings.Contains(st.LastExit, "exit status 3") {
		t.Errorf("state %+v", st)
	}
}

// Why a service ended stands in its state, as the screen shows it.
func TestSaysWhyItEnded(t *testing.T) {
	s, stop, _ := start(t, "echo 'time=now msg=other'; echo 'svc: the vault may be read by others' >&2; echo 'goroutine 1'; exit 1", time.Second)
	await(t, "an end", func() bool { return s.State().LastExit != "" })
	stop()
	if how := s.State().LastExit; how != "ended with exit status 1: the vault may be read by others" {
		t.Errorf("LastExit = %q", how)
	}
}

// A service that would begin in a shutdown does not.
func TestNotStartedInAShutdown(t *testing.T) {
	s := &Supervisor{
		Service: Service{Name: "svc", Path: "/bin/sleep", Args: []string{"100"}, Grace: 20 * time.Second},
		Ring:    ring.New(10, time.Now()),
		Log:     log.New(io.Discard, "", 0),
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Run(ctx)
	if st := s.State(); st.Starts != 0 {
		t.Errorf("state %+v", st)
	}
}

func TestStopAsksAndWaits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ended")
	s, stop, lines := start(t, `trap 'echo in order; echo yes >`+file+`; exit 0' TERM; echo up; while :; do sleep 0.05; done`, 20*time.Second)
	await(t, "up", func() bool { return strings.Contains(lines(), "svc: up") })
	stop()
	if b, _ := os.ReadFile(file); string(b) != "yes\n" {
		t.Errorf("the service was not given the time to end in order: %q", b)
	}
	if s.State().Running || s.State().Starts != 1 {
		t.Errorf("state %+v", s.State())
	}
	if !strings.Contains(lines(), "svc: in order") {
		t.Errorf("its last words are missing:\n%s", lines())
	}
}

// One that ignores SIGTERM is killed after its grace, with what it started.
func TestStopKillsTheStubborn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	_, stop, lines := start(t, `trap '' TERM; sleep 600 & echo $! >`+file+`; echo $$ >>`+file+`; echo up; wait; wait`, 100*time.Millisecond)
	await(t, "up", func() bool { return strings.Contains(lines(), "svc: up") })
	stop()
	if !strings.Contains(lines(), "still there 100ms after SIGTERM") {
		t.Errorf("the log does not say that it had to be killed:\n%s", lines())
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range strings.Fields(string(b)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		await(t, "process "+word+" gone", func() bool { return gone(pid) })
	}
}

// gone says whether a process has ended; a zombie that nobody reaps here has.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || bytes.Contains(b, []byte(") Z "))
}

// A child that keeps the output open does not keep the service from being
// started again.
func TestOutputHeldOpen(t *testing.T) {
	s, _, _ := start(t, "setsid sleep 600 & exit 1", time.Second)
	await(t, "a second start", func() bool { return s.State().Starts >= 2 })
}

func TestMissingProgram(t *testing.T) {
	s := &Supervisor{Service: Service{Name: "gone", Path: "/no/such/program"}, Ring: ring.New(10, time.Now()), Log: log.New(io.Discard, "", 0)}
	changed := make(chan struct{}, 10)
	s.Changed = func() { changed <- struct{}{} }
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	<-changed
	cancel()
	<-done
	if how := s.State().LastExit; !strings.Contains(how, "does not start") || !strings.Contains(how, "no such file") {
		t.Errorf("LastExit = %q", how)
	}
}

// A service that ends with the code after which no start helps is not started again
// before it is let.
func TestHeldByItsCode(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mended")
	s, stop, lines := startHeld(t, `[ -e `+file+` ] || { echo 'svc: the log is damaged' >&2; exit 65; }; echo up; exec sleep 600`, time.Second, 65)
	await(t, "held", func() bool { return s.State().Held })
	if st := s.State(); st.Running || st.Starts != 1 || st.LastExit != "ended with exit status 65: the log is damaged" {
		t.Errorf("state %+v", st)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Again()
	await(t, "up", func() bool { return strings.Contains(lines(), "svc: up") })
	if st := s.State(); st.Held || st.Starts != 2 {
		t.Errorf("state %+v", st)
	}
	stop()
	if !strings.Contains(lines(), "exit status 65: the log is damaged; it is not started again by itself") {
		t.Errorf("the log says\n%s", lines())
	}
}

// One that runs can be held: it ends in order, and runs again when it is let.
func TestHold(t *testing.T) {
	s, stop, lines := start(t, `trap 'echo in order; exit 0' TERM; echo up; while :; do sleep 0.05; done`, 20*time.Second)
	await(t, "up", func() bool { return strings.Contains(lines(), "svc: up") })
	if !s.Hold(t.Context()) {
		t.Fatal("it still runs")
	}
	if st := s.State(); st.Running || !st.Held || st.Starts != 1 || !strings.Contains(lines(), "svc: in order") {
		t.Errorf("state %+v\n%s", st, lines())
	}
	s.Again()
	await(t, "a second start", func() bool { return s.State().Starts == 2 && strings.Count(lines(), "svc: up") == 2 })
	s.Hold(t.Context())
	stop() // ends a held one, too
	if st := s.State(); st.Starts != 2 {
		t.Errorf("state %+v", st)
	}
}
