package console

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestList(t *testing.T) {
	for _, c := range []struct {
		name     string
		consoles string
		nodes    []string
		want     string
	}{
		{"both", "ttyS0                -W- (EC  p a)    4:64\ntty0                 -WU (E   p  )    4:1\n", []string{"tty0", "ttyS0"}, "tty1* ttyS0"},
		{"serial console alone, a screen is there", "ttyS0 -W- (EC a) 4:64\n", []string{"tty0"}, "tty1* ttyS0"},
		{"a hypervisor's", "hvc0 -W- (EC a) 229:0\n", nil, "hvc0"},
		{"none named", "", []string{"tty0"}, "tty1*"},
		{"nothing at all", "", nil, ""},
	} {
		proc, dev := t.TempDir(), t.TempDir()
		if err := os.WriteFile(filepath.Join(proc, "consoles"), []byte(c.consoles), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, n := range c.nodes { // plain files: no hardware is behind ttyS0
			if err := os.WriteFile(filepath.Join(dev, n), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		var names []string
		for _, l := range List(proc, dev) {
			name := l.Name
			if l.Screen {
				name += "*"
			}
			names = append(names, name)
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
