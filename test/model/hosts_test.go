package model

import (
	"strings"
	"testing"

	"gurtos/netpolicy"
	"gurtos/test/internet"
)

// What is said of a host is what the task's programs get there: the hosts of its worker's model too, which are none of its own.
func TestReachIsWhatIsTold(t *testing.T) {
	w := newWorld(t)
	hosts := []string{"example.com:443", "api.factory.ai:443", "telemetry.factory.ai:443", "api.factory.ai:80", "other.example.org:443", internet.Addr(13) + ":443"}
	want := map[string][]bool{"droid": {true, true, true, false, false, false}, "fake": {true, false, false, false, false, false}}
	for worker, want := range want {
		var lines []string
		for _, h := range hosts {
			host, port, _ := strings.Cut(h, ":")
			lines = append(lines, "try python3 -c 'import socket; socket.create_connection((\""+host+"\", "+port+"), 60); print(\"worked\")'")
		}
		id := w.start(spec{"worker": worker, "hosts": []string{"example.com"}}, lines...)
		out := outputs(w.ended(id, "done"))
		for n, h := range hosts {
			var e netpolicy.Explanation
			w.api("GET", "/api/tasks/"+id+"/reach?host="+h, nil, &e)
			if got := out[n+1] == "worked"; got != want[n] || e.Allowed != got {
				t.Errorf("worker %s, %s: a program reaches it: %v (%q), want %v; it is told %+v", worker, h, got, out[n+1], want[n], e)
			}
		}
	}
}

// An allowed name that does not resolve is a temporary failure at once, and a step in the task's log, once however often it is asked for; a host that is
// down gives its own error; a host that is not allowed does not exist, and refuses the connection.
func TestHostsThatFail(t *testing.T) {
	w := newWorld(t)
	w.net.Name("servfail.example.com", "")
	w.net.Name("down.example.com", internet.Addr(10))
	w.net.Name("away.example.com", "198.51.100.77")
	w.net.Name("other.example.com", internet.Addr(10))
	try := func(what string) string {
		return `try python3 -c 'import errno, socket
def run(f, *a):
    try: f(*a); return "worked"
    except socket.gaierror as e: return {socket.EAI_AGAIN: "again", socket.EAI_NONAME: "no name"}.get(e.errno, str(e))
    except OSError as e: return errno.errorcode.get(e.errno, str(e))
` + what + `'`
	}
	// A line of the worker's language is one line: the program is put in by exec.
	line := func(what string) string {
		return strings.ReplaceAll(strings.ReplaceAll(try(what), `'import`, `'exec("""import`), "\n", `\n`)
	}
	end := func(s string) string { return strings.TrimSuffix(s, "'") + `""")'` }
	lookup := func(name string) string { return end(line(`print(run(socket.getaddrinfo, "` + name + `", 80))`)) }
	connect := func(name, port string) string {
		return end(line(`print(run(socket.create_connection, ("` + name + `", ` + port + `), 60))`))
	}
	id := w.start(spec{"worker": "fake", "hosts": []string{"servfail.example.com", "missing.example.com", "down.example.com", "away.example.com"}},
		lookup("servfail.example.com"), lookup("servfail.example.com"), lookup("missing.example.com"), lookup("other.example.com"),
		connect("down.example.com", "4444"), connect("away.example.com", "80"), connect(internet.Addr(10), "443"), connect("down.example.com", "443"),
	)
	all := w.ended(id, "done")
	out := outputs(all)
	for n, want := range []string{"again", "again", "again", "no name", "ECONNREFUSED", "EHOSTUNREACH", "ECONNREFUSED", "worked"} {
		if out[n+1] != want {
			t.Errorf("line %d: %q, want %q", n+1, out[n+1], want)
		}
	}
	for _, name := range []string{"servfail", "missing"} {
		n := 0
		for _, e := range all {
			if e.Type == "task.step" && strings.HasPrefix(e.Text, "The name "+name+".example.com could not be resolved: ") {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d steps tell of %s.example.com", n, name)
		}
	}
	blocked := map[string]bool{}
	for _, e := range all {
		if e.Type == "net.blocked" {
			blocked[e.Host] = true
		}
	}
	if len(blocked) != 2 || !blocked["other.example.com:53"] || !blocked[internet.Addr(10)+":443"] {
		t.Errorf("blocked %v", blocked)
	}
}

// A task that comes to a limit of its network reads that in its log, once, and the host is not among those that it may not reach.
func TestLimitIsTold(t *testing.T) {
	w := newWorld(t)
	id := w.start(spec{"worker": "fake", "hosts": []string{"example.com"}},
		`run python3 -c 'import socket; held = [socket.socket() for _ in range(300)]; print(sum(s.connect_ex(("example.com", 443)) != 0 for s in held))'`)
	all := w.ended(id, "done")
	if out := outputs(all)[1]; out == "0" || out == "300" {
		t.Errorf("of 300 connections %s are refused", out)
	}
	if n := steps(all, "256 connections are open, as many as may be; more are refused, such as one to example.com:443, until one of them ends."); n != 1 {
		t.Errorf("%d steps tell of the limit: %+v", n, all)
	}
	for _, e := range all {
		if e.Type == "net.blocked" {
			t.Errorf("%s is told as refused, %+v", e.Host, e)
		}
	}
}
