package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/task"
	"gurtos/image/build"
	"gurtos/image/layout"
	"gurtos/image/qemu"
	"gurtos/initramfs"
	"gurtos/test/boot/box"
	"gurtos/test/boot/nbd"
)

// BenchmarkBoot is power on → API answering, with a data disk that was used
// before (api), and with a blank one (first), beside the floor: the same kernel on the same machine with an init
// that does nothing but say so. They take turns, so that a busy machine is as
// busy for each. uefi is by firmware from the UKI, as shipped; the others start
// the kernel directly.
func BenchmarkBoot(b *testing.B) {
	img := box.Built(b)
	data := nbd.New(layout.MinData + 1<<30)
	first := boot(b, box.Setup{Data: data})
	idle := idleInitrd(b)
	took := map[string][]float64{}
	const rounds = 3
	for range rounds {
		took["floor"] = append(took["floor"], floor(b, img, idle))
		took["api"] = append(took["api"], boot(b, box.Setup{Data: data.Clone()}))
		took["uefi"] = append(took["uefi"], boot(b, box.Setup{Data: data.Clone(), UEFI: true}))
	}
	for what, s := range took {
		b.ReportMetric(quantile(s, 0.5), what+"-s")
	}
	b.ReportMetric(first, "first-s")
	b.ReportMetric(rounds, "rounds")
	b.ReportMetric(0, "ns/op")
}

// boot boots a box until its API answers, shuts it down in order and gives the seconds.
func boot(b *testing.B, s box.Setup) float64 {
	b.Helper()
	var ready time.Duration
	part(b, func(tb testing.TB) {
		x := box.Boot(tb, s)
		ready = x.Ready()
		x.PowerButton()
	})
	return ready.Seconds()
}

// part runs fn with clean-ups that are done when it returns.
func part(b *testing.B, fn func(testing.TB)) {
	b.Helper()
	s := &scope{B: b}
	defer s.end()
	fn(s)
}

// scope is a testing.TB whose clean-ups come before the benchmark's end.
type scope struct {
	*testing.B
	cleanups []func()
}

func (s *scope) Cleanup(fn func()) { s.cleanups = append(s.cleanups, fn) }

func (s *scope) end() {
	for _, fn := range slices.Backward(s.cleanups) {
		fn()
	}
}

// floor boots the kernel with the init that does nothing.
func floor(b *testing.B, img build.Image, initrd string) float64 {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	start := time.Now()
	vm, err := qemu.Start(ctx, qemu.Machine{
		Dir: filepath.Join(b.TempDir(), "vm"), Display: true, Watchdog: true,
		Kernel: img.Kernel, Initrd: initrd, Cmdline: img.Cmdline,
		Disks: []qemu.Disk{{File: img.Disk, ReadOnly: true}},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer vm.Kill()
	if _, _, err := vm.Serial.Wait(ctx, 0, regexp.MustCompile(`idle init`)); err != nil {
		b.Fatal(err)
	}
	return time.Since(start).Seconds()
}

func idleInitrd(b *testing.B) string {
	b.Helper()
	tree := initramfs.New()
	tree.File("/init", box.GoBuild(b, "gurtos/test/bench/idle"), 0o755)
	name := filepath.Join(b.TempDir(), "initrd")
	f, err := os.Create(name)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if err := tree.Write(f); err != nil {
		b.Fatal(err)
	}
	return name
}

// BenchmarkTask is a task's way through boxd on this machine, as its owner's
// device sees it over HTTP: POST → first step, and POST → done of a task that
// does nothing; alone, and while 8 others write a file ten times a second.
func BenchmarkTask(b *testing.B) {
	for _, others := range []int{0, 8} {
		api := box.Daemon(b)
		api.Do("PUT", "/api/settings", map[string]any{"maxRunning": others + 4}, nil)
		busy := api.Follow(0)
		for range others {
			id := api.New("home", "other", "step up", "run while sleep 0.1; do date > busy.$BOX_TASK; done").ID
			busy.Until(time.Minute, "another task's start", step(id))
		}
		busy.Close()
		for _, m := range []struct {
			name, prompt string
			awaited      func(string) func(actionlog.Event) bool
		}{
			{"POST_to_first_step", "step first", step},
			{"create_to_done", "# nothing", ended},
		} {
			b.Run(fmt.Sprintf("%s/others=%d", m.name, others), func(b *testing.B) {
				var ms []float64
				for range 40 {
					ms = append(ms, once(b, api, m.prompt, m.awaited))
				}
				b.ReportMetric(quantile(ms, 0.5), "p50-ms")
				b.ReportMetric(quantile(ms, 0.95), "p95-ms")
				b.ReportMetric(float64(len(ms)), "tasks")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// once makes a task and gives the milliseconds until what is awaited.
func once(b *testing.B, api *box.API, prompt string, awaited func(id string) func(actionlog.Event) bool) float64 {
	b.Helper()
	f := api.Follow(0)
	defer f.Close()
	f.Until(time.Minute, "the stream of events", func(actionlog.Event) bool { return true })
	start := time.Now()
	id := api.New("home", "measured", prompt).ID
	f.Until(time.Minute, "what is measured", awaited(id))
	took := time.Since(start)
	f.Until(time.Minute, "its end", ended(id))
	return float64(took.Microseconds()) / 1000
}

func step(id string) func(actionlog.Event) bool {
	return func(e actionlog.Event) bool { return e.Task == id && e.Type == actionlog.TypeTaskStep }
}

func ended(id string) func(actionlog.Event) bool {
	return func(e actionlog.Event) bool {
		return e.Task == id && e.Type == actionlog.TypeTaskState && (e.State == string(task.Done) || e.State == string(task.Failed))
	}
}

// quantile is the value below which a part of the samples lies.
func quantile(samples []float64, part float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(samples))
	return s[min(len(s)-1, int(part*float64(len(s))))]
}
