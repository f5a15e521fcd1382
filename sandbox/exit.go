package sandbox

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A StartError says why the program could not be run.
type StartError struct {
	Program string
	Err     error // a syscall.Errno of execve, or what box-init said
}

func (e *StartError) Unwrap() error { return e.Err }

func (e *StartError) Error() string {
	var no syscall.Errno
	if !errors.As(e.Err, &no) {
		return fmt.Sprintf("%s could not be run: %v", e.Program, e.Err)
	}
	switch no {
	case syscall.ENOENT:
		return e.Program + " could not be run: it, or the interpreter that it names, is missing in the sandbox"
	case syscall.ENOEXEC:
		return e.Program + " could not be run: it has a wrong format for this machine"
	case syscall.EACCES:
		return e.Program + " could not be run: it is not executable"
	case syscall.E2BIG:
		return e.Program + " could not be run: its arguments and environment are too long"
	case syscall.ENOTDIR, syscall.ELOOP, syscall.ENAMETOOLONG:
		return e.Program + " could not be run: it is no path to a file"
	}
	return fmt.Sprintf("%s could not be run: %v", e.Program, e.Err)
}

// Sentence tells a person why a program that did not end well ended, with the
// limit that it ran into; l are the limits that it had. It is empty when the
// program ended with 0, and when its own words say more: it ended with another
// code and ran into no limit.
func (e Exit) Sentence(l Limits) string {
	l = l.full()
	switch {
	case e.Start != nil:
		return "Stopped: " + e.Start.Error() + "."
	case e.Disk:
		return "Stopped: the task used more than its " + Bytes(l.DiskBytes) + " of disk."
	case e.Code == 0:
		return ""
	case e.OOM && e.Shared:
		return "Stopped: all tasks and apps together used the memory that the box has for them. Let fewer run at once, or give the box more."
	case e.OOM:
		return "Stopped: the task used more than its " + Bytes(l.MemoryBytes) + " of memory."
	case e.Pids:
		return "Stopped: the task ran more than its " + strconv.FormatInt(l.Pids, 10) + " processes."
	case e.Signal != nil:
		return "Stopped: the worker was ended by signal " + signalName(e.Signal) + "."
	}
	return ""
}

func signalName(s interface{ String() string }) string {
	if no, ok := s.(syscall.Signal); ok {
		if name := unix.SignalName(no); name != "" {
			return name
		}
		return strconv.Itoa(int(no))
	}
	return s.String()
}

// Bytes writes a size for people, with at most one decimal: by thousands when
// that is shortest (5 GB), else by 1024, which people call by the same names
// (2 GB of memory).
func Bytes(n int64) string {
	names := []string{"bytes", "KB", "MB", "GB", "TB", "PB", "EB"}
	by := func(base int64) string {
		f, i := float64(n), 0
		for f >= float64(base) && i < len(names)-1 {
			f, i = f/float64(base), i+1
		}
		return strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0") + " " + names[i]
	}
	thousands, binary := by(1000), by(1024)
	if len(binary) < len(thousands) {
		return binary
	}
	return thousands
}
