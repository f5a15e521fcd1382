package power

import (
	"bufio"
	"errors"
	"log"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/boot/guard"
)

// How a machine ends.
type How int

// The ways to end.
const (
	Off How = iota
	Restart
)

func (h How) String() string {
	if h == Restart {
		return "restart"
	}
	return "power off"
}

// Settle ends all processes and leaves every disk whole.
func Settle(log *log.Logger) {
	endProcesses(log, 5*time.Second)
	within(log, "write everything to the disks", 30*time.Second, unix.Sync)
	within(log, "unmount", 30*time.Second, func() { unmountAll(log) })
	within(log, "write everything to the disks", 10*time.Second, unix.Sync)
}

// Now ends the machine at once.
func Now(how How) error {
	cmd := unix.LINUX_REBOOT_CMD_POWER_OFF
	if how == Restart {
		cmd = unix.LINUX_REBOOT_CMD_RESTART
	}
	return unix.Reboot(cmd)
}

// within waits for fn so long and no longer.
func within(log *log.Logger, what string, limit time.Duration, fn func()) {
	done := make(chan struct{})
	guard.Go("ending: "+what, func() { defer close(done); fn() })
	select {
	case <-done:
	case <-time.After(limit):
		log.Printf("%s: not done after %v, going on", what, limit)
	}
}

// endProcesses ends all processes but this one. kill(-1) from PID 1 spares
// PID 1 and the kernel's threads.
func endProcesses(log *log.Logger, grace time.Duration) {
	if os.Getpid() != 1 {
		return // never outside a box: -1 would be everybody
	}
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		if err := unix.Kill(-1, sig); errors.Is(err, unix.ESRCH) {
			return // nobody left
		}
		deadline := time.After(grace)
		tick := time.NewTicker(50 * time.Millisecond)
		for waiting := true; waiting; {
			if n := others(); n == 0 {
				tick.Stop()
				return
			}
			select {
			case <-tick.C:
			case <-deadline:
				waiting = false
			}
		}
		tick.Stop()
		log.Printf("%d processes are still there after %v", others(), sig)
	}
}

// others counts processes that are no kernel threads and not ours. A kernel
// thread has no command line; neither has a zombie, which holds nothing.
func others() int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	n := 0
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		if b, err := os.ReadFile("/proc/" + e.Name() + "/cmdline"); err == nil && len(b) > 0 {
			n++
		}
	}
	return n
}

// kept are the kernel's own file systems, which hold nothing to lose.
var kept = []string{"proc", "sysfs", "devtmpfs", "devpts", "tmpfs", "cgroup2", "efivarfs", "erofs", "rootfs", "securityfs", "bpf", "mqueue"}

// unmountAll unmounts what disks hold, the last mounted first; what is in use
// is made read-only.
func unmountAll(log *log.Logger) {
	list, err := mounted("/proc/self/mounts")
	if err != nil {
		log.Printf("unmount: %v", err)
		return
	}
	for _, dir := range list {
		err := unix.Unmount(dir, 0)
		if err == nil {
			log.Printf("unmounted %s", dir)
			continue
		}
		if ro := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); ro != nil {
			log.Printf("unmount %s: %v; make it read-only: %v", dir, err, ro)
			continue
		}
		log.Printf("%s was in use and is read-only now", dir)
	}
}

// mounted lists where file systems that hold something are mounted, the last
// first.
func mounted(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []string
	s := bufio.NewScanner(f)
	for s.Scan() {
		words := strings.Fields(s.Text())
		if len(words) >= 3 && !slices.Contains(kept, words[2]) {
			list = append(list, unescape.Replace(words[1]))
		}
	}
	slices.Reverse(list)
	return list, s.Err()
}

var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
