package boxd

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// serve answers on a socket.
func serve(t *testing.T, h http.Handler) *Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: h}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { srv.Close() })
	return New(path)
}

func TestQuestions(t *testing.T) {
	ends := time.Date(2026, 12, 1, 10, 5, 0, 0, time.UTC)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/health", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"ok": false, "version": "0.1.0", "edition": "core", "paused": true, "error": "the action log can't be written"}`)
	})
	mux.HandleFunc("GET /api/devices", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `[{"id": "d1", "name": "Phone", "role": "owner"}]`)
	})
	mux.HandleFunc("GET /api/box", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"logHead": {"seq": 42, "hash": "abc"}}`)
	})
	mux.HandleFunc("POST /api/pair/code", func(w http.ResponseWriter, r *http.Request) {
		var ask map[string]string
		if err := json.NewDecoder(r.Body).Decode(&ask); err != nil || ask["role"] != "owner" {
			http.Error(w, `{"error": "no role"}`, http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"code": "12345678", "url": "http://203.0.113.15/#pair=12345678", "qr": "<svg/>", "expiresAt": %q}`, ends.Format(time.RFC3339))
	})
	c := serve(t, mux)
	if h, err := c.Health(t.Context()); err != nil || h != (Health{Version: "0.1.0", Paused: true, Error: "the action log can't be written"}) {
		t.Errorf("Health = %+v, %v", h, err)
	}
	if d, err := c.Devices(t.Context()); err != nil || len(d) != 1 || d[0].Name != "Phone" {
		t.Errorf("Devices = %+v, %v", d, err)
	}
	if seq, hash, err := c.Head(t.Context()); err != nil || seq != 42 || hash != "abc" {
		t.Errorf("Head = %d, %s, %v", seq, hash, err)
	}
	if p, err := c.Pair(t.Context()); err != nil || p.Code != "12345678" || !p.ExpiresAt.Equal(ends) {
		t.Errorf("Pair = %+v, %v", p, err)
	}
}

func TestNoAnswer(t *testing.T) {
	if _, err := New(filepath.Join(t.TempDir(), "none")).Health(t.Context()); err == nil {
		t.Error("no socket is no error")
	}
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error": "the box is closing"}`, http.StatusServiceUnavailable)
	}))
	if _, err := c.Health(t.Context()); err == nil || !strings.Contains(err.Error(), "503") || !strings.Contains(err.Error(), "the box is closing") {
		t.Errorf("Health = %v", err)
	}
}
