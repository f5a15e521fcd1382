package uevent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// An Event is one message of the kernel.
type Event struct {
	Action    string // add, remove, change, bind …
	Path      string // below /sys
	Subsystem string // block, net, input …
	Device    string // name below /dev, "" when it has none
	Alias     string // modalias, "" when it has none
	Lost      bool   // no event: some were lost, look at everything again
}

// A Listener hears events from the moment it is made.
type Listener struct{ f *os.File }

// Listen opens the socket.
func Listen() (*Listener, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("listen for uevents: %w", err)
	}
	// A whole machine's cold plug fits; the default of 208 KiB does not always.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20)
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("listen for uevents: %w", err)
	}
	return &Listener{f: os.NewFile(uintptr(fd), "uevent")}, nil
}

// Run calls fn for every event, one after another, until ctx ends; it closes
// the listener.
func (l *Listener) Run(ctx context.Context, fn func(Event)) error {
	stop := context.AfterFunc(ctx, func() { l.f.Close() })
	defer stop()
	defer l.f.Close()
	raw, err := l.f.SyscallConn()
	if err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for {
		var n int
		var from unix.Sockaddr
		var got error
		err := raw.Read(func(fd uintptr) bool {
			n, from, got = unix.Recvfrom(int(fd), buf, 0)
			return got != unix.EAGAIN
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("read uevents: %w", err)
		case errors.Is(got, unix.ENOBUFS):
			fn(Event{Lost: true})
			continue
		case got == unix.EINTR:
			continue
		case got != nil:
			return fmt.Errorf("read uevents: %w", got)
		}
		if nl, ok := from.(*unix.SockaddrNetlink); !ok || nl.Pid != 0 {
			continue
		}
		if e, ok := parse(buf[:n]); ok {
			fn(e)
		}
	}
}

// parse reads "add@/devices/…" and its zero-ended KEY=value words.
func parse(msg []byte) (Event, bool) {
	head, rest, ok := bytes.Cut(msg, []byte{0})
	action, path, at := strings.Cut(string(head), "@")
	if !ok || !at {
		return Event{}, false
	}
	e := Event{Action: action, Path: path}
	for word := range bytes.SplitSeq(rest, []byte{0}) {
		key, value, _ := strings.Cut(string(word), "=")
		switch key {
		case "SUBSYSTEM":
			e.Subsystem = value
		case "DEVNAME":
			e.Device = value
		case "MODALIAS":
			e.Alias = value
		}
	}
	return e, true
}
