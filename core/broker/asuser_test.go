package broker_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"gurtos/sandbox"
	"gurtos/sandbox/sandboxtest"
)

// TestMain lets the test's own program be started again: as another user, and as a box
// that is to be killed.
func TestMain(m *testing.M) {
	sandbox.Init()
	if path := os.Getenv("BROKER_TEST_ASK"); path != "" {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		a, err := sendTo(ctx, path, "GET", "/task", "")
		if err != nil {
			fmt.Println("nothing:", err)
		} else {
			fmt.Println(a)
		}
		os.Exit(0)
	}
	if home := os.Getenv("BROKER_TEST_ENGINE"); home != "" {
		fmt.Fprintln(os.Stderr, engine(home))
		os.Exit(1)
	}
	sandboxtest.Main(m)
}

// askAs asks GET /task as another user of the machine and returns what came of it.
func askAs(t *testing.T, uid uint32, path string) string {
	t.Helper()
	// The test's program lies in a folder of root's: it is handed over as a descriptor.
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	cmd := exec.CommandContext(t.Context(), "/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{self}
	cmd.Env = []string{"BROKER_TEST_ASK=" + path}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("asking as user %d: %v: %s", uid, err, out)
	}
	return strings.TrimSpace(string(out))
}
