package debian

import (
	"os"
	"os/exec"
	"slices"
	"testing"
)

func TestSources(t *testing.T) {
	for _, c := range []struct {
		holds, targets string
		want           []string
	}{
		{"a Debian 12 machine", "http://a.test/debian/ bookworm main\nhttp://a.test/debian/ bookworm-updates main\nhttp://s.test/sec/ bookworm-security main\n",
			[]string{"deb http://a.test/debian/ trixie main", "deb http://a.test/debian/ trixie-updates main", "deb http://s.test/sec/ trixie-security main"}},
		{"other repositories beside", "https://x.test/apt/ cloud-sdk-bookworm main\nhttps://n.test/ nodistro main\nhttp://a.test/debian/ stable main\n",
			[]string{"deb http://a.test/debian/ trixie main", "deb http://a.test/debian/ trixie-updates main"}},
		{"contrib alone is no archive to build from", "http://a.test/debian/ trixie contrib\n", nil},
		{"another distribution", "http://u.test/ubuntu/ noble main\n", nil},
		{"the old name of the security archive", "http://a.test/d/ bullseye main\nhttp://s.test/d/ bullseye/updates main\n",
			[]string{"deb http://a.test/d/ trixie main", "deb http://a.test/d/ trixie-updates main", "deb http://s.test/d/ trixie-security main"}},
		{"nothing", "", nil},
	} {
		if got := sources(c.targets, "trixie"); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.holds, got, c.want)
		}
	}
}

// The source tree may lie in any folder.
func TestQuote(t *testing.T) {
	dir := t.TempDir() + "/A person's tree; rm -r $HOME"
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("/bin/sh", "-c", "echo here > "+quote(dir+"/list")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if b, err := os.ReadFile(dir + "/list"); err != nil || string(b) != "here\n" {
		t.Errorf("%q, %v", b, err)
	}
}
