package actionlog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A log with nothing in it is not said to be whole; where an end is known, it was cut.
func TestVerifyOfAnEmptyLog(t *testing.T) {
	dir := made(t, "one", "two")
	head := mustVerify(t, dir).Head
	if err := os.Truncate(filepath.Join(dir, logName), 0); err != nil {
		t.Fatal(err)
	}
	if r := mustVerify(t, dir); r.OK() || !strings.Contains(r.String(), "cut off the end of the log") {
		t.Errorf("beside its journal: %s", r)
	}
	alone := t.TempDir()
	write(t, alone, logName, nil)
	if r := mustVerify(t, alone); !r.OK() || r.Lines != 0 || !strings.HasPrefix(r.String(), "There is nothing in the log: ") || strings.Contains(r.String(), "whole") {
		t.Errorf("alone: %s", r)
	}
	if r := mustVerify(t, alone, head); r.OK() || !strings.Contains(r.String(), "cut off the end of the log") || strings.Contains(r.String(), "nothing in the log") {
		t.Errorf("alone, with an end that was written down: %s", r)
	}
}
