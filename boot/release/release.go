package release

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// A Release is the build that runs.
type Release struct {
	Version string    `json:"version"`
	Commit  string    `json:"commit"`
	Time    time.Time `json:"time"`  // of the commit: the clock is never earlier
	Debug   bool      `json:"debug"` // a shell may be asked for
}

// Read reads the release's file.
func Read(path string) (Release, error) {
	var r Release
	b, err := os.ReadFile(path)
	if err != nil {
		return r, fmt.Errorf("read which release this is: %w", err)
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return r, fmt.Errorf("read which release this is: %s: %w", path, err)
	}
	return r, nil
}

// Words are the words of a kernel command line, by their names.
type Words map[string]string

// CommandLine reads the kernel's command line from /proc/cmdline. A word that
// stands twice counts as its last.
func CommandLine(path string) (Words, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the kernel's command line: %w", err)
	}
	w := Words{}
	for _, word := range strings.Fields(string(b)) {
		name, value, _ := strings.Cut(word, "=")
		w[name] = value
	}
	return w, nil
}

// Has says whether a word stands there, with or without a value.
func (w Words) Has(name string) bool { _, ok := w[name]; return ok }
