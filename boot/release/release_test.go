package release

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRead(t *testing.T) {
	r, err := Read(file(t, `{"version": "0.1.0", "commit": "abc", "time": "2026-11-01T00:00:00Z"}`))
	if want := (Release{Version: "0.1.0", Commit: "abc", Time: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)}); err != nil || r != want {
		t.Errorf("Read = %+v, %v; want %+v", r, err, want)
	}
	for _, text := range []string{"", "{", `{"version": 1}`} {
		path := file(t, text)
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("Read of %q = %v, want an error that names the file", text, err)
		}
	}
}

func TestCommandLine(t *testing.T) {
	w, err := CommandLine(file(t, "console=tty0 console=ttyS0,115200n8 quiet gurtos.system=0-1=2 gurtos.debug\n"))
	if err != nil {
		t.Fatal(err)
	}
	if w["console"] != "ttyS0,115200n8" || w["gurtos.system"] != "0-1=2" || !w.Has("gurtos.debug") || w.Has("gurtos.hold") || w["gurtos.hold"] != "" {
		t.Errorf("words %v", w)
	}
}
