package debian

import (
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
