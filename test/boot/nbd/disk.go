package nbd

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Errors of requests that a disk refuses.
var (
	ErrRange    = errors.New("request is beyond the disk's end or not in whole 512-byte sectors")
	ErrReadOnly = errors.New("disk is read-only")
	ErrOff      = errors.New("disk has no power")
)

// Disk is a block device in memory. Its methods may be called from several
// goroutines; requests take effect one after another in the order they come.
type Disk struct {
	size int64

	// mu guards everything below.
	mu       sync.Mutex
	view     *table  // what a read sees: all writes
	flushed  *table  // what must stay, before the unflushed writes
	pending  []write // since the last flush, oldest first
	readOnly bool
	off      bool // the power is cut: every request is refused
	count    Count
	onFlush  func()
}

// write is a write since the last flush. nil bytes stand for zeros.
type write struct {
	off, n int64
	bytes  []byte
	fua    bool // stays, whatever comes
}

// Count says how many requests a disk has served.
type Count struct {
	Reads, Writes, FUA, Trims, Flushes int
	Written                            int64 // bytes, zeros and trims left out
}

// Loss says what a cut did.
type Loss struct {
	Seed                        uint64
	Unflushed, Kept, Torn, Gone int // writes; Unflushed is the sum of the others
}

func (l Loss) String() string {
	return fmt.Sprintf("power cut with seed %d: %d writes unflushed, %d kept, %d torn, %d gone",
		l.Seed, l.Unflushed, l.Kept, l.Torn, l.Gone)
}

// New makes a blank disk. size is in bytes and is rounded up to whole sectors.
func New(size int64) *Disk {
	size = (size + Sector - 1) / Sector * Sector
	return &Disk{size: size, view: newTable(size), flushed: newTable(size)}
}

// Load makes a disk from a file, whose holes stay holes.
func Load(path string) (*Disk, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, err
	}
	d := New(fi.Size())
	buf := make([]byte, 1<<20)
	for at := int64(0); at < fi.Size(); {
		from, err := f.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // nothing but a hole up to the end
			break
		}
		if err != nil {
			return nil, err
		}
		from -= from % pageSize
		to, err := f.Seek(from, unix.SEEK_HOLE)
		if err != nil {
			return nil, err
		}
		for at = from; at < to; {
			n, err := f.ReadAt(buf[:min(int64(len(buf)), to-at)], at)
			if n == 0 {
				return nil, fmt.Errorf("read %s at %d: %w", path, at, err)
			}
			d.view.write(buf[:n], at)
			at += int64(n)
		}
	}
	d.flushed = d.view.clone()
	return d, nil
}

// Save writes what a read would see to a file with holes.
func (d *Disk) Save(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Truncate(d.size); err != nil {
		return err
	}
	var zeros page
	view := d.Clone().view
	err = view.data(func(off int64, p *page) error {
		if *p == zeros {
			return nil
		}
		_, err := f.WriteAt(p[:min(pageSize, d.size-off)], off)
		return err
	})
	if err != nil {
		return err
	}
	return f.Close()
}

// Size is the disk's size in bytes.
func (d *Disk) Size() int64 { return d.size }

// Count says what was asked of the disk since it was made.
func (d *Disk) Count() Count {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.count
}

// SetReadOnly makes the disk refuse writes, as a worn-out SSD does.
func (d *Disk) SetReadOnly(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.readOnly = on
}

// Clone copies the disk as it reads now, with everything flushed.
func (d *Disk) Clone() *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	view := d.view.clone()
	return &Disk{size: d.size, view: view, flushed: view.clone()}
}

// Slice copies a part of the disk, such as a partition.
func (d *Disk) Slice(off, size int64) *Disk {
	part := New(size)
	view := d.Clone().view
	view.data(func(at int64, p *page) error {
		from, to := max(at, off), min(at+pageSize, off+size)
		if from < to {
			part.view.write(p[from-at:to-at], from-off)
		}
		return nil
	})
	part.flushed = part.view.clone()
	return part
}

// Sum is a hash of all that is on the disk.
func (d *Disk) Sum() [sha256.Size]byte {
	h := sha256.New()
	var zeros page
	d.Clone().view.data(func(off int64, p *page) error {
		if *p != zeros {
			binary.Write(h, binary.LittleEndian, off)
			h.Write(p[:])
		}
		return nil
	})
	return [sha256.Size]byte(h.Sum(nil))
}

// ReadAt is io.ReaderAt, in any alignment.
func (d *Disk) ReadAt(p []byte, off int64) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return 0, ErrOff
	}
	if off < 0 {
		return 0, ErrRange
	}
	n := min(int64(len(p)), max(0, d.size-off))
	d.view.read(p[:n], off)
	d.count.Reads++
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

// Write writes p at off. With fua it stays once Write returns.
func (d *Disk) Write(p []byte, off int64, fua bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check(off, int64(len(p))); err != nil {
		return err
	}
	w := write{off, int64(len(p)), nil, fua}
	if bytes.Equal(p[:len(p)-1], p[1:]) && p[0] == 0 { // zeros take no memory
		d.view.zero(off, w.n)
	} else {
		w.bytes = bytes.Clone(p)
		d.view.write(p, off)
	}
	d.pending = append(d.pending, w)
	d.count.Writes++
	d.count.Written += int64(len(p))
	if fua {
		d.count.FUA++
	}
	return nil
}

// Zero makes n bytes at off zeros; a trim is no different here.
func (d *Disk) Zero(off, n int64, fua bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check(off, n); err != nil {
		return err
	}
	d.view.zero(off, n)
	d.pending = append(d.pending, write{off, n, nil, fua})
	d.count.Trims++
	return nil
}

// OnFlush sets what is called before each flush, without a lock held. What Cut
// gives there is the disk between that flush and the one before.
func (d *Disk) OnFlush(fn func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.onFlush = fn
}

// Flush makes every write so far stay.
func (d *Disk) Flush() error {
	d.mu.Lock()
	before := d.onFlush
	d.mu.Unlock()
	if before != nil {
		before()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return ErrOff
	}
	d.count.Flushes++
	if len(d.pending) > 0 {
		d.flushed, d.pending = d.view.clone(), nil
	}
	return nil
}

func (d *Disk) check(off, n int64) error {
	switch {
	case d.off:
		return ErrOff
	case d.readOnly:
		return ErrReadOnly
	case off < 0 || n <= 0 || off > d.size-n || off%Sector != 0 || n%Sector != 0:
		return ErrRange
	}
	return nil
}

// PowerOff refuses all requests from now on; the disk can still be cut and saved.
func (d *Disk) PowerOff() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = true
}

// Cut copies the disk as a power cut at this moment could leave it. The disk
// itself goes on, so that one run can be cut at many moments.
//
// How bad the cut is comes from the seed too: some keep nearly all unflushed
// writes, some nearly none, and some keep the young ones and lose the old,
// which is what finds a missing barrier.
func (d *Disk) Cut(seed uint64) (*Disk, Loss) {
	d.mu.Lock()
	pending := d.pending // only ever appended to or replaced
	t := d.flushed.clone()
	d.mu.Unlock()

	r := rand.New(rand.NewPCG(seed, 0x6375742d6f6666))
	keep := cutter(r, len(pending))
	loss := Loss{Seed: seed, Unflushed: len(pending)}
	for i, w := range pending {
		sectors := keep(i, int(w.n/Sector))
		switch {
		case w.fua, sectors == nil:
			w.lay(t, 0, w.n)
			loss.Kept++
		case len(sectors) == 0:
			loss.Gone++
		default:
			for _, s := range sectors {
				w.lay(t, int64(s)*Sector, Sector)
			}
			loss.Torn++
		}
	}
	return &Disk{size: d.size, view: t, flushed: t.clone()}, loss
}

// lay puts n of w's bytes, from byte at on, into t.
func (w write) lay(t *table, at, n int64) {
	if w.bytes == nil {
		t.zero(w.off+at, n)
	} else {
		t.write(w.bytes[at:at+n], w.off+at)
	}
}

// cutter gives the function that chooses which sectors of unflushed write i of
// total stay: nil for all, an empty slice for none.
func cutter(r *rand.Rand, total int) func(i, sectors int) []int {
	chance := []float64{0, 0.1, 0.5, 0.9, 1}[r.IntN(5)]
	young := r.IntN(3) == 0
	return func(i, sectors int) []int {
		chance := chance
		if young {
			chance = float64(i+1) / float64(total)
		}
		part := r.IntN(4) == 0
		if !part || sectors < 2 {
			if r.Float64() < chance {
				return nil
			}
			return []int{}
		}
		// A torn write: its beginning, its end, or sectors here and there.
		at, way := 1+r.IntN(sectors-1), r.IntN(3)
		kept := []int{}
		for s := range sectors {
			if way == 0 && s < at || way == 1 && s >= at || way == 2 && r.Float64() < chance {
				kept = append(kept, s)
			}
		}
		return kept
	}
}
