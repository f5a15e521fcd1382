package modules

import (
	"context"
	"errors"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// tree writes an index such as depmod's: virtio_net stands on net_failover,
// that on failover; a on b and b on a; weak wants a missing and a present one.
func tree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"modules.dep": `kernel/drivers/net/virtio_net.ko: kernel/drivers/net/net_failover.ko kernel/net/core/failover.ko
kernel/drivers/net/net_failover.ko: kernel/net/core/failover.ko
kernel/net/core/failover.ko:
kernel/fs/xfs/xfs.ko.xz: kernel/lib/crc-x.ko.xz
kernel/lib/crc-x.ko.xz:
kernel/a.ko: kernel/b.ko
kernel/b.ko: kernel/a.ko
kernel/weak.ko:
kernel/drivers/block/floppy.ko:
kernel/drivers/acpi/button.ko:
kernel/lib/libsum.ko:
kernel/crypto/sum-generic.ko:
`,
		"modules.builtin": "kernel/drivers/char/hw_random/rng-core.ko\n",
		"modules.alias": `# Aliases extracted from modules themselves.
alias virtio:d00000001v* virtio_net
alias fs-xfs xfs
alias pci:v00008086d0000[1-3]AB?sv*sd*bc02sc00i* weak
alias platform:floppy floppy
alias acpi*:LNXPWRBN:* button
alias sum sum-generic
`,
		"modules.softdep": "# Soft dependencies\nsoftdep weak pre: crc-x gone post: virtio_net\nsoftdep libsum pre: sum\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// loader returns a loader that notes what it would have given to the kernel.
func loader(t *testing.T, fail map[string]error) (*Loader, func() []string) {
	t.Helper()
	l, err := New(tree(t), log.New(io.Discard, "", 0))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var loaded []string
	l.init = func(path string) error {
		mu.Lock()
		defer mu.Unlock()
		loaded = append(loaded, Name(path))
		return fail[Name(path)]
	}
	return l, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(loaded)
	}
}

func TestLoadOrder(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"virtio_net", "failover net_failover virtio_net"},
		{"virtio-net", "failover net_failover virtio_net"},
		{"xfs", "crc_x xfs"},
		{"weak", "crc_x weak"},
		{"libsum", "sum_generic libsum"}, // what is wanted before is an alias, as with libcrc32c's crc32c
		{"rng_core", ""},
	} {
		l, loaded := loader(t, nil)
		for range 2 {
			if err := l.Load(c.name); err != nil {
				t.Errorf("Load(%s): %v", c.name, err)
			}
		}
		if got := strings.Join(loaded(), " "); got != c.want {
			t.Errorf("Load(%s) loaded %q, want %q", c.name, got, c.want)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	l, loaded := loader(t, map[string]error{"failover": unix.EINVAL, "crc_x": unix.EEXIST})
	if err := l.Load("virtio_net"); !errors.Is(err, unix.EINVAL) || !strings.Contains(err.Error(), "module failover") {
		t.Errorf("a failed dependency gave %v", err)
	}
	if slices.Contains(loaded(), "virtio_net") {
		t.Error("virtio_net was loaded though what it stands on failed")
	}
	if err := l.Load("xfs"); err != nil {
		t.Errorf("a dependency that is loaded already gave %v", err)
	}
	if err := l.Load("nosuch"); err == nil {
		t.Error("a module that isn't there loaded")
	}
	if err := l.Load("a"); err == nil || !strings.Contains(err.Error(), "stands on itself") {
		t.Errorf("a circle gave %v", err)
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"virtio:d00000001v*", "virtio:d00000001v00001AF4", true},
		{"virtio:d00000001v*", "virtio:d00000002v00001AF4", false},
		{"pci:v00008086d0000[1-3]AB?sv*sd*bc02sc00i*", "pci:v00008086d00002ABCsv00001AF4sd00001100bc02sc00i00", true},
		{"pci:v00008086d0000[1-3]AB?sv*sd*bc02sc00i*", "pci:v00008086d00004ABCsv00001AF4sd00001100bc02sc00i00", false},
		{"dmi*:svn*:pn[XY]1:*", "dmi:bvnA/B:svnMaker:pnY1:", true},
		{"*a*b*c", "aabbabcabc", true},
		{"*a*b*c", "aabbab", false},
		{"", "", true}, {"*", "", true}, {"a", "", false}, {"[", "[", true},
	} {
		if got := match(c.pattern, c.s); got != c.want {
			t.Errorf("match(%q, %q) = %v", c.pattern, c.s, got)
		}
	}
}

// Each device is looked up once, what nobody needs is left out, and Settle
// waits for what is under way and a while more.
// The bus in a pattern may end with a star: the power button's is acpi*.
func TestForStarredBus(t *testing.T) {
	x, err := Read(tree(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := x.For("acpi:LNXPWRBN:"); !slices.Equal(got, []string{"button"}) {
		t.Errorf("the power button is taken by %v", got)
	}
}

func TestColdplugAndSettle(t *testing.T) {
	sys := t.TempDir()
	for dev, alias := range map[string]string{
		"bus/platform/devices/floppy": "platform:floppy",
		"bus/virtio/devices/virtio0":  "virtio:d00000001v00001AF4",
		"bus/virtio/devices/virtio1":  "virtio:d00000001v00001AF4",
		"class/input/input0":          "fs-xfs",
	} {
		if err := os.MkdirAll(filepath.Join(sys, dev), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(sys, dev, "modalias"), []byte(alias+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		l, loaded := loader(t, nil)
		init := l.init
		l.init = func(path string) error { <-time.After(time.Second); return init(path) } // a slow device, on synctest's clock
		start := time.Now()
		l.Coldplug(sys)
		l.Settle(context.Background(), 500*time.Millisecond)
		if took := time.Since(start); took < 3500*time.Millisecond || took > 4500*time.Millisecond {
			t.Errorf("settled after %v, want the three loads of a second in a row and half a second", took)
		}
		got := loaded()
		slices.Sort(got)
		if want := "crc_x failover net_failover virtio_net xfs"; strings.Join(got, " ") != want {
			t.Errorf("loaded %v, want %s", got, want)
		}
	})
}

// What a box needs to start is loaded at once, the rest when it is released.
func TestHold(t *testing.T) {
	for alias, want := range map[string]bool{
		"pci:v00008086d0000100Esv00001AF4sd00001100bc02sc00i00": true,  // network card
		"pci:v00001B36d00000010sv00001AF4sd00001100bc01sc08i02": true,  // NVMe
		"pci:v00001B36d0000000Dsv00001AF4sd00001100bc0Csc03i30": true,  // USB host
		"pci:v00001AF4d00001000sv00001AF4sd00000001bc02sc00i00": true,  // virtio
		"virtio:d00000001v00001AF4":                             true,  // its network
		"virtio:d00000010v00001AF4":                             false, // its screen
		"pci:v00001234d00001111sv00001AF4sd00001100bc03sc00i00": false, // screen
		"pci:v00008086d00007113sv00001AF4sd00001100bc06sc80i00": false, // bridge
		"acpi:LNXPWRBN:": false,
	} {
		if got := urgent(alias); got != want {
			t.Errorf("urgent(%s) = %v", alias, got)
		}
	}
	l, loaded := loader(t, nil)
	l.Hold()
	l.Want("fs-xfs")
	l.Want("virtio:d00000001v00001AF4")
	l.mu.Lock()
	held := slices.Clone(l.held)
	l.mu.Unlock()
	if strings.Join(held, " ") != "fs-xfs" {
		t.Errorf("held %v, want fs-xfs alone", held)
	}
	l.Settle(t.Context(), 10*time.Millisecond)
	got := loaded()
	slices.Sort(got)
	if want := "crc_x failover net_failover virtio_net xfs"; strings.Join(got, " ") != want {
		t.Errorf("after the release: %v, want %s", got, want)
	}
}

// ACPI's and DMI's patterns have a star before the colon.
func TestStarBeforeTheColon(t *testing.T) {
	x := &Index{modules: map[string]*module{}, aliases: map[string][]alias{}}
	x.alias("alias acpi*:LNXPWRBN:* button")
	x.alias("alias acpi*:PNP0C0C:* button")
	if got := x.For("acpi:LNXPWRBN:"); strings.Join(got, " ") != "button" {
		t.Errorf("the power button asks for %v", got)
	}
}
