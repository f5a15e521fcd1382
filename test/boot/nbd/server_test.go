package nbd

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// serve serves d until the test ends and gives the address as qemu writes it.
func serve(t *testing.T, d *Disk) (*Server, string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	s, err := Serve(d, socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, "nbd+unix:///?socket=" + socket
}

// need fails where a program of Debian's qemu-utils is missing.
func need(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatalf("%s is missing: apt-get install qemu-utils", program)
	}
	return path
}

// qemuIO is a qemu-io that stays, as a flush is sent when it ends.
type qemuIO struct {
	t   *testing.T
	in  io.Writer
	out *bufio.Reader
}

func startQemuIO(t *testing.T, cache, url string) *qemuIO {
	t.Helper()
	cmd := exec.Command(need(t, "qemu-io"), "-f", "raw", "-t", cache, url)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, outEnd, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = outEnd, outEnd
	err = cmd.Start()
	outEnd.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		out.Close()
	})
	q := &qemuIO{t, in, bufio.NewReader(out)}
	q.answer()
	return q
}

// answer reads up to the next prompt.
func (q *qemuIO) answer() string {
	q.t.Helper()
	var seen []byte
	for !bytes.HasSuffix(seen, []byte("qemu-io> ")) {
		c, err := q.out.ReadByte()
		if err != nil {
			q.t.Fatalf("qemu-io ended: %v\n%s", err, seen)
		}
		seen = append(seen, c)
	}
	return string(seen)
}

// do runs a command of qemu-io and wants a text in its answer.
func (q *qemuIO) do(command, want string) {
	q.t.Helper()
	if _, err := fmt.Fprintln(q.in, command); err != nil {
		q.t.Fatal(err)
	}
	if seen := q.answer(); !strings.Contains(seen, want) {
		q.t.Fatalf("%s answered\n%s\nwant %q in it", command, seen, want)
	}
}

func byteAt(t *testing.T, d *Disk, off int64) byte {
	t.Helper()
	var b [1]byte
	if _, err := d.ReadAt(b[:], off); err != nil {
		t.Fatal(err)
	}
	return b[0]
}

// cuts looks at a byte after 200 cuts.
func cuts(t *testing.T, d *Disk, off int64) map[byte]int {
	t.Helper()
	seen := map[byte]int{}
	for seed := range uint64(200) {
		after, _ := d.Cut(seed)
		seen[byteAt(t, after, off)]++
	}
	return seen
}

func TestQemuFlushesReachTheDisk(t *testing.T) {
	d := New(64 << 20)
	_, url := serve(t, d)
	q := startQemuIO(t, "writeback", url)
	q.do("write -P 0x11 0 64k", "wrote 65536/65536")
	if seen := cuts(t, d, 0); seen[0] == 0 || seen[0x11] == 0 {
		t.Errorf("an unflushed write was left as %v, want now gone, now kept", seen)
	}
	q.do("flush", "")
	if seen := cuts(t, d, 0); seen[0x11] != 200 {
		t.Errorf("a flushed write was left as %v", seen)
	}
	q.do("write -P 0x22 0 64k", "wrote 65536/65536")
	q.do("write -f -P 0x33 64k 4k", "wrote 4096/4096")
	if seen := cuts(t, d, 0); seen[0x11] == 0 || seen[0x22] == 0 || len(seen) != 2 {
		t.Errorf("a write over a flushed one was left as %v", seen)
	}
	if seen := cuts(t, d, 64<<10); seen[0x33] != 200 {
		t.Errorf("a write with FUA was left as %v", seen)
	}
	q.do("flush", "")
	q.do("write -z 0 64k", "wrote 65536/65536")
	q.do("discard 64k 4k", "discard 4096/4096")
	q.do("read -P 0 0 68k", "read 69632/69632")
	if seen := cuts(t, d, 0); seen[0x22] == 0 || seen[0] == 0 {
		t.Errorf("zeros without a flush were left as %v", seen)
	}
	q.do("write -P 1 64M 4k", "Input/output error") // beyond the end
	if c := d.Count(); c.Flushes != 2 || c.FUA != 1 {
		t.Errorf("qemu sent %d flushes and %d FUA writes, want 2 and 1: the counts must be the guest's own", c.Flushes, c.FUA)
	}
}

// Write-through makes QEMU send every write with FUA: with such a setting no
// cut would ever lose anything, and no test would find a forgotten fsync.
func TestQemuWriteThroughHidesTheCache(t *testing.T) {
	d := New(1 << 20)
	_, url := serve(t, d)
	q := startQemuIO(t, "writethrough", url)
	q.do("write -P 0x11 0 4k", "wrote 4096/4096")
	if c := d.Count(); c.FUA != 1 {
		t.Errorf("%+v, want a write with FUA", c)
	}
	if seen := cuts(t, d, 0); seen[0x11] != 200 {
		t.Errorf("a write through the cache was left as %v", seen)
	}
}

func TestCutDisconnects(t *testing.T) {
	d := New(1 << 20)
	s, url := serve(t, d)
	q := startQemuIO(t, "writeback", url)
	q.do("write -P 0x11 0 4k", "wrote 4096/4096")
	q.do("flush", "")
	after, loss := s.Cut(7)
	if loss.Seed != 7 || !strings.Contains(loss.String(), "seed 7") {
		t.Errorf("the loss says %q", loss)
	}
	q.do("write -P 0x22 0 4k", "error")
	if got := byteAt(t, after, 0); got != 0x11 {
		t.Errorf("the cut disk holds %#x, want 0x11", got)
	}
	if err := d.Flush(); err != ErrOff {
		t.Errorf("flush after the cut: %v", err)
	}
}

func TestQemuImgCopiesInAndOut(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	src := New(9<<20 + 3*Sector)
	for i := range uint32(300) {
		if err := src.Write(fill(7, i+1), int64(i)*60*Sector, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := src.Save(in); err != nil {
		t.Fatal(err)
	}
	d := New(src.Size())
	_, url := serve(t, d)
	img := need(t, "qemu-img")
	for _, args := range [][]string{
		{"convert", "-n", "-f", "raw", "-O", "raw", "-W", "-m", "8", in, url}, // several requests at once, out of order
		{"compare", "-f", "raw", "-F", "raw", in, url},
		{"convert", "-f", "raw", "-O", "raw", url, out},
		{"compare", "-f", "raw", "-F", "raw", in, out},
	} {
		if text, err := exec.Command(img, args...).CombinedOutput(); err != nil {
			t.Fatalf("qemu-img %s: %v\n%s", strings.Join(args, " "), err, text)
		}
	}
	if fi, err := os.Stat(out); err != nil || fi.Size() != src.Size() {
		t.Errorf("%v bytes came out, want %d (%v)", fi.Size(), src.Size(), err)
	}
}

func TestSwap(t *testing.T) {
	d := New(1 << 20)
	s, url := serve(t, d)
	q := startQemuIO(t, "writeback", url)
	q.do("write -P 0x11 0 4k", "wrote 4096/4096")
	other := New(1 << 20)
	if err := other.Write(bytes.Repeat([]byte{0x22}, 4096), 4096, true); err != nil {
		t.Fatal(err)
	}
	if err := s.Swap(other); err != nil {
		t.Fatal(err)
	}
	q.do("read -P 0x22 4k 4k", "read 4096/4096")
	q.do("read -P 0 0 4k", "read 4096/4096")
	if err := s.Swap(New(2 << 20)); err == nil {
		t.Error("a disk of another size was taken")
	}
}

func TestReadOnlyExport(t *testing.T) {
	d := New(1 << 20)
	d.SetReadOnly(true)
	_, url := serve(t, d)
	text, err := exec.Command(need(t, "qemu-io"), "-f", "raw", "-c", "write 0 4k", url).CombinedOutput()
	if err == nil || !strings.Contains(string(text), "Permission denied") {
		t.Errorf("writing to a read-only export: %v\n%s", err, text)
	}
	if text, err := exec.Command(need(t, "qemu-io"), "-r", "-f", "raw", "-c", "read -P 0 0 4k", url).CombinedOutput(); err != nil {
		t.Errorf("reading from a read-only export: %v\n%s", err, text)
	}
}
