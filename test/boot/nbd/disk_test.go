package nbd

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// model is a disk as a list of what each sector may hold after a cut: the
// values it got since the last flush, oldest first, and the one before them.
// A value is the number of the write that made it.
type model struct{ may [][]uint32 }

func (m *model) write(sector, n int, tag uint32, fua bool) {
	for s := sector; s < sector+n; s++ {
		if fua {
			m.may[s] = nil
		}
		m.may[s] = append(m.may[s], tag)
	}
}

func (m *model) flush() {
	for s, v := range m.may {
		m.may[s] = v[len(v)-1:]
	}
}

func (m *model) view() []uint32 {
	now := make([]uint32, len(m.may))
	for s, v := range m.may {
		now[s] = v[len(v)-1]
	}
	return now
}

// fill makes n sectors that hold tag all over.
func fill(n int, tag uint32) []byte {
	p := make([]byte, n*Sector)
	for i := 0; i < len(p); i += 4 {
		binary.LittleEndian.PutUint32(p[i:], tag)
	}
	return p
}

// tags reads a disk back and fails when a sector is torn inside.
func tags(t *testing.T, d *Disk) []uint32 {
	t.Helper()
	p := make([]byte, d.Size())
	if _, err := d.ReadAt(p, 0); err != nil {
		t.Fatal(err)
	}
	got := make([]uint32, d.Size()/Sector)
	for s := range got {
		b := p[s*Sector : (s+1)*Sector]
		got[s] = binary.LittleEndian.Uint32(b)
		if !bytes.Equal(b[4:], b[:Sector-4]) { // not the same tag all over
			t.Fatalf("sector %d is torn inside", s)
		}
	}
	return got
}

func same(t *testing.T, what string, got, want []uint32) {
	t.Helper()
	for s := range want {
		if got[s] != want[s] {
			t.Fatalf("%s: sector %d holds write %d, want %d", what, s, got[s], want[s])
		}
	}
}

func TestDiskAgainstModel(t *testing.T) {
	const sectors = 3*leafSize/Sector/2 + 3 // two leaves, and an end inside a page
	type copied struct {
		disk *Disk
		want []uint32
	}
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 1))
		d, m := New(sectors*Sector), &model{may: make([][]uint32, sectors)}
		for s := range m.may {
			m.may[s] = []uint32{0}
		}
		var copies []copied
		var lost, torn int
		for op := uint32(1); op <= 400; op++ {
			// Mostly one small region, so that writes overlap; now and then the whole disk.
			at, n := r.IntN(200), 1+r.IntN(40)
			if r.IntN(20) == 0 {
				at = r.IntN(sectors)
				n = 1 + r.IntN(sectors-at)
			}
			switch k := r.IntN(20); {
			case k < 12:
				fua := k == 0
				if err := d.Write(fill(n, op), int64(at)*Sector, fua); err != nil {
					t.Fatal(err)
				}
				m.write(at, n, op, fua)
			case k < 14:
				if err := d.Zero(int64(at)*Sector, int64(n)*Sector, false); err != nil {
					t.Fatal(err)
				}
				m.write(at, n, 0, false)
			case k < 15:
				if err := d.Flush(); err != nil {
					t.Fatal(err)
				}
				m.flush()
				after, loss := d.Cut(r.Uint64())
				same(t, "cut just after a flush", tags(t, after), m.view())
				if loss.Unflushed != 0 {
					t.Fatalf("after a flush: %v", loss)
				}
			case k < 17:
				same(t, "read", tags(t, d), m.view())
			case k < 18:
				c := d.Clone()
				copies = append(copies, copied{c, m.view()})
				if len(copies) > 3 { // a copy may change, the disk and other copies may not
					if err := c.Write(fill(40, 9_000_000), 0, false); err != nil {
						t.Fatal(err)
					}
					copies = copies[:len(copies)-1]
				}
			default:
				after, loss := d.Cut(r.Uint64())
				got := tags(t, after)
				for s, v := range got {
					if !slices.Contains(m.may[s], v) {
						t.Fatalf("seed %d, %v: sector %d holds write %d, may hold %v", seed, loss, s, v, m.may[s])
					}
				}
				if loss.Gone > 0 {
					lost++
				}
				if loss.Torn > 0 {
					torn++
				}
				if loss.Kept+loss.Torn+loss.Gone != loss.Unflushed {
					t.Fatalf("%v: the parts don't make the whole", loss)
				}
			}
		}
		for i, c := range copies {
			if i < 3 {
				same(t, "clone after later writes", tags(t, c.disk), c.want)
			}
		}
		if lost == 0 || torn == 0 {
			t.Errorf("seed %d: %d cuts lost a write and %d tore one, want some of both", seed, lost, torn)
		}
	}
}

func TestCutIsRepeatedBySeed(t *testing.T) {
	d := New(1 << 20)
	for i := range uint32(200) {
		if err := d.Write(fill(8, i+1), int64(i)*4096, false); err != nil {
			t.Fatal(err)
		}
	}
	distinct := map[string]bool{}
	for seed := range uint64(20) {
		one, _ := d.Cut(seed)
		two, _ := d.Cut(seed)
		same(t, "same seed", tags(t, two), tags(t, one))
		p := make([]byte, d.Size())
		one.ReadAt(p, 0)
		distinct[string(p)] = true
	}
	if len(distinct) < 10 {
		t.Errorf("20 seeds made %d different disks", len(distinct))
	}
}

func TestDiskRefuses(t *testing.T) {
	d := New(64 << 10)
	for name, tc := range map[string]struct {
		do   func() error
		want error
	}{
		"a write beyond the end":    {func() error { return d.Write(fill(2, 1), 64<<10-Sector, false) }, ErrRange},
		"a write far beyond":        {func() error { return d.Write(fill(1, 1), 1<<62, false) }, ErrRange},
		"a negative offset":         {func() error { return d.Write(fill(1, 1), -Sector, false) }, ErrRange},
		"half a sector":             {func() error { return d.Write(make([]byte, 100), 0, false) }, ErrRange},
		"a start inside a sector":   {func() error { return d.Zero(100, Sector, false) }, ErrRange},
		"a write while read-only":   {func() error { d.SetReadOnly(true); return d.Write(fill(1, 1), 0, false) }, ErrReadOnly},
		"a flush without any power": {func() error { o := New(4096); o.PowerOff(); return o.Flush() }, ErrOff},
	} {
		if err := tc.do(); err != tc.want {
			t.Errorf("%s: %v, want %v", name, err, tc.want)
		}
		d.SetReadOnly(false)
	}
	if c := d.Count(); c.Writes != 0 {
		t.Errorf("%d refused writes were counted", c.Writes)
	}
}

func TestSaveAndLoadKeepHoles(t *testing.T) {
	d := New(1 << 30)
	for _, at := range []int64{0, 5 * leafSize, 1<<30 - 8*Sector} {
		if err := d.Write(fill(8, uint32(at/Sector+1)), at, false); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(t.TempDir(), "disk")
	if err := d.Save(file); err != nil {
		t.Fatal(err)
	}
	back, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if back.Size() != d.Size() {
		t.Fatalf("%d bytes came back of %d", back.Size(), d.Size())
	}
	pages := 0
	back.view.data(func(off int64, p *page) error {
		pages++
		if got, want := binary.LittleEndian.Uint32(p[:]), uint32(off/Sector+1); got != want {
			t.Errorf("page at %d holds %d, want %d", off, got, want)
		}
		return nil
	})
	if pages != 3 {
		t.Errorf("%d pages came back, want 3: holes were filled", pages)
	}
	if fi, _ := os.Stat(file); fi.Size() != 1<<30 {
		t.Errorf("the file has %d bytes", fi.Size())
	}
}
