package boot

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gurtos/core/workspace"
	"gurtos/image/build"
	"gurtos/image/layout"
	"gurtos/test/boot/box"
	"gurtos/test/boot/nbd"
	"gurtos/test/daemon"
)

// onlyLong leaves a test to `make test-all`.
func onlyLong(t *testing.T) {
	t.Helper()
	if !long() {
		t.Skip("starts many machines: `make test-all` runs it")
	}
}

var firstBootStep = regexp.MustCompile(`firstboot: (\S+) done`)

// TestFirstBootCut boots a blank disk once, and takes the disk as a power cut
// would leave it just before every flush, that is between any two moments at
// which something became durable. From each step one such disk is booted: the
// first boot is finished then, and the box works.
func TestFirstBootCut(t *testing.T) {
	onlyLong(t)
	r := daemon.Seed(t)
	type state struct {
		disk *nbd.Disk
		loss nbd.Loss
	}
	byStep := map[string][]state{} // by the step that was done last
	var steps []string
	d := nbd.New(layout.MinData + 1<<30)
	var b *box.Box
	started := make(chan struct{})
	d.OnFlush(func() {
		<-started
		step := "nothing"
		if said := firstBootStep.FindAllStringSubmatch(b.VM.Serial.Text(0), -1); len(said) > 0 {
			step = said[len(said)-1][1]
		}
		disk, loss := d.Cut(r.Uint64())
		if byStep[step] == nil {
			steps = append(steps, step)
		}
		byStep[step] = append(byStep[step], state{disk, loss})
	})
	b = box.Boot(t, box.Setup{Data: d})
	close(started)
	b.Ready()
	d.OnFlush(nil)
	b.VM.Kill()
	if len(steps) < 4 {
		t.Fatalf("the first boot was seen at the steps %v only", steps)
	}
	for _, step := range steps {
		s := byStep[step][r.IntN(len(byStep[step]))]
		t.Run("cut after "+step, func(t *testing.T) {
			t.Logf("%d moments; %v", len(byStep[step]), s.loss)
			b := box.Boot(t, box.Setup{Data: s.disk})
			t.Logf("API after %v", b.Ready().Round(time.Millisecond))
			b.Pair()
			var all []workspace.Workspace
			b.Get("/api/workspaces", &all)
			if len(all) != 1 || all[0].Name != "home" {
				t.Errorf("the workspaces are %+v, want home", all)
			}
			b.Done("home", "first task", "write hello.txt hello")
			b.CheckChain()
		})
	}
	if !t.Failed() {
		t.Attr("reliability", "a power cut after each step of the first boot ("+strings.Join(steps, ", ")+"): the next boot finishes it")
	}
}

// TestForeignDisk boots with disks that are not blank and not the box's: none
// is written to, and the console says which and why.
func TestForeignDisk(t *testing.T) {
	onlyLong(t)
	for name, make := range map[string]func(*testing.T) *nbd.Disk{
		"ext4": func(t *testing.T) *nbd.Disk { return made(t, "mke2fs", "-q", "-t", "ext4") },
		"XFS":  func(t *testing.T) *nbd.Disk { return made(t, "mkfs.xfs", "-q") },
		// Nothing that anybody knows by its magic. (What lies between the places that firstboot looks at it can't see: docs/decisions/boot.md.)
		"its end alone": func(t *testing.T) *nbd.Disk { d := nbd.New(3 << 30); write(t, d, 3<<30-8192, "a letter"); return d },
	} {
		t.Run(name, func(t *testing.T) {
			foreign := make(t)
			hash, before := foreign.Sum(), foreign.Count()
			b := box.Boot(t, box.Setup{NoData: true, More: []*nbd.Disk{foreign}})
			b.Wait(`reason\s+.*vdb.*`)
			b.PowerButton()
			if foreign.Sum() != hash {
				t.Error("the box wrote to a disk that isn't its own")
			}
			if c := foreign.Count(); c.Writes+c.Trims > before.Writes+before.Trims { // the test's own write is none of the box's
				t.Errorf("the disk that isn't the box's was sent %+v", c)
			}
		})
	}
}

// made is a disk with a file system that isn't the box's.
func made(t *testing.T, mkfs ...string) *nbd.Disk {
	t.Helper()
	file := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 3<<30); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command(mkfs[0], append(mkfs[1:], file)...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", mkfs[0], err, text)
	}
	d, err := nbd.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func write(t *testing.T, d *nbd.Disk, off int64, text string) {
	t.Helper()
	sector := make([]byte, nbd.Sector)
	copy(sector, text)
	if err := d.Write(sector, off, true); err != nil {
		t.Fatal(err)
	}
}

// readOnlyData boots with a data disk that can't be written any more.
func readOnlyData(t *testing.T, d *nbd.Disk) {
	hash := d.Sum()
	b := box.Boot(t, box.Setup{Data: d, ReadOnly: true})
	b.Wait(`reason\s+The data disk .*can't be written to`)
	b.PowerButton()
	if d.Sum() != hash {
		t.Error("a disk that can't be written was written")
	}
}

// TestWatchdog stops boxd where it stands: the hardware watchdog starts the
// machine anew, and the box is back by itself.
func TestWatchdog(t *testing.T) {
	onlyLong(t)
	b := box.Boot(t, box.Setup{Image: debugImage(t)})
	b.Ready()
	b.Pair()
	b.Done("home", "before", "write before.txt here")
	if err := b.VM.Serial.Send("\nkill -STOP $(pidof boxd)\n"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), box.Limit(b.VM.Accel, time.Minute))
	defer cancel()
	if err := b.VM.Event(ctx, "WATCHDOG"); err != nil {
		t.Fatal(err)
	}
	b.Wait(`stage 1`)
	b.Ready()
	if text := b.File("home", "before.txt"); !strings.Contains(text, "here") {
		t.Errorf("before.txt holds %q after the watchdog's restart", text)
	}
	b.CheckChain()
}

// TestInitPanic lets the init fail: the screen can be read, and the machine
// starts anew by itself.
func TestInitPanic(t *testing.T) {
	onlyLong(t)
	b := box.Boot(t, box.Setup{Image: debugImage(t), Words: "gurtos.panic=network"})
	b.Wait(`its init failed`)
	b.Wait(`stage 1`)
	b.Wait(`its init failed`)
}

// debugImage builds the image with a shell on the console.
func debugImage(t *testing.T) build.Image {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "run", "./cmd/mkbox", "image", "--debug")
	cmd.Dir = box.Root()
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mkbox image --debug: %v\n%s", err, text)
	}
	img, err := build.BuiltDebug(box.Root())
	if err != nil {
		t.Fatal(err)
	}
	return img
}
