package suite

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/image/qemu"
)

// Performance is where figures are written.
const Performance = "docs/performance.md"

// Row is one measured thing.
type Row struct{ What, Figures string }

// Bench runs the benchmarks in test/ whose name fits match, and writes docs/performance.md when all ran. A benchmark tells its figures with
// ReportMetric, one unit each, such as `p50-ms`.
func Bench(ctx context.Context, root, match string, out io.Writer, sizes [][2]string) error {
	pattern := match
	if pattern == "" {
		pattern = "."
	}
	list := exec.CommandContext(ctx, "go", "list", "./test/...")
	list.Dir, list.Stderr = root, out
	said, err := list.Output()
	if err != nil {
		return fmt.Errorf("listing what measures: %w", err)
	}
	const births = "gurtos/test/bench/sandbox"
	packages := slices.DeleteFunc(strings.Fields(string(said)), func(p string) bool { return p == births })
	var text bytes.Buffer
	for _, args := range [][]string{packages, {"-tags=netgo,osusergo", "-ldflags=-s -w -linkmode=external -extldflags=-static", births}} { // those as boxd is built: they run themselves anew
		cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-run=^$", "-bench=" + pattern, "-timeout=2h", "-p=1"}, args...)...)
		cmd.Dir, cmd.Stderr, cmd.Stdout = root, out, io.MultiWriter(out, &text)
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("measuring: %w", err)
		}
	}
	if match != "" {
		return nil
	}
	rows := parseBench(&text)
	for _, s := range sizes {
		rows = append(rows, Row{s[0], s[1]})
	}
	return os.WriteFile(filepath.Join(root, Performance), performance(Machine(ctx), rows), 0o644)
}

// parseBench reads what go test prints of benchmarks: name, rounds, then figures with their units.
func parseBench(in io.Reader) (rows []Row) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 4 || !strings.HasPrefix(f[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(f[0], "Benchmark")
		if i := strings.LastIndexByte(name, '-'); i > 0 && strings.Trim(name[i+1:], "0123456789") == "" {
			name = name[:i] // the number of processors
		}
		var figures []string
		for i := 2; i+1 < len(f); i += 2 {
			if f[i+1] != "ns/op" || len(f) == 4 { // with own figures the mean says nothing more
				figures = append(figures, figure(f[i], f[i+1]))
			}
		}
		rows = append(rows, Row{strings.ReplaceAll(name, "_", " "), strings.Join(figures, " · ")})
	}
	return rows
}

// figure writes `p50-ms` with 3.6 as `p50 3.6 ms`, and nanoseconds so that a person can read them.
func figure(value, unit string) string {
	if unit == "ns/op" {
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			return "mean " + time.Duration(n).Round(time.Duration(max(1, n/1000))).String()
		}
	}
	if what, unit, ok := strings.Cut(unit, "-"); ok {
		return what + " " + value + " " + unit
	}
	return value + " " + unit
}

func performance(machine string, rows []Row) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Performance\n\nWritten by `make bench` on %s. The figures compare things within one run; another machine has others.\n\n| what | figures |\n|---|---|\n", machine)
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %s |\n", r.What, r.Figures)
	}
	b.Write(judged(rows))
	return b.Bytes()
}

// Machine names the machine that something was measured on, and when.
func Machine(ctx context.Context) string {
	var u unix.Utsname
	unix.Uname(&u)
	model := "processor unknown"
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	guests := map[string]string{"kvm": "guests by KVM", "tcg": "guests emulated (no working KVM)"}[qemu.Accel(ctx)]
	return fmt.Sprintf("%s: %d × %s, kernel %s, %s", time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), model, unix.ByteSliceToString(u.Release[:]), guests)
}
