package bench

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkSyncs is why the action log has a journal: 300 bytes more at the end of a file, a block that was allocated and never written, and a block that
// was written before, each with its fdatasync, in turn; the median of each. Only the last changes nothing but the block.
func BenchmarkSyncs(b *testing.B) {
	const block, blocks = 4096, 256
	dir := benchDir(b)
	open := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { f.Close() })
		return f
	}
	growing, allocated, written := open("growing"), open("allocated"), open("written")
	if err := unix.Fallocate(int(allocated.Fd()), 0, 0, block*100_000); err != nil {
		b.Skipf("the file system allocates nothing ahead: %v", err)
	}
	if _, err := written.Write(make([]byte, block*blocks)); err != nil {
		b.Fatal(err)
	}
	for _, f := range []*os.File{allocated, written} {
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	kinds := []struct {
		name  string
		file  *os.File
		bytes int
		at    func(i int) int64
		took  []time.Duration
	}{
		{"growing-µs", growing, 300, func(i int) int64 { return int64(i) * 300 }, nil},
		{"allocated-µs", allocated, block, func(i int) int64 { return int64(i%100_000) * block }, nil},
		{"written-µs", written, block, func(i int) int64 { return int64(i%blocks) * block }, nil},
	}
	line := slices.Repeat([]byte{'x'}, block)
	for i := 0; b.Loop(); i++ {
		for k := range kinds {
			kind := &kinds[k]
			start := time.Now()
			if _, err := kind.file.WriteAt(line[:kind.bytes], kind.at(i)); err != nil {
				b.Fatal(err)
			}
			if err := unix.Fdatasync(int(kind.file.Fd())); err != nil {
				b.Fatal(err)
			}
			kind.took = append(kind.took, time.Since(start))
		}
	}
	for _, kind := range kinds {
		slices.Sort(kind.took)
		b.ReportMetric(float64(kind.took[len(kind.took)/2].Microseconds()), kind.name)
	}
	b.ReportMetric(0, "ns/op")
}
