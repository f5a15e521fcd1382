package guest

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func relayTo(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	box := httptest.NewServer(h)
	t.Cleanup(box.Close)
	l, err := listen(0)
	if err != nil {
		t.Fatal(err)
	}
	r := newRelay(l, strings.TrimPrefix(box.URL, "http://"))
	t.Cleanup(r.close)
	return "http://" + l.Addr().String()
}

func TestRelaySaysWhereARequestCameFrom(t *testing.T) {
	url := relayTo(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Host+" "+strings.Join(r.Header.Values("X-Forwarded-For"), "+"))
	})
	req, _ := http.NewRequest("GET", url, nil)
	req.Header.Set("X-Forwarded-For", "198.51.100.7") // a claim of the caller's, which must not stand
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, _ := io.ReadAll(resp.Body)
	if want := strings.TrimPrefix(url, "http://") + " 127.0.0.1"; string(got) != want {
		t.Errorf("the box sees %q, want %q", got, want)
	}
}

func TestRelayPassesEventsAsTheyCome(t *testing.T) {
	go1 := make(chan struct{})
	url := relayTo(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: one\n\n")
		w.(http.Flusher).Flush()
		select {
		case <-go1:
		case <-r.Context().Done():
		}
	})
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	defer close(go1)
	first := make([]byte, 9)
	got := make(chan error, 1)
	go func() { _, err := io.ReadFull(resp.Body, first); got <- err }()
	select {
	case err := <-got:
		if err != nil || string(first) != "data: one" {
			t.Errorf("%q, %v", first, err)
		}
	case <-time.After(time.Minute):
		t.Error("an event was held back while the answer went on")
	}
}

func TestRelayWithoutABox(t *testing.T) {
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	l, err := listen(0)
	if err != nil {
		t.Fatal(err)
	}
	r := newRelay(l, dead.Addr().String())
	t.Cleanup(r.close)
	resp, err := http.Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if said, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusBadGateway || !strings.Contains(string(said), "the box doesn't answer") {
		t.Errorf("%s %s", resp.Status, said)
	}
}

func TestPortTaken(t *testing.T) {
	l, err := listen(0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := listen(l.Addr().(*net.TCPAddr).Port); err == nil || !strings.Contains(err.Error(), "is taken") {
		t.Errorf("a taken port: %v", err)
	}
}
