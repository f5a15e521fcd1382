package box

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gurtos/test/planted"
)

// Daemon starts bin/boxd on this machine with a home of its own, and gives its
// API. It is stopped, in order, when the test ends.
func Daemon(t testing.TB) *API {
	t.Helper()
	program := filepath.Join(Root(), "bin", "boxd")
	if _, err := os.Stat(program); err != nil {
		t.Fatal("there is no bin/boxd: run `make build` first")
	}
	dir := Keep(t)
	home, err := os.MkdirTemp("", "box") // the path of a task's socket is short
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	values := planted.New()
	values.Write(t, home)
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	logs, err := os.Create(filepath.Join(dir, "boxd.log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "BOX_HOME="+home, fmt.Sprintf("BOX_PORT=%d", port), "BOX_LAN=off", "BOX_TASKS_ROOT="+filepath.Join(Root(), ".cache", "tasks"))
	cmd.Stderr = logs
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "ready ") {
				close(ready)
			}
			fmt.Fprintln(logs, lines.Text())
		}
		ended <- cmd.Wait()
	}()
	t.Cleanup(func() {
		values.API(t, &http.Client{Timeout: time.Minute}, fmt.Sprintf("http://127.0.0.1:%d", port))
		cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("boxd ended with %v; its log is %s", err, logs.Name())
			}
		case <-time.After(time.Minute):
			t.Errorf("boxd doesn't end a minute after SIGTERM; its log is %s", logs.Name())
			cmd.Process.Kill()
		}
		values.Files(t, home)
		text, err := os.ReadFile(logs.Name())
		if err != nil {
			t.Error(err)
		}
		values.Search(t, "what boxd printed", text)
		if t.Failed() {
			exec.Command("cp", filepath.Join(home, "log.jsonl"), dir).Run()
		}
		os.RemoveAll(home)
	})
	select {
	case <-ready:
	case err := <-ended:
		ended <- err
		text, _ := os.ReadFile(logs.Name())
		t.Fatalf("boxd ended with %v: %s", err, text)
	case <-time.After(30 * time.Second):
		t.Fatalf("boxd isn't ready after 30 s; its log is %s", logs.Name())
	}
	return newAPI(t, fmt.Sprintf("http://127.0.0.1:%d", port), filepath.Join(dir, "api.log"))
}
