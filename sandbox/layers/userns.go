package layers

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// An IDMap says that the id Disk on disk is the id Host to this machine. It
// counts for users and groups alike.
type IDMap struct {
	Disk int
	Host int
}

// NewUserns makes a user namespace that carries the map and has no process, to
// be given to mount_setattr. The caller closes it.
func NewUserns(ids ...IDMap) (*os.File, error) {
	m := make([]syscall.SysProcIDMap, len(ids))
	for i, id := range ids {
		m[i] = syscall.SysProcIDMap{ContainerID: id.Disk, HostID: id.Host, Size: 1}
	}
	// The child stops at its exec, before the first instruction of the new
	// program, because it asks to be traced; its tracer is the thread that
	// forked it, so that thread must be the one that reaps it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := os.StartProcess("/proc/self/exe", []string{"userns"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER, UidMappings: m, GidMappings: m,
		Ptrace: true, Pdeathsig: syscall.SIGKILL,
	}})
	if err != nil {
		return nil, fmt.Errorf("making a user namespace: %w", err)
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", p.Pid))
	p.Kill()
	p.Wait()
	if err != nil {
		return nil, fmt.Errorf("opening a user namespace: %w", err)
	}
	return f, nil
}
