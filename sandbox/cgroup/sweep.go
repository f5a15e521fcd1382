package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/opencontainers/cgroups"
	"golang.org/x/sys/unix"
)

// Sweep kills every process below the group at parent, in every hierarchy, and
// removes the groups there, and parent itself. It returns how many processes it
// killed.
func Sweep(parent string, patience time.Duration) (killed int, err error) {
	g, err := New(parent, Limits{})
	if err != nil {
		return 0, err
	}
	until := time.Now().Add(patience)
	paths := g.m.GetPaths()
	// With version 1 nothing that is frozen dies, and only one hierarchy can thaw it.
	// Nor does it run again: it has been killed when it is thawed.
	for _, pass := range []func(path string) error{killIn, func(path string) error { write(path, "freezer.state", "THAWED"); return nil }} {
		for _, dir := range paths {
			if err := each(dir, pass); err != nil {
				return 0, fmt.Errorf("control group %s: %w", dir, err)
			}
		}
	}
	for _, dir := range paths {
		n, err := sweep(dir, until)
		killed += n
		if err != nil {
			return killed, fmt.Errorf("control group %s: %w", dir, err)
		}
	}
	return killed, cgroups.RemovePaths(paths)
}

// each calls fn with dir and every group below it, none where there is no dir.
func each(dir string, fn func(path string) error) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !d.IsDir() {
			return err
		}
		return fn(path)
	})
}

// sweep empties the tree at dir: a process may fork while it is killed, so it
// looks again until none is left.
func sweep(dir string, until time.Time) (killed int, err error) {
	for {
		var pids []int
		err := each(dir, func(path string) error {
			write(path, "cgroup.kill", "1") // version 2
			here, err := pidsIn(path)
			pids = append(pids, here...)
			return err
		})
		if err != nil || len(pids) == 0 {
			return killed, err
		}
		for _, pid := range pids {
			gone, err := kill(pid, until)
			if err != nil {
				return killed, err
			}
			if gone {
				killed++
			}
		}
	}
}

// killIn sends SIGKILL to what is in the group at path and waits for nothing.
func killIn(path string) error {
	pids, err := pidsIn(path)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		fd, err := openKilled(pid)
		if err != nil {
			return err
		}
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	return nil
}

// pidsIn are the processes in the group at path, none where there is no group.
func pidsIn(path string) ([]int, error) {
	pids, err := cgroups.GetPids(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	return pids, err
}

// openKilled opens a process and sends it SIGKILL. The descriptor is negative when it is gone.
func openKilled(pid int) (fd int, err error) {
	fd, err = unix.PidfdOpen(pid, 0)
	switch {
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM): // of ours, and it may be there
		return -1, fmt.Errorf("opening process %d: %w", pid, err)
	case err != nil:
		return -1, nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		unix.Close(fd)
		return -1, fmt.Errorf("killing process %d: %w", pid, err)
	}
	return fd, nil
}

// kill ends a process that is nobody's child here, and waits for its end.
func kill(pid int, until time.Time) (bool, error) {
	fd, err := openKilled(pid)
	if err != nil || fd < 0 {
		return false, err
	}
	defer unix.Close(fd)
	for {
		left := time.Until(until)
		if left <= 0 {
			return false, fmt.Errorf("process %d: %w", pid, ErrStays)
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(left/time.Millisecond)+1)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return false, fmt.Errorf("waiting for process %d: %w", pid, err)
		}
		if n > 0 {
			return true, nil
		}
	}
}

func write(dir, file, value string) {
	p := filepath.Join(dir, file)
	if _, err := os.Stat(p); err != nil {
		return
	}
	os.WriteFile(p, []byte(value), 0)
}

// Children names the groups below parent.
func Children(parent string) ([]string, error) {
	g, err := New(parent, Limits{})
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var out []string
	for _, dir := range g.m.GetPaths() {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() && !seen[e.Name()] && !strings.HasPrefix(e.Name(), ".") {
				seen[e.Name()] = true
				out = append(out, e.Name())
			}
		}
	}
	return out, nil
}
