package sandbox

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// onThread runs f on an OS thread of its own that ends with it, so that f may
// change the thread's namespaces. Threads that the runtime starts meanwhile
// don't inherit them: it starts them from another one. It is never the main
// thread, to which the main goroutine is locked (in sandbox/layers).
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- f()
	}()
	return <-done
}

// inMounts runs f on a thread in the mount namespace.
func inMounts(ns *os.File, f func() error) error {
	return onThread(func() error {
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return os.NewSyscallError("unshare", err)
		}
		if err := enter(ns); err != nil {
			return err
		}
		return f()
	})
}

// enter takes a thread of inMounts into another mount namespace.
func enter(ns *os.File) error {
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("entering a mount namespace: %w", err)
	}
	return nil
}

// newNet makes a network namespace with a loopback that is up. It belongs to
// the machine's user namespace, so that no one in a sandbox has a say in it.
func newNet() (Namespace, error) {
	var ns *os.File
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("making a network namespace: %w", err)
		}
		if err := loopbackUp(); err != nil {
			return fmt.Errorf("raising the loopback: %w", err)
		}
		var err error
		ns, err = os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		return err
	})
	return loopback{ns}, err
}

// loopback is a namespace with nothing but a loopback.
type loopback struct{ ns *os.File }

func (l loopback) File() *os.File { return l.ns }
func (l loopback) Close() error   { return l.ns.Close() }

func loopbackUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo)
}
