package netns

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// inside marks the process that is in the namespaces.
const inside = "GURTOS_TEST_NETNS"

// Main runs a package's tests in a network and a mount namespace of their own, with a folder for temporary files that goes with them. Programs that a
// test starts are in them too.
func Main(m *testing.M) {
	if os.Getenv(inside) != "" {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			fmt.Fprintln(os.Stderr, "keeping mounts to the tests:", err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	os.Exit(again())
}

// again runs this program once more, in the namespaces, and gives its exit code.
func again() int {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "tests")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	c := exec.Command(self, os.Args[1:]...)
	c.Env = append(os.Environ(), inside+"=1", "TMPDIR="+dir)
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := c.Run(); err != nil {
		if c.ProcessState == nil {
			fmt.Fprintln(os.Stderr, "these tests make namespaces and need root:", err)
			return 1
		}
		return max(c.ProcessState.ExitCode(), 1)
	}
	return 0
}

// Namespace is a network namespace that code can run in.
type Namespace struct{ *os.File }

// New makes one, with its loopback up. It lives as long as its file is open.
func New() (n Namespace, err error) {
	err = onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("making a network namespace: %w", err)
		}
		if n.File, err = os.Open("/proc/thread-self/ns/net"); err != nil {
			return err
		}
		return Up("lo")
	})
	return n, err
}

// Do runs f on a thread in the namespace. Sockets that it opens stay there; goroutines that it starts do not.
func (n Namespace) Do(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(int(n.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("going into a network namespace: %w", err)
		}
		return f()
	})
}

// onThread runs f on a thread of its own, which is thrown away.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- f()
	}()
	return <-done
}

// Veth makes a link between this namespace and another one, by its names on both sides.
func Veth(here, there string, to Namespace) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = here
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: there, PeerNamespace: netlink.NsFd(to.Fd())}); err != nil {
		return fmt.Errorf("veth: %w", err)
	}
	return nil
}

// Up gives a link of the caller's namespace more addresses, such as 192.0.2.1/24, and brings it up.
func Up(link string, addrs ...string) error {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return fmt.Errorf("link %s: %w", link, err)
	}
	for _, a := range addrs {
		addr, err := netlink.ParseAddr(a)
		if err != nil {
			return err
		}
		addr.Flags = unix.IFA_F_NODAD // nobody else is there
		if err := netlink.AddrReplace(l, addr); err != nil {
			return fmt.Errorf("address %s: %w", a, err)
		}
	}
	return netlink.LinkSetUp(l)
}

// Route leads networks, such as 0.0.0.0/0, over a link of the caller's namespace.
func Route(link string, to ...string) error {
	l, err := netlink.LinkByName(link)
	if err != nil {
		return fmt.Errorf("link %s: %w", link, err)
	}
	for _, r := range to {
		_, dst, err := net.ParseCIDR(r)
		if err != nil {
			return err
		}
		if err := netlink.RouteAdd(&netlink.Route{LinkIndex: l.Attrs().Index, Dst: dst}); err != nil {
			return fmt.Errorf("route %s: %w", r, err)
		}
	}
	return nil
}

// Instead has programs of the tests' mount namespace read another text in a file. dir is where the text is kept as long as they do.
func Instead(dir, at string, text []byte) error {
	f := filepath.Join(dir, filepath.Base(at))
	if err := os.WriteFile(f, text, 0o644); err != nil { //nolint:gosec // all may read it
		return err
	}
	at, err := filepath.EvalSymlinks(at)
	if err != nil {
		return err
	}
	return unix.Mount(f, at, "", unix.MS_BIND, "")
}

// Authorities is the file in which programs look whom they trust.
const Authorities = "/etc/ssl/certs/ca-certificates.crt"

// Trust has them trust one more authority, and ask a name server alone.
func Trust(dir string, authority []byte, server string) error {
	own, err := os.ReadFile(Authorities)
	if err != nil {
		return err
	}
	if err := Instead(dir, Authorities, append(own, authority...)); err != nil {
		return err
	}
	return Instead(dir, "/etc/resolv.conf", []byte("nameserver "+server+"\noptions timeout:1 attempts:2\n"))
}
