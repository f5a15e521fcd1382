package image

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestMatch(t *testing.T) {
	m := Match([]string{"/usr/share/doc/*", "/etc/rc?.d/*", "fs/nls_*.ko", "/a.b"})
	for path, want := range map[string]bool{
		"/usr/share/doc/git/copyright": true, "/usr/share/doc": false, "/etc/rc2.d/S01": true, "/etc/rc.d/S01": false, "fs/nls_utf8.ko": true, "/axb": false, "x/usr/share/doc/y": false,
	} {
		if m.Has(path) != want {
			t.Errorf("%s: %v, want %v", path, !want, want)
		}
	}
}

func TestLockReadsBack(t *testing.T) {
	l, err := Recorded()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ParseLock(l.String()); err != nil || again.String() != lockText {
		t.Errorf("packages.lock doesn't read back as it is (%v): write it with mkbox image --refresh", err)
	}
	for _, bad := range []string{"", "tasks git 1", "as of 2026-01-01\nodd"} {
		if _, err := ParseLock(bad); err == nil {
			t.Errorf("%q was taken for a packages.lock", bad)
		}
	}
}

// TestLockIsCurrent compares packages.lock with what lies in the roots that were built: a package that came or went must be recorded. Versions may
// be newer where a security fix came since.
func TestLockIsCurrent(t *testing.T) {
	l, err := Recorded()
	if err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{"tasks", "system"} {
		if len(l.Roots[root]) == 0 {
			t.Errorf("packages.lock lists nothing of the %s root", root)
		}
		file := newest(t, root)
		if file == "" {
			t.Skip("no root was built here: make image")
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var built map[string]string
		if err := json.Unmarshal(text, &built); err != nil {
			t.Fatal(err)
		}
		diff := func(a, b map[string]string, what string) {
			var names []string
			for name := range a {
				if b[name] == "" {
					names = append(names, name)
				}
			}
			if slices.Sort(names); names != nil {
				t.Errorf("the %s root %s: %s (mkbox image --refresh)", root, what, strings.Join(names, " "))
			}
		}
		diff(built, l.Roots[root], "holds packages that packages.lock doesn't list")
		diff(l.Roots[root], built, "lacks packages that packages.lock lists")
	}
}

// newest is the list of packages of the root that was used last.
func newest(t *testing.T, root string) (file string) {
	t.Helper()
	files, err := filepath.Glob("../.cache/*/" + root + ".versions.json")
	if err != nil {
		t.Fatal(err)
	}
	var best os.FileInfo
	for _, f := range files {
		st, err := os.Stat(filepath.Join(filepath.Dir(f), "made.json"))
		if err == nil && (best == nil || st.ModTime().After(best.ModTime())) {
			best, file = st, f
		}
	}
	return file
}

// The root that tests see is the shipped one and more; the shipped one has none of it.
func TestRootForTests(t *testing.T) {
	for _, p := range Tasks.Packages {
		if !slices.Contains(TestTasks.Packages, p) {
			t.Errorf("%s is shipped, and not in the root for tests", p)
		}
	}
	for _, p := range tried {
		if slices.Contains(Tasks.Packages, p) {
			t.Errorf("%s is shipped: it needs no root of its own", p)
		}
	}
	if len(TestTasks.Packages) != len(Tasks.Packages)+len(tried) {
		t.Errorf("%d packages and %d more make %d", len(Tasks.Packages), len(tried), len(TestTasks.Packages))
	}
}
