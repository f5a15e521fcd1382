package sandbox

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gurtos/sandbox"
	"gurtos/sandbox/layers"
	"gurtos/sandbox/sandboxtest"
)

// fileWork is what programs do with files. Each is timed inside, without the start of the sandbox.
var fileWork = []struct {
	name  string
	setUp string // not timed
	run   string
}{
	{"git-status", "cd repo && git status >/dev/null", "git status"}, // the first one writes the index anew
	{"git-checkout", "cd repo && git checkout -q -f main", "git checkout -q other"},
	{"npm-install", "rm -rf app && mkdir app && cd app && cp ../package.json .", "npm install --offline --no-audit --no-fund --ignore-scripts --cache /tmp/npm"},
	{"fio-write", "mkdir -p io && cd io && rm -f *", fio + " --rw=write --bs=1M --size=64M --end_fsync=1"},
	{"fio-randread", layOut, fio + " --rw=randread --bs=4k --size=64M --io_size=32M"},
	{"fio-randwrite", layOut, fio + " --rw=randwrite --bs=4k --size=64M --io_size=32M --end_fsync=1"},
}

// layOut writes the file that is read or written over.
const layOut = "mkdir -p io && cd io && head -c 67108864 /dev/zero > x.0.0 && sync x.0.0"

// fio is brought along with its libraries: the tasks root has none.
const fio = "../fio/ld --library-path ../fio ../fio/fio --name=x --ioengine=psync --output=/dev/null"

// BenchmarkFiles is file work of programs in a task over 1 and over 100 layers, beside the same programs on the bare file system, in turns. share is how fast
// it is there of what it is on the bare one.
func BenchmarkFiles(b *testing.B) {
	root := folderRoot(b)
	h := sandboxtest.OpenAs(b, config(b))
	dir := b.TempDir() // on a disk
	base := filepath.Join(dir, "base")
	makeWork(b, base)
	m, err := layers.NewMounter()
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	lowers := stackOf(b, m, dir, base, 99)
	bare := filepath.Join(dir, "bare")
	if out, err := exec.Command("cp", "-a", base, bare).CombinedOutput(); err != nil {
		b.Fatalf("%v %s", err, out)
	}
	places := []struct {
		name string
		run  func(b *testing.B, script string) string
	}{
		{"bare", func(b *testing.B, script string) string { return onBare(b, root, bare, script) }},
		{"layer", func(b *testing.B, script string) string { return inView(b, h, layers.View{Base: base}, script) }},
		{"layers100", func(b *testing.B, script string) string {
			return inView(b, h, layers.View{Base: base, Lowers: lowers}, script)
		}},
	}
	for _, w := range fileWork {
		took := map[string][]float64{}
		b.Run(w.name, func(b *testing.B) {
			for b.Loop() {
				for range rounds {
					for _, p := range places {
						took[p.name] = append(took[p.name], timed(b, p.run(b, timing(w.setUp, w.run))))
					}
				}
			}
			b.ReportMetric(0, "ns/op")
			least := slices.Min(took["bare"])
			for _, p := range places {
				b.ReportMetric(slices.Min(took[p.name]), p.name+"-ms")
				if p.name != "bare" {
					b.ReportMetric(least/slices.Min(took[p.name]), p.name+"-share")
				}
			}
		})
	}
}

// rounds is how often each place has its turn; the least time counts.
const rounds = 3

// timing is a script that prints how many nanoseconds run takes, once the files are in memory.
func timing(setUp, run string) string {
	return "set -e; { " + setUp + "; } >&2; start=$(date +%s%N); " + run + " >/dev/null; end=$(date +%s%N); echo took $((end-start))"
}

func timed(b *testing.B, output string) float64 {
	b.Helper()
	_, ns, ok := strings.Cut(output, "took ")
	n, err := strconv.ParseFloat(strings.TrimSpace(ns), 64)
	if !ok || err != nil {
		b.Fatalf("no time in %q", output)
	}
	return n / 1e6
}

var env = []string{"PATH=/usr/bin:/bin", "HOME=/tmp", "LANG=C.UTF-8", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"}

// onBare runs a script in a folder on the bare file system, with the programs of the tasks root.
func onBare(b *testing.B, root, dir, script string) string {
	b.Helper()
	args := []string{"--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind", dir, "/work", "--chdir", "/work"}
	c := exec.Command("bwrap", append(args, "/bin/sh", "-c", script)...)
	c.Env = env
	out, err := c.CombinedOutput()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// inView runs a script in a sandbox with a new layer over the view.
func inView(b *testing.B, h *sandbox.Host, v layers.View, script string) string {
	b.Helper()
	s := emptySpec(b)
	dir := b.TempDir()
	v.Layer = filepath.Join(dir, "work")
	if err := layers.Create(v.Layer); err != nil {
		b.Fatal(err)
	}
	s.Work, s.Args, s.Env = v, []string{"/bin/sh", "-c", script}, env
	sb, err := h.Start(b.Context(), s)
	if err != nil {
		b.Fatal(err)
	}
	e := sb.Wait()
	if e.Code != 0 {
		b.Fatalf("%+v", e)
	}
	if err := layers.Drop(v.Layer); err != nil {
		b.Fatal(err)
	}
	return e.Output
}

// stackOf makes sealed layers over the base, each of which changes some files and adds one.
func stackOf(b *testing.B, m *layers.Mounter, dir, base string, n int) (lowers []string) {
	b.Helper()
	luck := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		v := layers.View{Base: base, Lowers: lowers, Layer: filepath.Join(dir, fmt.Sprintf("layer%d", i))}
		if err := layers.Create(v.Layer); err != nil {
			b.Fatal(err)
		}
		w, err := m.Writer(v)
		if err != nil {
			b.Fatal(err)
		}
		for range 10 {
			at := luck.IntN(repoFiles)
			if err := w.File("repo/"+repoFile(at), 0o644, workTime, strings.NewReader(repoText(at))); err != nil {
				b.Fatal(err)
			}
		}
		if err := w.File(fmt.Sprintf("notes/%d", i), 0o644, workTime, strings.NewReader("x")); err != nil {
			b.Fatal(err)
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
		if err := layers.Seal(context.Background(), v); err != nil {
			b.Fatal(err)
		}
		lowers = append([]string{v.Layer}, lowers...)
	}
	return lowers
}

// makeWork fills a folder with a git repository, packages for npm and fio.
func makeWork(b *testing.B, base string) {
	b.Helper()
	repo := filepath.Join(base, "repo")
	for i := range repoFiles {
		write(b, filepath.Join(repo, repoFile(i)), repoText(i))
	}
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"commit", "-qm", "all"}, {"branch", "other"}} {
		git(b, repo, args...)
	}
	git(b, repo, "checkout", "-q", "other")
	for i := 0; i < repoFiles; i += 20 {
		write(b, filepath.Join(repo, repoFile(i)), "other\n"+repoText(i))
	}
	git(b, repo, "commit", "-qam", "some")
	git(b, repo, "checkout", "-q", "main")

	var deps []string
	for i := range packages {
		name := fmt.Sprintf("package%d", i)
		packNPM(b, filepath.Join(base, "packages", name+".tgz"), name)
		deps = append(deps, fmt.Sprintf("%q:%q", name, "file:../packages/"+name+".tgz"))
	}
	write(b, filepath.Join(base, "package.json"), fmt.Sprintf(`{"name":"app","version":"1.0.0","dependencies":{%s}}`, strings.Join(deps, ",")))

	bring(b, "/usr/bin/fio", filepath.Join(base, "fio"))
	if out, err := exec.Command("chown", "-R", fmt.Sprintf("%d:%d", layers.Canonical, layers.Canonical), base).CombinedOutput(); err != nil {
		b.Fatalf("%v %s", err, out)
	}
}

// workTime is when all of it was changed last: a clock would have git look into each file.
var workTime = time.Unix(1_700_000_000, 0)

const (
	repoFiles = 10_000
	packages  = 60
)

func repoFile(i int) string { return fmt.Sprintf("src/m%d/p%d/file%d.go", i/1000, i/50%20, i) }

func repoText(i int) string {
	return strings.Repeat(fmt.Sprintf("// line of file %d\n", i), 20)
}

// git is the machine's, as nobody in particular.
func git(b *testing.B, dir string, args ...string) {
	b.Helper()
	c := exec.Command("git", append([]string{"-c", "user.name=b", "-c", "user.email=b@example.org", "-c", "gc.auto=0", "-c", "maintenance.auto=false"}, args...)...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		b.Fatalf("git %v: %v %s", args, err, out)
	}
}

func write(b *testing.B, path, text string) {
	b.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		b.Fatal(err)
	}
}

// packNPM makes a package of twenty files, as npm pack would.
func packNPM(b *testing.B, path, name string) {
	b.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		b.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	z := gzip.NewWriter(f)
	w := tar.NewWriter(z)
	files := map[string]string{"package.json": fmt.Sprintf(`{"name":%q,"version":"1.0.0"}`, name)}
	for i := range 20 {
		files[fmt.Sprintf("lib/file%d.js", i)] = strings.Repeat("exports.x = "+strconv.Itoa(i)+"\n", 50)
	}
	for n, text := range files {
		if err := w.WriteHeader(&tar.Header{Name: "package/" + n, Mode: 0o644, Size: int64(len(text)), ModTime: workTime}); err != nil {
			b.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	if err := z.Close(); err != nil {
		b.Fatal(err)
	}
}

// bring copies a program, its libraries and its loader into a folder.
func bring(b *testing.B, program, to string) {
	b.Helper()
	out, err := exec.Command("ldd", program).Output()
	if err != nil {
		b.Fatalf("ldd %s: %v", program, err)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		b.Fatal(err)
	}
	from := map[string]string{program: filepath.Base(program)}
	for s := bufio.NewScanner(strings.NewReader(string(out))); s.Scan(); {
		for _, f := range strings.Fields(s.Text()) {
			if strings.HasPrefix(f, "/") {
				from[f] = filepath.Base(f)
				if strings.HasPrefix(filepath.Base(f), "ld-linux") {
					from[f] = "ld"
				}
			}
		}
	}
	for f, name := range from {
		text, err := os.ReadFile(f)
		if err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, name), text, 0o755); err != nil {
			b.Fatal(err)
		}
	}
}
