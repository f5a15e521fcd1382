package cli

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Each way to save is told once at least; what is none of the app's is not told.
func TestSaves(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"node_modules", "parts"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	saved, err := watchFolder(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	told := func(how string) {
		t.Helper()
		select {
		case err := <-saved:
			if err != nil {
				t.Fatalf("%s: %v", how, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s is not told", how)
		}
	}
	write("track.ts")
	told("a new file")
	write("track.ts")
	told("a file that is written again")
	write("new~")
	if err := os.Rename(filepath.Join(dir, "new~"), filepath.Join(dir, "track.ts")); err != nil {
		t.Fatal(err)
	}
	told("a file that is moved over another one")
	write("parts/a.ts")
	told("a file of a folder")
	if err := os.MkdirAll(filepath.Join(dir, "more"), 0o755); err != nil {
		t.Fatal(err)
	}
	told("a new folder")
	write("more/b.ts")
	told("a file of a new folder")
	if err := os.Remove(filepath.Join(dir, "more/b.ts")); err != nil {
		t.Fatal(err)
	}
	told("a file that is deleted")
	for _, name := range []string{"node_modules/c.js", ".hidden", "track.ts~", "4913"} {
		write(name)
	}
	// Nothing of these may come before the one that is told of next.
	write("last.ts")
	told("the last one")
	select {
	case err := <-saved:
		t.Errorf("something more is told: %v", err)
	default:
	}
}
