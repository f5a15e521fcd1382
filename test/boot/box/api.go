package box

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// API talks to a box over HTTP, as a device does.
type API struct {
	Token string

	t    testing.TB
	url  string
	http *http.Client
	logs string // file that every request and its answer goes to

	mu sync.Mutex // guards writing to logs
}

func newAPI(t testing.TB, url, logs string) *API {
	return &API{t: t, url: url, http: &http.Client{Transport: &http.Transport{}}, logs: logs}
}

// NewAPI talks to a box that answers at url.
func NewAPI(t testing.TB, url, token string) *API {
	a := newAPI(t, url, "")
	a.Token = token
	return a
}

// With is the same API for another test, such as a subtest.
func (a *API) With(t testing.TB) *API {
	return &API{Token: a.Token, t: t, url: a.url, http: a.http, logs: a.logs}
}

// Status is an answer that is no 2xx.
type Status struct {
	Code     int
	Sentence string // of {"error": …}
}

func (s *Status) Error() string { return fmt.Sprintf("%d: %s", s.Code, s.Sentence) }

// Try sends a request. in is JSON unless it is a []byte or nil; out takes JSON,
// or the bytes where it is a *[]byte. An answer that is no 2xx is a *Status.
func (a *API) Try(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	kind := "application/json"
	switch in := in.(type) {
	case nil:
	case []byte:
		body, kind = bytes.NewReader(in), "application/octet-stream"
	default:
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	resp, err := a.send(ctx, method, path, kind, body)
	if err != nil {
		a.note("%s %s: %v", method, path, err)
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	a.note("%s %s: %s %.2000s", method, path, resp.Status, text)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		s := &Status{Code: resp.StatusCode}
		var e struct{ Error string }
		if json.Unmarshal(text, &e); e.Error == "" {
			e.Error = string(text)
		}
		s.Sentence = e.Error
		return s
	}
	switch out := out.(type) {
	case nil:
	case *[]byte:
		*out = text
	default:
		if err := json.Unmarshal(text, out); err != nil {
			return fmt.Errorf("%s %s answered no such JSON: %w: %.300s", method, path, err, text)
		}
	}
	return nil
}

func (a *API) send(ctx context.Context, method, path, kind string, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, a.url+path, body)
	if err != nil {
		return nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", kind)
	}
	if a.Token != "" {
		req.Header.Set("Authorization", "Bearer "+a.Token)
	}
	return a.http.Do(req)
}

// Do is Try that has to go well.
func (a *API) Do(method, path string, in, out any) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 2*time.Minute)
	defer cancel()
	if err := a.Try(ctx, method, path, in, out); err != nil {
		a.t.Fatalf("%s %s: %v", method, path, err)
	}
}

// Refused is Try that has to be refused with a status and with words in its sentence.
func (a *API) Refused(code int, words, method, path string, in any) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), 2*time.Minute)
	defer cancel()
	err := a.Try(ctx, method, path, in, nil)
	s, ok := err.(*Status)
	if !ok || s.Code != code || !strings.Contains(s.Sentence, words) {
		sent := fmt.Sprint(in)
		a.t.Errorf("%s %s with %.300s: %v, want %d and %q", method, path, sent, err, code, words)
	}
}

// Until asks until the answer is yes.
func (a *API) Until(limit time.Duration, what string, ask func(context.Context, *API) (bool, error)) {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), limit)
	defer cancel()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		yes, err := ask(ctx, a)
		if err == nil && yes {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			a.t.Fatalf("%s did not come within %v (at last: %v)", what, limit, err)
		}
	}
}

// Get reads JSON.
func (a *API) Get(path string, out any) {
	a.t.Helper()
	a.Do("GET", path, nil, out)
}

// File reads a file of a workspace.
func (a *API) File(workspace, path string) string {
	a.t.Helper()
	var text []byte
	a.Do("GET", "/api/workspaces/"+workspace+"/files?path="+path, nil, &text)
	return string(text)
}

// ready waits until /api/health says ok.
func (a *API) ready(ctx context.Context, ended <-chan struct{}) error {
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		var h struct{ OK bool }
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := a.Try(try, "GET", "/api/health", nil, &h)
		cancel()
		if err == nil && h.OK {
			return nil
		}
		select {
		case <-again.C:
		case <-ended:
			return errEnded
		case <-ctx.Done():
			return fmt.Errorf("%w (at last: %v)", context.Cause(ctx), err)
		}
	}
}

// save writes an answer to a file.
func (a *API) save(ctx context.Context, path, file string) error {
	var text []byte
	if err := a.Try(ctx, "GET", path, nil, &text); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

func (a *API) note(format string, args ...any) {
	if a.logs == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	f, err := os.OpenFile(a.logs, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	fmt.Fprintf(f, time.Now().Format("15:04:05.000 ")+format+"\n", args...)
}
