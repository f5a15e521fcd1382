package broker_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/broker"
	"gurtos/core/task"
	"gurtos/sandbox"
)

// engine is what the test's program becomes when it is started as a box to be killed:
// tasks and broker on a real disk, with sandboxes that are sockets and never end.
func engine(home string) error {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	log, err := actionlog.Open(home, actionlog.Options{Reserve: -1})
	if err != nil {
		return err
	}
	shop := &till{}
	tools := toolSet{"shop.buy": shop.tool("shop.buy")}
	o := boxOptions{tools: tools, settings: values()}
	tasks, err := task.New(context.Background(), task.Options{
		Home: home, Log: log, Layers: &folders{}, Tools: tools, Settings: o, Workers: map[string]task.Worker{"fake": {Args: []string{"worker"}}}, Slog: quiet,
		Runner: task.RunnerFunc(func(_ context.Context, spec sandbox.Spec) (task.Sandbox, error) {
			s := &sandboxed{exit: make(chan sandbox.Exit, 1), done: make(chan struct{}), listener: noListener{}}
			go s.run()
			return s, nil
		}),
	})
	if err != nil {
		return err
	}
	all, err := tasks.List(context.Background(), task.Filter{})
	if err != nil {
		return err
	}
	for len(all) < 8 {
		x, err := tasks.Create(context.Background(), []byte(`{"title":"t","prompt":"x","worker":"fake","tools":["shop.buy"],"budgetCents":100000}`), task.Caller{})
		if err != nil {
			return err
		}
		all = append(all, x)
	}
	b := broker.New(broker.Options{Tasks: tasks, Tools: tools, Vault: noVault{}, Slog: quiet})
	for _, x := range all {
		fmt.Println(x.ID)
	}
	return tasks.Run(context.Background(), b)
}

type noListener struct{}

func (noListener) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (noListener) Close() error              { return nil }
func (noListener) Addr() net.Addr            { return &net.UnixAddr{} }

// told is what a worker was told is done.
type told struct {
	mu    sync.Mutex
	steps map[string]bool // task and text
	calls map[string]bool // task and key
}

// A box that is killed again and again loses nothing that it had answered, and does
// nothing twice: every step that was answered is in the log once, every call has one
// result.
func TestKilledAgainAndAgain(t *testing.T) {
	kills := 200
	if testing.Short() || racing {
		kills = 20
	}
	home, err := os.MkdirTemp("/tmp", "box")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(home)
	if err := os.MkdirAll(filepath.Join(home, "workspaces", "home"), 0o755); err != nil {
		t.Fatal(err)
	}
	done := &told{steps: map[string]bool{}, calls: map[string]bool{}}
	for n := range kills {
		killed(t, home, n, done)
	}
	log, err := actionlog.Open(home, actionlog.Options{Reserve: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	steps, results := map[string]int{}, map[string]int{}
	if err := log.Read(t.Context(), 0, func(_ []byte, event func() (actionlog.Event, error)) error {
		ev, err := event()
		switch ev.Type {
		case actionlog.TypeTaskStep:
			steps[ev.Task+" "+ev.Text]++
		case actionlog.TypeToolResult:
			results[ev.Task+" "+ev.Key]++
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d steps and %d calls were answered over %d kills", len(done.steps), len(done.calls), kills)
	if len(done.steps) < kills || len(done.calls) < kills {
		t.Error("too little was answered to tell anything")
	}
	for s := range done.steps {
		if steps[s] != 1 {
			t.Errorf("step %s was answered and is in the log %d times", s, steps[s])
		}
	}
	for c := range done.calls {
		if results[c] != 1 {
			t.Errorf("call %s was answered and has %d results", c, results[c])
		}
	}
	for c, n := range results {
		if n != 1 {
			t.Errorf("call %s has %d results", c, n)
		}
	}
}

// killed starts the box, lets 8 workers step and call, and kills it in the middle.
func killed(t *testing.T, home string, n int, done *told) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), "BROKER_TEST_ENGINE="+home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var wg sync.WaitGroup
	answered := make(chan struct{}, 1000)
	lines := bufio.NewScanner(out)
	for range 8 {
		if !lines.Scan() {
			t.Fatal("the box did not start")
		}
		id := lines.Text()
		wg.Go(func() { work(ctx, filepath.Join(home, "tasks", id, "broker.sock"), id, n, done, answered) })
	}
	// In the middle: after some answers, and a moment that differs each time.
	late := time.After(2 * time.Minute)
	for range 4 + rand.IntN(30) {
		select {
		case <-answered:
		case <-late:
			t.Fatal("the box answers nothing")
		}
	}
	cmd.Process.Kill()
	stop()
	wg.Wait()
}

// work steps and calls until the box is gone, and keeps what was answered.
func work(ctx context.Context, socket, id string, n int, done *told, answered chan<- struct{}) {
	for i := 0; ctx.Err() == nil; i++ {
		text := fmt.Sprintf("%d.%d", n, i)
		if i%2 == 0 {
			if a, err := sendTo(ctx, socket, "POST", "/step", fmt.Sprintf(`{"text":%q}`, text)); err != nil || a.status != 200 {
				continue
			}
			done.mu.Lock()
			done.steps[id+" "+text] = true
			done.mu.Unlock()
		} else {
			// The key of the last box too: the call that was cut off.
			key := fmt.Sprintf("%d.%d", n-i%4/2, i)
			body, _ := json.Marshal(map[string]any{"key": key, "tool": "shop.buy", "input": map[string]any{"cents": 0, "n": key}})
			if a, err := sendTo(ctx, socket, "POST", "/call", string(body)); err != nil || a.status != 200 || a.body["ok"] != true {
				continue
			}
			done.mu.Lock()
			done.calls[id+" "+key] = true
			done.mu.Unlock()
		}
		select {
		case answered <- struct{}{}:
		default:
		}
	}
}
