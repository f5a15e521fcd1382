package netpolicy

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// bindNone asks the kernel for a part of netfilter that none has.
func bindNone() (*netlink.Conn, error) {
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	data, err := queueMessage(netlink.Attribute{Type: nfqaCfgCmd, Data: []byte{nfqnlCmdBind, 0, 0, unix.AF_UNSPEC}})
	if err == nil {
		_, err = c.Execute(netlink.Message{Header: netlink.Header{Type: 200 << 8, Flags: netlink.Request | netlink.Acknowledge}, Data: data})
	}
	if err == nil {
		err = errors.New("the kernel has it")
	}
	return nil, err
}

// TestWithoutQueue holds what a kernel without a queue gives: connections that are taken
// and then reset, and else the same verdicts, told the same; and that the machine's owner
// reads that.
func TestWithoutQueue(t *testing.T) {
	whole, err := openBy(quietLog(t), 1, byQueue)
	if err != nil {
		t.Fatal(err)
	}
	ways := len(whole.Weaker()) == 0 // of this machine's kernel
	if err := whole.Close(); err != nil {
		t.Error(err)
	}
	noTarget := &expr.Target{Name: "GURTOSNONE", Info: &xt.Unknown{0, 0, 0, 0, 0, 0, 0, 0}}
	for _, c := range []struct {
		name string
		by   queueing
		has  bool // a queue all the same
	}{
		{"the kernel has none", queueing{bindNone, byQueue.into}, false},
		{"nothing puts packets into it", queueing{openQueue, []expr.Any{noTarget}}, false},
		{"one way is unknown, another is not", queueing{openQueue, append([]expr.Any{noTarget}, byQueue.into...)}, ways},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := outside(t)
			reached := theBox(t)
			i.name("example.com", webAddr, webAddr6)
			i.name("box.example.com", boxAddr)
			i.name("lan.example.com", lanAddr)
			serveTCP(t, i, 3100, func(c *net.TCPConn) { io.Copy(c, c) }) //nolint:errcheck // an echo
			n, err := openBy(quietLog(t), 1, c.by)
			if err != nil {
				t.Fatal(err)
			}
			defer n.Close()
			w := n.Weaker()
			if want := map[bool]int{true: 0, false: 1}[c.has]; len(w) != want || want == 1 && !strings.HasPrefix(w[0], "This kernel has no NFQUEUE: ") {
				t.Fatalf("weaker: %q, want %d sentences", w, want)
			}
			ns, err := n.Namespace()
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			var blocked []string
			s, err := ns.Attach(Policy{Hosts: []string{"example.com", "box.example.com", "lan.example.com"}, Blocked: func(h string, _ int) {
				mu.Lock()
				defer mu.Unlock()
				blocked = append(blocked, h)
			}})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			p := program{t, s}
			for _, v6 := range []bool{false, true} {
				conn, err := p.connect("example.com", 3100, v6)
				if err != nil {
					t.Fatal(err)
				}
				write(t, conn, "a")
				read(t, conn, 1)
			}
			gone := func(what string, conn net.Conn, err error) {
				t.Helper()
				if err == nil {
					_, err = conn.Read(make([]byte, 1))
				}
				if !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.ECONNREFUSED) {
					t.Errorf("%s: %v", what, err)
				}
			}
			for _, at := range []string{webAddr + ":3100", "[" + webAddr6 + "]:80", "10.1.2.3:22"} {
				conn, err := p.dial("tcp", at)
				gone(at, conn, err)
			}
			for _, name := range []string{"box.example.com", "lan.example.com"} {
				conn, err := p.connect(name, 7700, false)
				gone(name, conn, err)
			}
			conn, err := p.connect("example.com", 4444, false)
			gone("a host that is down", conn, err)
			if err := udp(netAddr + ":9999")(p); !errors.Is(err, syscall.EPERM) {
				t.Errorf("UDP: %v", err)
			}
			want := []string{webAddr + ":3100", "[" + webAddr6 + "]:80", "10.1.2.3:22", "box.example.com:7700", "lan.example.com:7700", netAddr + ":9999"}
			if !eventually(func() bool {
				mu.Lock()
				defer mu.Unlock()
				return slices.Equal(blocked, want)
			}) {
				t.Errorf("told %q, want %q", blocked, want)
			}
			reached(t)

			a, err := p.lookup("example.com", false)
			if err != nil {
				t.Fatal(err)
			}
			addr := netip.AddrPortFrom(a, 3100).String()
			for { // up to the limit, of which some are open already
				conn, err := p.dial("tcp", addr)
				if err == nil {
					if _, err = conn.Write([]byte("a")); err == nil {
						_, err = io.ReadFull(conn, make([]byte, 1))
					}
				}
				if err != nil {
					break
				}
			}
			s.mu.Lock()
			open := len(s.conns)
			s.mu.Unlock()
			if open != MaxConns {
				t.Errorf("%d connections are open when one more has no room, want %d", open, MaxConns)
			}
		})
	}
	denied := func() (*netlink.Conn, error) { return nil, unix.EPERM }
	if n, err := openBy(quietLog(t), 1, queueing{denied, byQueue.into}); err == nil {
		n.Close()
		t.Error("a queue that may not be read is none")
	}
}
