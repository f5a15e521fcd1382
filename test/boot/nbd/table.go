package nbd

const (
	// Sector is the unit that a power cut never tears.
	Sector = 512

	pageSize  = 4096
	leafPages = 512 // a leaf covers 2 MiB
	leafSize  = pageSize * leafPages
)

type page [pageSize]byte

// owner marks the table that may change a leaf in place. It has a byte so that
// two owners never share an address.
type owner struct{ _ byte }

type leaf struct {
	owner *owner
	own   [leafPages / 64]uint64 // pages that the owner may change in place
	pages [leafPages]*page       // nil reads as zeros
}

// table holds a disk's bytes. Clones share leaves and pages until one of them
// writes, so a clone costs its root only: 4 KiB for every GiB of disk.
type table struct {
	owner  *owner
	leaves []*leaf
}

func newTable(size int64) *table {
	return &table{owner: new(owner), leaves: make([]*leaf, (size+leafSize-1)/leafSize)}
}

// clone makes both tables strangers to all leaves that exist now.
func (t *table) clone() *table {
	t.owner = new(owner)
	return &table{owner: new(owner), leaves: append([]*leaf(nil), t.leaves...)}
}

// each calls fn with the parts of [off, off+n) that lie in one page each.
func each(off, n int64, fn func(leaf int64, page int, from, to, done int64)) {
	for done := int64(0); done < n; {
		at := off + done
		from := at % pageSize
		to := min(pageSize, from+n-done)
		fn(at/leafSize, int(at%leafSize/pageSize), from, to, done)
		done += to - from
	}
}

func (t *table) read(p []byte, off int64) {
	each(off, int64(len(p)), func(l int64, i int, from, to, done int64) {
		dst := p[done : done+to-from]
		if lf := t.leaves[l]; lf != nil && lf.pages[i] != nil {
			copy(dst, lf.pages[i][from:to])
		} else {
			clear(dst)
		}
	})
}

func (t *table) write(p []byte, off int64) {
	each(off, int64(len(p)), func(l int64, i int, from, to, done int64) {
		copy(t.page(l, i, to-from == pageSize)[from:to], p[done:done+to-from])
	})
}

func (t *table) zero(off, n int64) {
	each(off, n, func(l int64, i int, from, to, _ int64) {
		lf := t.leaves[l]
		if lf == nil || lf.pages[i] == nil {
			return
		}
		if to-from == pageSize {
			t.leaf(l).pages[i] = nil
			return
		}
		clear(t.page(l, i, false)[from:to])
	})
}

// leaf gives leaf l for changing.
func (t *table) leaf(l int64) *leaf {
	lf := t.leaves[l]
	if lf != nil && lf.owner == t.owner {
		return lf
	}
	fresh := &leaf{owner: t.owner}
	if lf != nil {
		fresh.pages = lf.pages
	}
	t.leaves[l] = fresh
	return fresh
}

// page gives a page for changing; its old bytes don't matter when whole is set.
func (t *table) page(l int64, i int, whole bool) *page {
	lf := t.leaf(l)
	bit := uint64(1) << (i % 64)
	old := lf.pages[i]
	if old != nil && lf.own[i/64]&bit != 0 {
		return old
	}
	fresh := new(page)
	if old != nil && !whole {
		*fresh = *old
	}
	lf.pages[i] = fresh
	lf.own[i/64] |= bit
	return fresh
}

// data calls fn with each page that was ever written, in order.
func (t *table) data(fn func(off int64, p *page) error) error {
	for l, lf := range t.leaves {
		if lf == nil {
			continue
		}
		for i, p := range lf.pages {
			if p == nil {
				continue
			}
			if err := fn(int64(l)*leafSize+int64(i)*pageSize, p); err != nil {
				return err
			}
		}
	}
	return nil
}
