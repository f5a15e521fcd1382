package layers

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
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
//
// A process is needed to make one, and it must be another one than this, which has
// threads. To fork this one into a new user namespace costs as much as it has
// memory, since Go then can't use vfork. So the child is born by vfork, stops at
// its exec, before the first instruction of the new program, because it asks to be
// traced, and is made to call unshare there. Its tracer is the thread that forked
// it, so that thread must be the one that reaps it. It has a process group of its own:
// what a terminal sends to this one's would stop it before its exec, for which the fork
// waits.
func NewUserns(ids ...IDMap) (_ *os.File, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := os.StartProcess("/proc/self/exe", []string{"userns"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{Ptrace: true, Setpgid: true, Pdeathsig: syscall.SIGKILL}})
	if err != nil {
		return nil, fmt.Errorf("making a user namespace: %w", err)
	}
	defer func() {
		p.Kill()
		p.Wait()
	}()
	for {
		sig, err := stopped(p.Pid)
		if err != nil {
			return nil, fmt.Errorf("making a user namespace: %w", err)
		}
		if sig == syscall.SIGTRAP {
			break
		}
		// Another one, which it never gets.
		if err := syscall.PtraceCont(p.Pid, 0); err != nil {
			return nil, fmt.Errorf("making a user namespace: %w", os.NewSyscallError("ptrace", err))
		}
	}
	if err := unshareIn(p.Pid, unix.CLONE_NEWUSER); err != nil {
		return nil, fmt.Errorf("making a user namespace: %w%s", err, whyNoUserns(err))
	}
	var m strings.Builder
	for _, id := range ids {
		fmt.Fprintf(&m, "%d %d 1\n", id.Disk, id.Host)
	}
	for _, name := range []string{"gid_map", "uid_map"} {
		if err := os.WriteFile(fmt.Sprintf("/proc/%d/%s", p.Pid, name), []byte(m.String()), 0); err != nil {
			return nil, fmt.Errorf("mapping ids in a user namespace: %w", err)
		}
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", p.Pid))
	if err != nil {
		return nil, fmt.Errorf("opening a user namespace: %w", err)
	}
	return f, nil
}

// whyNoUserns says what stands behind the kernel's answer, and what can be done.
func whyNoUserns(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "; this machine allows no more of them: raise the sysctl user.max_user_namespaces"
	case errors.Is(err, syscall.EINVAL):
		return "; this kernel has none (CONFIG_USER_NS)"
	case errors.Is(err, syscall.EPERM):
		return "; this machine forbids them: look for the sysctls kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns, and whether boxd runs in a chroot or container"
	}
	return ""
}

// unshareIn has a traced process that is stopped call unshare: the instruction is
// put where it would go on, in its own copy of the page.
func unshareIn(pid, flags int) error {
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(pid, &regs); err != nil {
		return os.NewSyscallError("ptrace", err)
	}
	if _, err := syscall.PtracePokeText(pid, uintptr(regs.Rip), []byte{0x0f, 0x05}); err != nil { // syscall
		return os.NewSyscallError("ptrace", err)
	}
	regs.Rax, regs.Orig_rax, regs.Rdi = unix.SYS_UNSHARE, ^uint64(0), uint64(flags)
	if err := syscall.PtraceSetRegs(pid, &regs); err != nil {
		return os.NewSyscallError("ptrace", err)
	}
	// A signal that was on its way stops it before the instruction ran. It never gets it.
	for from, ran := regs.Rip, false; !ran; {
		if err := syscall.PtraceSingleStep(pid); err != nil {
			return os.NewSyscallError("ptrace", err)
		}
		sig, err := stopped(pid)
		if err != nil {
			return err
		}
		if err := syscall.PtraceGetRegs(pid, &regs); err != nil {
			return os.NewSyscallError("ptrace", err)
		}
		ran = sig == syscall.SIGTRAP && regs.Rip != from
	}
	if e := int64(regs.Rax); e != 0 {
		return os.NewSyscallError("unshare", syscall.Errno(-e))
	}
	return nil
}

// stopped waits until a traced process stops, and says for which signal.
func stopped(pid int) (syscall.Signal, error) {
	for {
		var ws syscall.WaitStatus
		_, err := syscall.Wait4(pid, &ws, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 0, os.NewSyscallError("wait4", err)
		case !ws.Stopped():
			return 0, fmt.Errorf("the process for it ended (%#x)", uint32(ws))
		default:
			return ws.StopSignal(), nil
		}
	}
}
