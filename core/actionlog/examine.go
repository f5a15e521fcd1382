package actionlog

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
)

// examiner reads a log from a line that is known and tells what is as it was
// written from what isn't. Each line holds the hash of the one before; so a line
// is proven by the next one, and the last by the remembered head.
type examiner struct {
	log    io.ReaderAt
	in     *lines
	head   Mark // remembered; Seq 0 when nothing is
	strict bool // look at the JSON of every line, not only behind head

	good   Mark  // the last line that fits
	from   int64 // where that begins
	before Mark  // the line before it
	ahead  *seen // read, not yet looked at

	// each is called for a line that fits. It may turn out to be changed when the
	// next one is read.
	each func(line []byte, from int64, m Mark) error
}

// seen is what matters of a line.
type seen struct {
	from, to int64
	seq      int64
	prev     string
	hash     string
	ok       bool // has seq and prev in their places, and is JSON where that is looked at
}

// damage is a range of the file that is not what was written.
type damage struct {
	first, last int64  // lines; last is first-1 where something was put between two
	from, to    int64  // bytes
	before      string // hash of the line before first
	hash        string // of the line last once, when it is known
	kind        string
	strays      []int64 // seqs of whole lines in it
	pair        int64   // the same in both halves of lines that stand in the wrong place
	tail        bool    // nothing behind it is whole
	whole       bool    // of a tail: there is a newline in it
	fits        bool    // of a tail: it begins with a whole line, so no power cut made it
}

// The kinds of damage.
const (
	changed   = "changed"
	removed   = "removed"
	reordered = "reordered"
	inserted  = "inserted"
	garbled   = "damaged"
	gone      = "gone"
)

// examine reads from start to end.
func examine(log io.ReaderAt, start Mark, end int64, head Mark, strict bool, each func([]byte, int64, Mark) error) ([]damage, Mark, error) {
	x := &examiner{log: log, in: newLines(log, start.End, end), head: head, strict: strict, each: each,
		good: start, from: start.End, before: start}
	var found []damage
	for {
		s, line, err := x.read()
		if errors.Is(err, io.EOF) {
			return x.ending(found, end), x.good, nil
		}
		if err != nil {
			return nil, Mark{}, err
		}
		if x.fits(s) {
			if err := x.accept(s, line); err != nil {
				return nil, Mark{}, err
			}
			continue
		}
		d, err := x.resync(s, line)
		if err != nil {
			return nil, Mark{}, err
		}
		if d.tail {
			d.to = end
			return append(found, d), x.good, nil
		}
		pair(found, &d)
		found = append(found, d)
		if len(found) == maxFound {
			return found, x.good, nil
		}
	}
}

// pair finds the other half of lines that stand in the wrong place: there they were
// inserted, here they are removed, or the other way round.
func pair(found []damage, d *damage) {
	for i := range found {
		gone, there := &found[i], d
		if gone.kind == inserted {
			gone, there = there, gone
		}
		if gone.kind == removed && there.kind == inserted && gone.holds(there.strays) {
			gone.kind, there.kind = reordered, reordered
			gone.pair, there.pair = gone.first, gone.first
			return
		}
	}
}

// maxFound ends the search in a file that is no log at all.
const maxFound = 1000

// ending adds what has no newline at the end.
func (x *examiner) ending(found []damage, end int64) []damage {
	if x.good.Seq < x.head.Seq && !x.sound() {
		d := damage{first: x.good.Seq, last: x.good.Seq - 1, from: x.from, to: end, before: x.before.Hash, kind: garbled, tail: true, whole: true}
		x.good = x.before
		return append(found, d)
	}
	if x.in.off == end {
		return found
	}
	return append(found, damage{first: x.good.Seq + 1, last: x.good.Seq, from: x.in.off, to: end,
		before: x.good.Hash, kind: garbled, tail: true})
}

// sound says whether the last line that fits is an event. That shows where no line
// behind it proves it.
func (x *examiner) sound() bool {
	if x.good.Seq == 0 || x.from == x.good.End {
		return true // it was proven before
	}
	line := make([]byte, x.good.End-x.from-1)
	if _, err := x.log.ReadAt(line, x.from); err != nil {
		return false
	}
	_, err := Decode(line)
	return err == nil
}

// read is the next line; line is nil when it was read ahead.
func (x *examiner) read() (seen, []byte, error) {
	if s := x.ahead; s != nil {
		x.ahead = nil
		return *s, nil, nil
	}
	from := x.in.off
	line, err := x.in.next()
	if err != nil {
		return seen{}, nil, err
	}
	s := seen{from: from, to: x.in.off, hash: hash(line)}
	seq, prev, ok := frame(line)
	s.seq, s.prev, s.ok = seq, string(prev), ok
	switch {
	case ok && seq > x.head.Seq:
		// Maybe nothing else proves it: it must be an event.
		_, err = Decode(line)
		s.ok = err == nil
	case ok && x.strict:
		s.ok = json.Valid(line)
	}
	return s, line, nil
}

// peek is the line behind the one that was read, false at the end.
func (x *examiner) peek() (seen, bool, error) {
	if x.ahead == nil {
		s, _, err := x.read()
		if errors.Is(err, io.EOF) {
			return seen{}, false, nil
		}
		if err != nil {
			return seen{}, false, err
		}
		x.ahead = &s
	}
	return *x.ahead, true, nil
}

// fits says whether s is the line behind good.
func (x *examiner) fits(s seen) bool {
	if !s.ok || s.seq != x.good.Seq+1 {
		return false
	}
	return s.prev == x.good.Hash || x.quarantined(s.prev)
}

// quarantined says whether good stands for cut-out lines, the last of which had
// that hash.
func (x *examiner) quarantined(prev string) bool {
	if x.good.Seq == 0 {
		return false
	}
	line := make([]byte, x.good.End-x.from-1)
	if _, err := x.log.ReadAt(line, x.from); err != nil {
		return false
	}
	return stands(line, prev)
}

// stands says whether a line is a note in the place of one that had that hash.
func stands(line []byte, prev string) bool {
	if prev == "" || !isNote(line, noteQuarantined) {
		return false
	}
	n, err := readNote(line)
	return err == nil && n.Gap != nil && n.Gap.Hash == prev
}

func (x *examiner) accept(s seen, line []byte) error {
	x.before, x.good, x.from = x.good, Mark{Seq: s.seq, Hash: s.hash, End: s.to}, s.from
	if x.each == nil {
		return nil
	}
	if line == nil {
		line = make([]byte, s.to-s.from-1)
		if _, err := x.log.ReadAt(line, s.from); err != nil {
			return err
		}
	}
	return x.each(line, s.from, x.good)
}

// proven says whether z is whole, by the line behind it or the remembered head.
func (x *examiner) proven(z seen) (bool, error) {
	next, more, err := x.peek()
	switch {
	case err != nil || !z.ok:
		return false, err
	case more && next.ok && next.seq == z.seq+1 && next.prev == z.hash:
		return true, nil
	case x.head.Seq == z.seq:
		return x.head.Hash == z.hash, nil
	case z.seq == x.good.Seq+1 && z.prev == x.good.Hash:
		return true, nil
	}
	// Nothing behind the last line speaks for or against it. Where it disagrees with
	// the one before, that is the likelier one: there is more in it to change.
	return !more && z.seq > x.good.Seq && z.seq > x.head.Seq && (x.head.Seq == 0 || x.head != x.good), nil
}

// resync finds the next line behind s that is whole, and accepts it. s is the
// first that doesn't fit.
func (x *examiner) resync(s seen, line []byte) (damage, error) {
	x.strict = true
	if s.ok && line != nil {
		s.ok = json.Valid(line)
	}
	d := damage{first: x.good.Seq + 1, from: s.from, before: x.good.Hash, kind: garbled}
	// Where two lines disagree either may be the changed one.
	disagree := s.ok && s.seq == x.good.Seq+1
	fits := s.ok
	rotten := !x.sound()
	within := []int64{} // seqs of whole lines that are passed over
	passed := 0
	for z := s; ; passed++ {
		proven, err := x.proven(z)
		if err != nil {
			return d, err
		}
		if proven && z.seq > x.good.Seq && z.seq-x.good.Seq <= maxGap {
			x.close(&d, z, disagree || rotten, passed, within)
			return d, x.accept(z, nil)
		}
		if z.ok {
			within = append(within, z.seq)
		}
		z, _, err = x.read()
		if errors.Is(err, io.EOF) {
			if rotten {
				d.first, d.from, d.before = x.good.Seq, x.from, x.before.Hash
				x.good, fits = x.before, false
			}
			d.last = d.first - 1
			d.tail, d.whole, d.fits = true, true, fits
			return d, nil
		}
		if err != nil {
			return d, err
		}
	}
}

// maxGap is how many lines a gap may have: each gets one in its place.
const maxGap = 1 << 20

// close says what the damage is, once z is known to be the next whole line.
func (x *examiner) close(d *damage, z seen, disagree bool, passed int, within []int64) {
	d.last, d.to, d.hash = z.seq-1, z.from, z.prev
	if x.good.Seq > 0 && z.prev != x.good.Hash && (disagree || z.seq == d.first && !x.quarantined(z.prev)) {
		d.first, d.from, d.before = x.good.Seq, x.from, x.before.Hash
		passed++
		within = append([]int64{x.good.Seq}, within...)
	}
	d.strays = within
	missing := d.last - d.first + 1
	switch {
	case passed == 0:
		d.kind = removed
	case missing == 0:
		d.kind = inserted
	case d.holds(within) && !slices.IsSorted(within):
		d.kind = reordered
	case int64(passed) == missing && (passed == len(within) || missing == 1):
		d.kind = changed
	}
}

// holds says whether seqs are just the lines of d, in whichever order.
func (d damage) holds(seqs []int64) bool {
	if int64(len(seqs)) != d.last-d.first+1 {
		return false
	}
	for i, seq := range slices.Sorted(slices.Values(seqs)) {
		if seq != d.first+int64(i) {
			return false
		}
	}
	return true
}
