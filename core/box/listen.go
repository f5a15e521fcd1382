package box

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// listen opens the box's socket, loopback and the uplinks.
func (b *Box) listen() error {
	sock, err := listenUnix(b.conf.Socket())
	if err != nil {
		return err
	}
	b.local = append(b.local, sock)
	port := strconv.Itoa(b.conf.Port)
	l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return taken("BOX_PORT", b.conf.Port, err)
	}
	b.local = append(b.local, l)
	// Browsers try ::1 first for localhost; a machine without IPv6 does without.
	if l, err := net.Listen("tcp6", net.JoinHostPort("::1", port)); err == nil {
		b.local = append(b.local, l)
	}
	if b.conf.LANPlain != 0 {
		l, err := net.Listen("tcp", net.JoinHostPort("", strconv.Itoa(b.conf.LANPlain)))
		if err != nil {
			return taken("BOX_LAN", b.conf.LANPlain, err)
		}
		b.lan = append(b.lan, l)
	}
	return nil
}

func taken(name string, port int, err error) error {
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("port %d is in use by another program: stop it, or choose another with %s", port, name)
	}
	return fmt.Errorf("listening on port %d (%s): %w", port, name, err)
}

// listenUnix makes a socket that has mode 0600 from the moment it has its name.
// The lock on the action log says that no other boxd uses it.
func listenUnix(path string) (net.Listener, error) {
	next := path + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("making the box's socket: %w", err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: next, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("making the box's socket: %w", err)
	}
	l.SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(next, 0o600), os.Rename(next, path)); err != nil {
		l.Close()
		return nil, fmt.Errorf("making the box's socket: %w", err)
	}
	return l, nil
}
