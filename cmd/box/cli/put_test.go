package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Two sources for one place are refused before anything is sent.
func TestPutSources(t *testing.T) {
	dir := t.TempDir()
	lay := func(name string) string {
		t.Helper()
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
		return p
	}
	one, two, part := lay("d1/x"), lay("d2/x"), lay("d3/sub/a")
	lay("d4/sub/b")
	lay("d5/sub")
	lay("d6/x/y")
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []struct {
		name  string
		paths []string
		says  []string // none: it is taken
	}{
		{"two files of one name", []string{one, two}, []string{one, two, "both be x"}},
		{"two folders with a file of one name", []string{at("d1"), at("d2")}, []string{one, two, "both be x"}},
		{"a folder and a file", []string{at("d1"), two}, []string{one, two, "both be x"}},
		{"a file that is a folder in another", []string{at("d1"), at("d6")}, []string{one, at("d6/x"), "both be x"}},
		{"the other way round", []string{at("d3"), at("d5")}, []string{at("d3/sub"), at("d5/sub"), "both be sub"}},
		{"a file twice", []string{one, one}, []string{one + " is given twice"}},
		{"a folder twice", []string{at("d3"), at("d3")}, []string{part + " is given twice"}},
		{"a folder twice, in two spellings", []string{at("d3"), at("d3") + "/"}, []string{part + " is given twice"}},
		{"folders that are merged", []string{at("d3"), at("d4")}, nil},
		{"different files", []string{at("d1"), part}, nil},
	} {
		err := checkSources(c.paths)
		if (err == nil) != (c.says == nil) {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, part := range c.says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q", c.name, err, part)
			}
		}
	}
}

// What the box says to an upload before it was sent whole is what is printed.
func TestPutIsAnsweredEarly(t *testing.T) {
	large := filepath.Join(t.TempDir(), "large")
	f, err := os.Create(large)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(64 << 20); err != nil { // more than any buffer on the way
		t.Fatal(err)
	}
	f.Close()
	for _, c := range []struct {
		status int
		says   string
	}{
		{http.StatusInsufficientStorage, "the box's disk is full"},
		{http.StatusRequestEntityTooLarge, "a body of at most 10 MB"},
		{http.StatusForbidden, "that is not yours"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(c.status)
			w.Write([]byte(`{"error": "` + c.says + `"}`)) //nolint:errcheck // seen by the command
			w.(http.Flusher).Flush()
			io.Copy(io.Discard, r.Body) //nolint:errcheck // until the command hangs up, or the connection would be cut under it
		}))
		t.Setenv("BOX_URL", s.URL)
		if out, errs, code := call(t, "workspace", "put", "home", large); code != 1 || out != "" || errs != "box: "+c.says+"\n" {
			t.Errorf("%d: %d %q %q, want %q", c.status, code, out, errs, c.says)
		}
		s.Close()
	}
}
