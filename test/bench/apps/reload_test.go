package apps

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// page is an app whose page says which of its versions it is.
const page = `import type { Track } from '../../core/contract.ts';

export default {
  name: 'fresh',
  routes: { 'GET /': () => new Response('version %d', { headers: { 'content-type': 'text/html' } }) },
  apps: [{ name: 'fresh', title: 'Fresh', href: '/' }],
} satisfies Track;
`

// BenchmarkAppReload is the way from a file that an editor saved to the app's page as it is now, while `box app dev` runs it: what whoever writes an
// app waits for.
func BenchmarkAppReload(b *testing.B) {
	root := b.TempDir()
	folder := filepath.Join(root, "tracks", "fresh")
	save := func(version int) {
		b.Helper()
		beside := filepath.Join(root, "track.ts")
		if err := os.WriteFile(beside, fmt.Appendf(nil, page, version), 0o644); err != nil {
			b.Fatal(err)
		}
		if err := os.Rename(beside, filepath.Join(folder, "track.ts")); err != nil { // as editors do
			b.Fatal(err)
		}
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		b.Fatal(err)
	}
	core, err := filepath.Abs(filepath.Join(repo, "core"))
	if err != nil {
		b.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(root, "core"), os.DirFS(core)); err != nil {
		b.Fatal(err)
	}
	save(0)
	box, err := filepath.Abs(filepath.Join(repo, "bin", "box"))
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(box, "app", "dev", folder)
	cmd.Stderr = os.Stderr
	said, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewScanner(said)
	address := ""
	for address == "" && lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), "Fresh: "); ok {
			address = rest
		}
	}
	if address == "" {
		cmd.Process.Kill()
		b.Fatalf("box app dev says no address: %v", cmd.Wait())
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for lines.Scan() { // or it would wait for a reader
		}
	}()
	defer func() {
		cmd.Process.Signal(syscall.SIGINT)
		<-heard
		if err := cmd.Wait(); err != nil {
			b.Error(err)
		}
	}()
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	var took []float64
	for version := 1; b.Loop(); version++ {
		start := time.Now()
		save(version)
		for want := fmt.Sprintf("version %d", version); ; {
			res, err := http.Get(address)
			if err != nil {
				b.Fatal(err)
			}
			text, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil {
				b.Fatal(err)
			}
			if strings.HasSuffix(string(text), want) {
				break
			}
			if time.Since(start) > time.Minute {
				b.Fatalf("the page stays %.200q", text)
			}
			<-again.C
		}
		took = append(took, ms(start))
	}
	b.ReportMetric(quantile(took, 0.5), "p50-ms")
	b.ReportMetric(quantile(took, 0.95), "p95-ms")
	b.ReportMetric(0, "ns/op")
}
