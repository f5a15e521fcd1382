// Package network measures the network of a task beside a plain veth with nftables
// and beside proxies that others use, all in one run and over the same link.
package network

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/netpolicy"
	"gurtos/test/netns"
)

// The measurements run in a network and mount namespace of their own: the box. A
// veth leads to the server's namespace, another to a client with no relay between.
const (
	serverAddr = "192.0.2.34"
	sourcePort = 5001 // sends until the client has enough
	echoPort   = 5002 // sends back what comes
	holdPort   = 5003 // keeps the connection
	boxAddr    = "192.0.2.1"
	clientGate = "203.0.113.1" // the box towards the plain client
)

func TestMain(m *testing.M) { netns.Main(m) }

// place is a namespace that a client is in.
type place struct{ netns.Namespace }

func (p place) dial(addr string) (c net.Conn, err error) {
	err = p.Do(func() error { c, err = net.Dial("tcp", addr); return err })
	return c, err
}

func sh(script string) error {
	out, err := exec.Command("sh", "-ec", script).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", script, err, out)
	}
	return nil
}

// server is the other end of the link; world makes it.
var server netns.Namespace

// world is the link, made once.
var world = sync.OnceValues(func() (plain place, err error) {
	if server, err = netns.New(); err != nil {
		return plain, err
	}
	if plain.Namespace, err = netns.New(); err != nil {
		return plain, err
	}
	if err := errors.Join(netns.Veth("up0", "peer0", server), netns.Veth("down0", "peer0", plain.Namespace)); err != nil {
		return plain, err
	}
	if err := sh(`ip link set lo up; ip addr add ` + boxAddr + `/24 dev up0; ip link set up0 up; ip addr add ` + clientGate + `/24 dev down0; ip link set down0 up; sysctl -qw net.ipv4.ip_forward=1
		nft 'table ip t { chain f { type filter hook forward priority 0; policy drop; ct state established,related accept; ip daddr ` + serverAddr + ` accept; }; chain n { type nat hook postrouting priority 100; oifname "up0" masquerade; }; }'`); err != nil {
		return plain, err
	}
	if err := plain.Do(func() error {
		return sh(`ip link set lo up; ip addr add 203.0.113.2/24 dev peer0; ip link set peer0 up; ip route add default via ` + clientGate)
	}); err != nil {
		return plain, err
	}
	return plain, server.Do(func() error {
		if err := sh(`ip link set lo up; ip addr add ` + serverAddr + `/24 dev peer0; ip link set peer0 up`); err != nil {
			return err
		}
		zero := make([]byte, 256<<10)
		for port, serve := range map[int]func(net.Conn){
			sourcePort: func(c net.Conn) {
				for {
					if _, err := c.Write(zero); err != nil {
						return
					}
				}
			},
			echoPort: func(c net.Conn) {
				io.Copy(c, c) //nolint:errcheck // the client tells
			},
			holdPort: func(c net.Conn) { io.Copy(io.Discard, c) }, //nolint:errcheck // until it ends
		} {
			ln, err := net.Listen("tcp", fmt.Sprintf("%s:%d", serverAddr, port))
			if err != nil {
				return err
			}
			go func() {
				for {
					c, err := ln.Accept()
					if err != nil {
						return
					}
					go func() { defer c.Close(); serve(c) }()
				}
			}()
		}
		return nil
	})
})

// shape bounds what the server sends; "" takes the bound away.
func shape(b testing.TB, rate string) {
	b.Helper()
	line := `tc qdisc del dev peer0 root 2>/dev/null || true`
	if rate != "" {
		line += `; tc qdisc replace dev peer0 root tbf rate ` + rate + ` burst 256k latency 50ms`
	}
	if err := server.Do(func() error { return sh(line) }); err != nil {
		b.Fatal(err)
	}
}

func open(b testing.TB, pool int) *netpolicy.Net {
	n, err := netpolicy.Open(slog.New(slog.NewTextHandler(b.Output(), nil)), pool)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { n.Close() })
	return n
}

// ours is a task's network with the server allowed.
func ours(b testing.TB, n *netpolicy.Net) place {
	ns, err := n.Namespace()
	if err != nil {
		b.Fatal(err)
	}
	s, err := ns.Attach(netpolicy.Policy{
		Hosts:   []string{fmt.Sprintf("%s:%d", serverAddr, sourcePort), fmt.Sprintf("%s:%d", serverAddr, echoPort), fmt.Sprintf("%s:%d", serverAddr, holdPort)},
		Blocked: func(h string, _ int) { b.Errorf("blocked %s", h) }, UploadLimit: 1 << 40, Upload: nil,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	return place{netns.Namespace{File: ns.File()}}
}

// ahead is a connection of which some was read already.
type ahead struct {
	net.Conn
	r io.Reader
}

func (a ahead) Read(b []byte) (int, error) { return a.r.Read(b) }

// peer is a way to the server; pid is a process whose CPU time counts too, 0 for
// none.
type peer struct {
	name    string
	connect func(port int) (net.Conn, error)
	pid     int
}

func peers(b testing.TB) []peer {
	plain, err := world()
	if err != nil {
		b.Fatal(err)
	}
	us := ours(b, open(b, 1))
	list := []peer{
		{"direct", func(port int) (net.Conn, error) { return plain.dial(fmt.Sprintf("%s:%d", serverAddr, port)) }, 0},
		{"gurtos", func(port int) (net.Conn, error) { return us.dial(fmt.Sprintf("%s:%d", serverAddr, port)) }, 0},
	}
	dir, err := os.MkdirTemp("/tmp", "bench")
	if err != nil {
		b.Fatal(err)
	}
	os.Chmod(dir, 0o777) //nolint:errcheck,gosec // squid works there as its own user
	b.Cleanup(func() { os.RemoveAll(dir) })
	for _, p := range []struct {
		name, port, conf string
		args             []string
	}{
		{"tinyproxy", "8881", "Port 8881\nListen " + clientGate + "\nMaxClients 100\nTimeout 60\nLogLevel Critical\n", []string{"tinyproxy", "-d", "-c"}},
		{"squid", "8882", "http_port " + clientGate + ":8882\nhttp_access allow all\ncache deny all\naccess_log none\ncache_log /dev/null\npid_filename none\ncoredump_dir " + dir + "\n", []string{"squid", "-N", "-f"}},
		{"mitmproxy", "8883", "", []string{"mitmdump", "-q", "--listen-host", clientGate, "--listen-port", "8883", "--ignore-hosts", ".*"}},
	} {
		if _, err := exec.LookPath(p.args[0]); err != nil {
			b.Errorf("%s is not installed: `make bench` installs it where it may", p.name)
			continue
		}
		if p.conf != "" {
			file := filepath.Join(dir, p.name)
			if err := os.WriteFile(file, []byte(p.conf), 0o644); err != nil { //nolint:gosec // the same
				b.Fatal(err)
			}
			p.args = append(p.args, file)
		}
		// No Pdeathsig: it would fire when the thread that starts it ends, and
		// threads end here all the time.
		c := exec.Command(p.args[0], p.args[1:]...)
		if err := c.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { c.Process.Kill(); c.Wait() }) //nolint:errcheck // it is being ended
		connect := func(port int) (net.Conn, error) {
			conn, err := plain.dial(clientGate + ":" + p.port)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(conn, "CONNECT %s:%d HTTP/1.1\r\nHost: %s:%d\r\n\r\n", serverAddr, port, serverAddr, port)
			r := bufio.NewReader(conn)
			res, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
			if err == nil && res.StatusCode != http.StatusOK {
				err = fmt.Errorf("%s", res.Status)
			}
			return ahead{conn, r}, err
		}
		ready := false
		for end := time.Now().Add(20 * time.Second); !ready && time.Now().Before(end); runtime.Gosched() {
			conn, err := plain.dial(clientGate + ":" + p.port)
			if ready = err == nil; ready {
				conn.Close()
			}
		}
		if !ready {
			b.Errorf("%s does not start", p.name)
			continue
		}
		list = append(list, peer{p.name, connect, c.Process.Pid})
	}
	return list
}

// cpu is what this process and another have used, with the kernel's work for them.
func cpu(b testing.TB, pid int) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	d := time.Duration(u.Utime.Nano() + u.Stime.Nano())
	if pid == 0 {
		return d
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		b.Fatal(err)
	}
	f := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var user, sys int64
	fmt.Sscan(f[11]+" "+f[12], &user, &sys) //nolint:errcheck // the kernel's own format
	return d + time.Duration(user+sys)*10*time.Millisecond
}

// hello is what a client says first, of no protocol: mitmproxy looks at three bytes
// before it passes anything on.
const hello = "\x00hello\n"

// fetch takes n bytes from the server.
func fetch(b testing.TB, p peer, n int64) (time.Duration, time.Duration) {
	c, err := p.connect(sourcePort)
	if err != nil {
		b.Fatalf("%s: %v", p.name, err)
	}
	defer c.Close()
	io.WriteString(c, hello) //nolint:errcheck // the read tells
	used, start := cpu(b, p.pid), time.Now()
	buf := make([]byte, 256<<10)
	for left := n; left > 0; {
		k, err := c.Read(buf[:min(int64(len(buf)), left)])
		if err != nil {
			b.Fatalf("%s: %v", p.name, err)
		}
		left -= int64(k)
	}
	return time.Since(start), cpu(b, p.pid) - used
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkNetwork is what passes, what it costs and what a connection takes.
func BenchmarkNetwork(b *testing.B) {
	list := peers(b)
	const whole, shaped, rounds = 128 << 20, 64 << 20, 3
	for _, p := range list {
		b.Run("unshaped/"+p.name, func(b *testing.B) {
			var took, used []time.Duration
			for b.Loop() {
				for range rounds {
					t, u := fetch(b, p, whole)
					took, used = append(took, t), append(used, u)
				}
			}
			b.ReportMetric(float64(whole)/1e6/median(took).Seconds(), "MB/s")
			b.ReportMetric(median(used).Seconds()*1e9/float64(whole), "cpu-s/GB")
		})
	}
	for _, p := range list {
		b.Run("1-Gbit/"+p.name, func(b *testing.B) {
			shape(b, "1gbit")
			defer shape(b, "")
			var took []time.Duration
			for b.Loop() {
				for range 3 {
					t, _ := fetch(b, p, shaped)
					took = append(took, t)
				}
			}
			b.ReportMetric(float64(shaped)*8/1e6/median(took).Seconds(), "Mbit/s")
		})
	}
	for _, p := range list {
		b.Run("set-up/"+p.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				for range 200 {
					start := time.Now()
					c, err := p.connect(echoPort)
					if err != nil {
						b.Fatal(err)
					}
					io.WriteString(c, hello) //nolint:errcheck // the read tells
					if _, err := io.ReadFull(c, make([]byte, len(hello))); err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(start))
					c.Close()
				}
			}
			b.ReportMetric(float64(median(took).Microseconds())/1000, "p50-ms")
		})
	}
}

// BenchmarkNamespace is how long a task would wait for its namespace.
func BenchmarkNamespace(b *testing.B) {
	if _, err := world(); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		pool int
	}{{"pooled", 32}, {"made", 1}} {
		b.Run(c.name, func(b *testing.B) {
			n := open(b, c.pool)
			if c.pool == 1 { // nobody makes any ahead: half of them would be there by luck
				n.Close()
			}
			var took []time.Duration
			for b.Loop() {
				took = nil
				for range 20 {
					if c.pool > 1 {
						for end := time.Now().Add(10 * time.Second); n.Ready() < c.pool && time.Now().Before(end); runtime.Gosched() {
						}
					}
					start := time.Now()
					ns, err := n.Namespace()
					if err != nil {
						b.Fatal(err)
					}
					took = append(took, time.Since(start))
					ns.Close()
				}
			}
			b.ReportMetric(float64(median(took).Microseconds())/1000, "p50-ms")
		})
	}
}

// BenchmarkMemory is what 256 idle connections in each of 8 namespaces take, both of
// their ends in this process too.
func BenchmarkMemory(b *testing.B) {
	if _, err := world(); err != nil {
		b.Fatal(err)
	}
	resident := func() int {
		runtime.GC()
		var size, rss int
		stat, err := os.ReadFile("/proc/self/statm")
		if err != nil {
			b.Fatal(err)
		}
		fmt.Sscan(string(stat), &size, &rss) //nolint:errcheck // the kernel's own format
		return rss * os.Getpagesize()
	}
	for b.Loop() {
		n := open(b, 1)
		before := resident()
		for range 8 {
			us := ours(b, n)
			for range netpolicy.MaxConns {
				c, err := us.dial(fmt.Sprintf("%s:%d", serverAddr, holdPort))
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { c.Close() })
				if _, err := c.Write([]byte("plain\n")); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(resident()-before)/(1<<20), "MiB")
	}
}
