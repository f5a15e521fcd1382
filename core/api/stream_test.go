package api

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gurtos/core/actionlog"
)

// stream is an open GET /api/events.
type stream struct {
	t   testing.TB
	ctx context.Context // ends when the stream says nothing for too long
	r   *bufio.Reader
}

func (b *box) stream(as who, query string, header map[string]string) *stream {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Minute)
	b.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", b.url+"/api/events"+query, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	if as != screen {
		r.Header.Set("Authorization", "Bearer "+b.token[as])
	}
	for k, v := range header {
		r.Header.Set(k, v)
	}
	a, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { a.Body.Close() })
	if a.StatusCode != 200 || a.Header.Get("Content-Type") != "text/event-stream" || a.Header.Get("X-Accel-Buffering") != "no" || !strings.Contains(a.Header.Get("Cache-Control"), "no-transform") {
		b.t.Fatalf("%s %v", a.Status, a.Header)
	}
	return &stream{b.t, ctx, bufio.NewReader(a.Body)}
}

// event is the next one: its id and the line.
func (s *stream) event() (id string, ev actionlog.Event, err error) {
	for {
		text, err := s.r.ReadString('\n')
		if err != nil {
			return "", ev, err
		}
		if v, ok := strings.CutPrefix(text, "id: "); ok {
			id = strings.TrimSpace(v)
		}
		if v, ok := strings.CutPrefix(text, "data: "); ok {
			ev, err := actionlog.Decode([]byte(strings.TrimSpace(v)))
			return id, ev, err
		}
	}
}

func (s *stream) next() actionlog.Event {
	s.t.Helper()
	id, ev, err := s.event()
	if err != nil {
		s.t.Fatal(err)
	}
	if id != fmt.Sprint(ev.Seq) {
		s.t.Fatalf("id %s, seq %d", id, ev.Seq)
	}
	return ev
}

func TestEvents(t *testing.T) {
	b := newBox(t)
	b.running()
	head, _ := b.log.Head()
	s := b.stream(screen, "", nil)
	for want := int64(1); want <= head; want++ {
		if ev := s.next(); ev.Seq != want {
			t.Fatalf("line %d, want %d", ev.Seq, want)
		}
	}
	// Live.
	b.put("x", "y")
	if ev := s.next(); ev.Seq != head+1 || ev.Type != actionlog.TypeTaskCreated {
		t.Fatalf("%+v", ev)
	}
	// A stream that broke off goes on behind what was seen, whatever after says.
	again := b.stream(screen, "?after=0", map[string]string{"Last-Event-ID": fmt.Sprint(head)})
	if ev := again.next(); ev.Seq != head+1 {
		t.Fatalf("went on at %d, not %d", ev.Seq, head+1)
	}
	if ev := b.stream(owner, fmt.Sprintf("?after=%d", head+1), nil).next(); ev.Seq != head+2 {
		t.Fatalf("began at %d, not %d", ev.Seq, head+2)
	}
}

func TestEventsOfADevice(t *testing.T) {
	b := newBox(t)
	b.into(req{as: screen, method: "PUT", path: "/api/settings", body: `{"keepDays":2}`}, &struct{}{})
	a := b.asked("1")
	s := b.stream(member, "", nil)
	for {
		ev := s.next()
		if ev.Type == actionlog.TypeNote || ev.Type == actionlog.TypeCost {
			t.Fatalf("a device sees %+v", ev)
		}
		if ev.Type == actionlog.TypeApprovalAsked && ev.Task == a.Task {
			break
		}
	}
	// Its stream ends with its pairing.
	b.into(req{as: screen, method: "DELETE", path: "/api/devices/" + b.id[member]}, &struct{}{})
	for {
		if _, _, err := s.event(); err != nil {
			break
		}
	}
	if s.ctx.Err() != nil {
		t.Error("the stream of a removed device went on")
	}
}

// One event reaches 200 followers, each once.
func TestManyFollowers(t *testing.T) {
	b := newBox(t)
	head, _ := b.log.Head()
	followers := make([]*stream, 200)
	for i := range followers {
		followers[i] = b.stream(owner, fmt.Sprintf("?after=%d", head), nil)
	}
	b.put("x", "y")
	for i, s := range followers {
		for want := head + 1; want <= head+3; want++ {
			if ev := s.next(); ev.Seq != want {
				t.Fatalf("follower %d got line %d, not %d", i, ev.Seq, want)
			}
		}
	}
}

// A stream on which nothing happens says every 15 seconds that it is there.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFeed()
		w := &beats{}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			(&call{w: newWriter(w)}).stream(ctx, nil, f, nil)
		}()
		synctest.Wait()
		for n := 1; n <= 3; n++ {
			time.Sleep(heartbeat)
			synctest.Wait()
			if got := strings.Count(w.String(), ": still here"); got != n {
				t.Fatalf("%d comments after %v", got, time.Duration(n)*heartbeat)
			}
		}
		if err := f.put(ctx, []byte(`{"seq":7}`)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !strings.HasSuffix(w.String(), "id: 7\ndata: {\"seq\":7}\n\n") {
			t.Errorf("%q", w.String())
		}
		cancel()
		<-done
	})
}

// beats is a ResponseWriter to look into while it is written to.
type beats struct{ lockedBuffer }

func (*beats) Header() http.Header { return http.Header{} }
func (*beats) WriteHeader(int)     {}
func (*beats) Flush()              {}

// A client that does not read holds the log's reader up once its room is full,
// and nobody else; nothing piles up in memory.
func TestFeedIsBounded(t *testing.T) {
	f := newFeed()
	ctx, cancel := context.WithCancel(t.Context())
	line := []byte(`{"seq":1,"text":"` + strings.Repeat("x", 1000) + `"}`)
	waits := make(chan error)
	go func() {
		for range 10 * chunk / len(line) {
			if err := f.put(ctx, line); err != nil {
				waits <- err
				return
			}
		}
		waits <- nil
	}()
	<-f.wake
	cancel()
	if err := <-waits; err == nil {
		t.Fatal("put went on without room")
	}
	if n := len(f.take(nil)); n > 2*chunk {
		t.Errorf("%d bytes waited", n)
	}
}

// GET /api/log holds no more of a long log in memory than of a short one.
func TestLogInConstantMemory(t *testing.T) {
	b := newBox(t)
	const batch, batches = 1000, 60
	data := json.RawMessage(`{"line":1,"output":"` + strings.Repeat("o", 400) + `"}`)
	id := b.running().ID
	for range batches {
		evs := make([]actionlog.Event, batch)
		for i := range evs {
			evs[i] = actionlog.Event{Type: actionlog.TypeTaskStep, Task: id, Text: "step", Data: data}
		}
		if _, err := b.log.Append(t.Context(), evs...); err != nil {
			t.Fatal(err)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), "GET", b.url+"/api/log?task="+id, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	d := json.NewDecoder(a.Body)
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	n, most := 0, uint64(0)
	var line json.RawMessage
	for d.More() {
		if err := d.Decode(&line); err != nil {
			t.Fatal(err)
		}
		if n++; n%20000 == 0 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
		}
	}
	if n < batch*batches {
		t.Errorf("%d lines", n)
	}
	// The log alone is 30 MB; the checkpoints of the fold are core/task's.
	if most > 24<<20 {
		t.Errorf("%d MB of heap in the middle", most>>20)
	}
}

// Half a header, a body that drips, an answer that is not read: each is let go.
func TestSlowClients(t *testing.T) {
	t.Run("body", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			rc := http.NewResponseController(&deadlines{conn: ours})
			in := &body{ReadCloser: ours, rc: rc, began: time.Now()}
			dripped := make(chan struct{})
			go func() {
				defer close(dripped)
				defer theirs.Close()
				for range 100 { // a byte every ten seconds
					if _, err := theirs.Write([]byte("x")); err != nil {
						return
					}
					time.Sleep(10 * time.Second)
				}
			}()
			start := time.Now()
			_, err := io.ReadAll(in)
			if took := time.Since(start); err == nil || took > grace+time.Second {
				t.Errorf("%v after %v", err, took)
			}
			ours.Close()
			<-dripped
		})
	})
	t.Run("body that is quick enough", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			in := &body{ReadCloser: ours, rc: http.NewResponseController(&deadlines{conn: ours}), began: time.Now()}
			go func() {
				defer theirs.Close()
				piece := make([]byte, slowest)
				for range 300 { // five minutes at just the rate
					if _, err := theirs.Write(piece); err != nil {
						return
					}
					time.Sleep(time.Second)
				}
			}()
			if n, err := io.Copy(io.Discard, in); err != nil || n != 300*slowest {
				t.Errorf("%d bytes, %v", n, err)
			}
		})
	})
	t.Run("answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ours, theirs := net.Pipe()
			defer theirs.Close()
			w := newWriter(&deadlines{conn: ours})
			start := time.Now()
			_, err := w.Write(make([]byte, chunk))
			if took := time.Since(start); err == nil || took > grace+time.Second {
				t.Errorf("%v after %v", err, took)
			}
			ours.Close()
		})
	})
	t.Run("header", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := New(Options{Log: slog.New(slog.DiscardHandler)})
			l := &pipes{conns: make(chan net.Conn, 1), closed: make(chan struct{})}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- s.Serve(ctx, []net.Listener{l}, nil) }()
			ours, theirs := net.Pipe()
			l.conns <- ours
			start := time.Now()
			if _, err := io.WriteString(theirs, "GET / HTTP/1.1\r\nHost: local"); err != nil {
				t.Fatal(err)
			}
			_, err := io.Copy(io.Discard, theirs)
			if took := time.Since(start); err != nil || took < headerTime || took > headerTime+time.Second {
				t.Errorf("%v after %v", err, took)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	})
}

// pipes is a listener of connections within the process.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// deadlines is a ResponseWriter over a bare connection.
type deadlines struct {
	conn   net.Conn
	header http.Header
}

func (d *deadlines) Header() http.Header {
	if d.header == nil {
		d.header = http.Header{}
	}
	return d.header
}
func (d *deadlines) WriteHeader(int)                    {}
func (d *deadlines) Write(b []byte) (int, error)        { return d.conn.Write(b) }
func (d *deadlines) SetReadDeadline(t time.Time) error  { return d.conn.SetReadDeadline(t) }
func (d *deadlines) SetWriteDeadline(t time.Time) error { return d.conn.SetWriteDeadline(t) }

func TestMethods(t *testing.T) {
	b := newBox(t)
	head := b.do(req{as: screen, method: "HEAD", path: "/api/box"})
	if head.status != 200 || head.body != "" || head.header.Get("Content-Length") == "" {
		t.Errorf("HEAD: %d %q %v", head.status, head.body, head.header)
	}
	wrong := b.do(req{as: screen, method: "PATCH", path: "/api/tasks"})
	if wrong.status != 405 || wrong.header.Get("Allow") != "GET, HEAD, POST, OPTIONS" || !strings.Contains(wrong.body, `"error"`) {
		t.Errorf("PATCH: %d %s %v", wrong.status, wrong.body, wrong.header)
	}
	opt := b.do(req{as: none, method: "OPTIONS", path: "/api/tasks"})
	if opt.status != 204 || opt.header.Get("Allow") == "" {
		t.Errorf("OPTIONS: %d %s", opt.status, opt.body)
	}
	for _, name := range []string{"X-Content-Type-Options", "Referrer-Policy"} {
		if head.header.Get(name) == "" {
			t.Errorf("no %s", name)
		}
	}
}

func TestPanicIsA500(t *testing.T) {
	b := newBox(t)
	path := b.srv.routes.paths["/api/box"]
	was := path.by["GET"]
	defer func() { path.by["GET"] = was }()
	broken := *was
	broken.Do = func(*Server, *call) error { panic("boom " + b.token[owner]) }
	path.by["GET"] = &broken
	got := b.do(req{as: screen, method: "GET", path: "/api/box"})
	if got.status != 500 || !strings.Contains(got.body, "something went wrong inside the box") || strings.Contains(got.body, "boom") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if !strings.Contains(b.output.String(), "boom") {
		t.Error("nobody is told of the panic")
	}
	if got := b.do(req{as: screen, method: "GET", path: "/api/health"}); got.status != 200 {
		t.Errorf("the server ended: %d", got.status)
	}
}

// A random value in the vault is nowhere else: not in the log, an answer, the
// metrics, boxd's output or any other file, in plain, base64 or hex.
func TestPlantedVaultValue(t *testing.T) {
	b := newBox(t)
	values := map[string]string{"FACTORY_API_KEY": "pl" + rand.Text(), "STRIPE_SECRET_KEY": "pl" + rand.Text() + `"\/&`}
	var out strings.Builder
	for name, v := range values {
		in, err := json.Marshal(Value{&v})
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString(b.do(req{as: owner, method: "PUT", path: "/api/vault/" + name, body: string(in)}).body)
		// Mistakes that hold the value.
		for _, body := range []string{string(in[1:]), `{"value":5,"x":"` + v + `"}`, `{"` + v + `":"x"}`, v + "\x00", `{"value":"` + v + `\n"}`} {
			for _, kind := range []string{"application/json", "text/plain"} {
				a := b.do(req{as: owner, method: "PUT", path: "/api/vault/SOME_KEY", body: body, header: map[string]string{"Content-Type": kind}})
				if a.status == 400 {
					out.WriteString(a.body)
				}
			}
		}
	}
	b.do(req{as: owner, method: "DELETE", path: "/api/vault/SOME_KEY"})
	b.running()
	for _, path := range []string{"/", "/api/health", "/api/box", "/api/tasks", "/api/approvals", "/api/log", "/api/vault", "/api/apps?all=1", "/api/permissions", "/api/settings", "/api/devices", "/api/spend", "/metrics", "/api/openapi.json", "/api/workspaces", "/api/workspaces/home/files"} {
		out.WriteString(b.do(req{as: screen, method: "GET", path: path}).body)
	}
	out.WriteString(b.output.String())
	err := filepath.WalkDir(b.home, func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || p == filepath.Join(b.home, "vault.env") {
			return err
		}
		text, err := os.ReadFile(p)
		out.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range values {
		if got, ok := b.vault.Get(name); !ok || got != v {
			t.Fatalf("%s is not in the vault", name)
		}
		for how, text := range map[string]string{"plain": v, "base64": base64.RawStdEncoding.EncodeToString([]byte(v)), "hex": hex.EncodeToString([]byte(v)), "half": v[:12]} {
			if strings.Contains(out.String(), text) {
				t.Errorf("%s is found in %s", name, how)
			}
		}
	}
}
