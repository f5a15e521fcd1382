package proc

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// While orphans arrive and are reaped, every child that has a waiter keeps its
// exit status.
func TestReapLeavesWaitedChildrenAlone(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	go Reap(t.Context())

	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 12 {
				want := (i*12 + j) % 100
				// The inner shell is left behind by the outer and becomes ours.
				cmd := exec.Command("/bin/sh", "-c", fmt.Sprintf("sh -c 'exit 7' & sh -c 'sleep 0.01' & exit %d", want))
				if err := Start(cmd); err != nil {
					t.Error(err)
					return
				}
				err := Wait(cmd)
				if got := ExitCode(err); want != 0 && got != want || want == 0 && err != nil {
					t.Errorf("child ended with %v, want exit %d", err, want)
				}
			}
		})
	}
	wg.Wait()

	deadline := time.Now().Add(time.Minute)
	for {
		left := children()
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("children %v are still there after ten seconds", left)
		}
		select {
		case <-t.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestRunTellsTheLastLine(t *testing.T) {
	err := Run(t.Context(), "/bin/sh", "-c", "echo first; echo the reason >&2; exit 4")
	if err == nil || !strings.HasSuffix(err.Error(), "the reason") || ExitCode(err) != 4 {
		t.Errorf("Run = %v, want exit 4 with the reason", err)
	}
	if err := Run(t.Context(), "/no/such/program"); !os.IsNotExist(err) && !strings.Contains(fmt.Sprint(err), "no such file") {
		t.Errorf("Run of a missing program = %v", err)
	}
}
