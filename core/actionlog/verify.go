package actionlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gurtos/core/durable"
)

// Report is what Verify found. It prints as sentences.
type Report struct {
	Lines      int64  // whole lines, up to the end
	Head       Mark   // the last of them
	Running    bool   // a boxd has the log open
	Unfinished int64  // bytes of an unfinished line behind the last
	Journaled  int64  // of them, those that log.commit has and the next start puts back
	Faults     []Gap  // lines that are not what was written
	Kinds      []Kind // of Faults, one each
	Known      []Gap  // gaps that the log itself vouches for
	Cuts       []Cut  // tails that were cut at a start, as the log says
}

// Kind says what is wrong with the lines of a fault.
type Kind string

// The kinds of faults.
const (
	Changed   Kind = changed
	Removed   Kind = removed
	Reordered Kind = reordered
	Inserted  Kind = inserted
	Garbled   Kind = garbled
	CutOff    Kind = "cut off"   // the end is gone
	Rewritten Kind = "rewritten" // whole, but not what was remembered
	Unproven  Kind = "unproven"  // says that it stands for a known gap, and nothing vouches for it
)

// OK says whether every line is as it was written or in a known gap.
func (r Report) OK() bool { return len(r.Faults) == 0 }

// String is the report in sentences, one a line.
func (r Report) String() string {
	var b strings.Builder
	for i, f := range r.Faults {
		fmt.Fprintln(&b, faultSentence(r.Kinds[i], f))
	}
	for _, g := range r.Known {
		fmt.Fprintf(&b, "Known gap: %s cut out as damaged; %d bytes with SHA-256 %s%s.\n", lineWords(g.First, g.Last, "was", "were"), g.Bytes, g.SHA256, keptWords(g.File))
	}
	for _, c := range r.Cuts {
		fmt.Fprintf(&b, "Known cut: at a start %d bytes from line %d on were cut off the end%s", c.Bytes, c.Line, keptWords(c.File))
		if c.Lost > 0 {
			fmt.Fprintf(&b, "; %s had been on the disk and %s lost", count(c.Lost, "line"), be(c.Lost))
		}
		b.WriteString(".\n")
	}
	if r.Journaled > 0 {
		fmt.Fprintf(&b, "The power went before the log had them: the last %s stand in %s, and the next start puts them back.\n", count(r.Journaled, "line"), journalName)
	}
	if r.Unfinished > 0 && r.Running {
		fmt.Fprintf(&b, "Behind line %d the box is writing.\n", r.Lines)
	} else if r.Unfinished > 0 {
		fmt.Fprintf(&b, "Behind line %d %s %s of an unfinished line, which the next start cuts off.\n", r.Lines, be(r.Unfinished), count(r.Unfinished, "byte"))
	}
	if r.OK() && r.Lines == 0 {
		b.WriteString("There is nothing in the log: boxd has written no line yet, or all were taken out together with what it keeps beside the log. " +
			"An end of the log that was written down, as --head LINE:HASH, tells which.\n")
	} else if r.OK() {
		fmt.Fprintf(&b, "The log is whole: %s, the last has the hash %s.\n", count(r.Lines, "line"), r.Head.Hash)
	} else {
		fmt.Fprintf(&b, "The log is not whole: %s in %s.\n", count(int64(len(r.Faults)), "fault"), count(r.Lines, "line"))
	}
	return b.String()
}

func faultSentence(kind Kind, f Gap) string {
	lines := lineWords(f.First, f.Last, "is", "are")
	was := lineWords(f.First, f.Last, "was", "were")
	switch kind {
	case Inserted:
		return fmt.Sprintf("Before line %d something was inserted: %s.", f.First, count(f.Bytes, "byte"))
	case Removed:
		return upper(was) + " removed."
	case CutOff:
		return upper(was) + " cut off the end of the log."
	case Rewritten:
		return fmt.Sprintf("Line %d and those around it were written anew: its hash was %s.", f.First, f.Hash)
	case Reordered:
		return upper(lines) + " not in the order in which they were written."
	case Changed:
		return upper(was) + " changed."
	case Unproven:
		return upper(lines) + " said to stand for lines that were cut out, but no later line vouches for that."
	}
	return upper(lines) + " damaged."
}

func lineWords(first, last int64, one, many string) string {
	if last <= first {
		return fmt.Sprintf("line %d %s", first, one)
	}
	return fmt.Sprintf("lines %d to %d %s", first, last, many)
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func keptWords(file string) string {
	if file == "" {
		return ""
	}
	return ", kept in " + file
}

func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func be(n int64) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// Verify reads the whole log of the box in dir and checks every line, whether
// boxd runs or not. known are heads that somebody wrote down, as the portal and
// the shutdown show them (Seq and Hash): the log must still have them.
func Verify(dir string, known ...Mark) (Report, error) {
	r, err := verify(dir, known)
	if err != nil {
		return Report{}, fmt.Errorf("verify %s: %w", filepath.Join(dir, logName), err)
	}
	return r, nil
}

func verify(dir string, known []Mark) (Report, error) {
	// The head first: whatever it remembers was in the log before it was read.
	was, err := recall(durable.Disk, dir)
	if err != nil {
		return Report{}, err
	}
	f, err := os.Open(filepath.Join(dir, logName))
	if err != nil {
		return Report{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Report{}, err
	}
	head := was.head
	log, size := was.overlay(f, info.Size())
	if err := checkFormat(log, size); err != nil {
		return Report{}, err
	}
	v := verifier{stand: map[int64]Gap{}, half: map[int64]damage{}, head: head}
	if head.Seq > 0 {
		v.known = append(v.known, head)
	}
	for _, m := range known {
		v.known = append(v.known, Mark{Seq: m.Seq, Hash: m.Hash})
	}
	v.have = make([]string, len(v.known))
	found, good, err := examine(log, Mark{}, size, head, true, v.line)
	if err != nil {
		return Report{}, err
	}
	if o, ok := log.(*overlay); ok {
		if lacks, err := o.differs(); err == nil && lacks {
			v.report.Journaled = int64(bytes.Count(o.lines, []byte("\n")))
		}
	}
	running, err := durable.Locked(f)
	v.report.Lines, v.report.Head, v.report.Running = good.Seq, good, running
	for _, d := range found {
		v.damage(log, d)
	}
	v.close()
	return v.report, errors.Join(err, v.err)
}

// verifier gathers a report while lines go by.
type verifier struct {
	report Report
	head   Mark
	known  []Mark
	have   []string // hash of the line of each known
	excuse []Mark   // remembered heads that a cut explains
	stand  map[int64]Gap
	half   map[int64]damage // first halves of lines in the wrong place, by pair
	err    error
}

func (v *verifier) line(line []byte, _ int64, m Mark) error {
	for i, k := range v.known {
		if k.Seq == m.Seq {
			v.have[i] = m.Hash
			if stands(line, k.Hash) {
				v.have[i] = k.Hash
			}
		}
	}
	switch {
	case isNote(line, noteQuarantined):
		if n, err := readNote(line); err == nil && n.Gap != nil {
			v.stand[m.Seq] = *n.Gap
		}
	case isNote(line, noteQuarantine):
		if n, err := readNote(line); err == nil {
			v.vouch(n.Gaps)
		}
	case isNote(line, noteCut):
		if n, err := readNote(line); err == nil && n.Cut != nil {
			v.report.Cuts = append(v.report.Cuts, *n.Cut)
			v.excuse = append(v.excuse, n.Cut.Head)
		}
	}
	return nil
}

// vouch takes the gaps that a later note names out of those that stand alone.
func (v *verifier) vouch(gaps []Gap) {
	for _, g := range gaps {
		for seq := g.First; seq <= g.Last; seq++ {
			if v.stand[seq] == g {
				delete(v.stand, seq)
			}
		}
		v.report.Known = append(v.report.Known, g)
	}
}

func (v *verifier) damage(log io.ReaderAt, d damage) {
	if d.tail && d.first > v.head.Seq && !d.fits {
		v.report.Unfinished = d.to - d.from
		return
	}
	if d.tail && !d.whole {
		return // cut off in a line, which close tells
	}
	if d.tail {
		d.last = d.first
	}
	if d.pair > 0 && v.halves(&d) {
		return
	}
	sum, err := rangeHash(log, d.from, d.to)
	v.err = errors.Join(v.err, err)
	v.fault(Kind(d.kind), Gap{First: d.first, Last: d.last, Bytes: d.to - d.from, SHA256: sum, Hash: d.hash})
}

// halves makes one fault of lines that are missing here and stand there: it keeps
// the first half, and widens the second by it.
func (v *verifier) halves(d *damage) bool {
	half, second := v.half[d.pair]
	if !second {
		v.half[d.pair] = *d
		return true
	}
	d.first, d.last = min(d.first, half.first), max(d.last, half.last)
	return false
}

func (v *verifier) fault(k Kind, g Gap) {
	v.report.Faults = append(v.report.Faults, g)
	v.report.Kinds = append(v.report.Kinds, k)
}

// close tells what shows only at the end.
func (v *verifier) close() {
	r := &v.report
	for _, g := range v.stand {
		if len(r.Faults) < maxFound {
			v.fault(Unproven, g)
		}
	}
	cut := int64(0)
	for i, k := range v.known {
		switch {
		case v.have[i] == k.Hash || v.excused(k):
		case k.Seq > r.Lines:
			cut = max(cut, k.Seq)
		case !v.in(k.Seq):
			kind := Rewritten
			if k.Seq == r.Lines {
				kind = Changed
			}
			v.fault(kind, Gap{First: k.Seq, Last: k.Seq, Hash: k.Hash})
		}
	}
	if cut > 0 && !v.in(r.Lines+1) {
		v.fault(CutOff, Gap{First: r.Lines + 1, Last: cut})
	}
}

// excused says whether a note tells that the end that was remembered is lost.
func (v *verifier) excused(m Mark) bool {
	for _, e := range v.excuse {
		if e.Seq >= m.Seq && e.Seq > 0 && (e.Seq != m.Seq || e.Hash == m.Hash) && v.lost(m.Seq) {
			return true
		}
	}
	return false
}

func (v *verifier) lost(seq int64) bool {
	for _, c := range v.report.Cuts {
		if c.Lost > 0 && seq >= c.Line && seq < c.Line+c.Lost {
			return true
		}
	}
	return false
}

// in says whether a line is in a fault or gap that was told already.
func (v *verifier) in(seq int64) bool {
	for _, list := range [][]Gap{v.report.Faults, v.report.Known} {
		for _, g := range list {
			if g.First <= seq && seq <= g.Last {
				return true
			}
		}
	}
	return false
}
