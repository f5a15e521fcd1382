package layers

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// context is how many like lines stand around a difference.
const contextLines = 3

// unified writes the hunks that turn a into b, as diff -u does. Lines end with
// "\n"; a last line without one is marked.
func unified(out *bytes.Buffer, a, b []byte) {
	x, y := splitLines(a), splitLines(b)
	same := matches(x, y)
	same = append(same, run{len(x), len(y), 0}) // the end, so that what follows the last run is seen

	// An edit replaces x[i:i2] by y[j:j2]; edits closer than twice the context
	// share a hunk.
	type edit struct{ i, i2, j, j2 int }
	var edits []edit
	i, j := 0, 0
	for _, r := range same {
		if i < r.x || j < r.y {
			edits = append(edits, edit{i, r.x, j, r.y})
		}
		i, j = r.x+r.n, r.y+r.n
	}
	for len(edits) > 0 {
		n := 1
		for n < len(edits) && edits[n].i-edits[n-1].i2 <= 2*contextLines {
			n++
		}
		hunk := edits[:n]
		edits = edits[n:]
		from := max(0, hunk[0].i-contextLines)
		to := min(len(x), hunk[n-1].i2+contextLines)
		fromY := hunk[0].j - (hunk[0].i - from)
		toY := hunk[n-1].j2 + (to - hunk[n-1].i2)
		fmt.Fprintf(out, "@@ -%s +%s @@\n", hunkRange(from, to), hunkRange(fromY, toY))
		at := from
		for _, e := range hunk {
			writeLines(out, ' ', x[at:e.i])
			writeLines(out, '-', x[e.i:e.i2])
			writeLines(out, '+', y[e.j:e.j2])
			at = e.i2
		}
		writeLines(out, ' ', x[at:to])
	}
}

func hunkRange(from, to int) string {
	switch to - from {
	case 0:
		return strconv.Itoa(from) + ",0"
	case 1:
		return strconv.Itoa(from + 1)
	}
	return strconv.Itoa(from+1) + "," + strconv.Itoa(to-from)
}

func writeLines(out *bytes.Buffer, mark byte, lines []string) {
	for _, l := range lines {
		out.WriteByte(mark)
		out.WriteString(l)
		if !strings.HasSuffix(l, "\n") {
			out.WriteString("\n\\ No newline at end of file\n")
		}
	}
}

func splitLines(b []byte) []string {
	if len(b) == 0 {
		return nil
	}
	lines := strings.SplitAfter(string(b), "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// A run is n lines that x from x and y from y have in common.
type run struct{ x, y, n int }

// matches finds a common subsequence of lines as runs in order. It is the longest
// where a text differs little; where it differs much, lines that are unique in
// both are taken as fixed points first (patience diff), which keeps the time
// near linear.
func matches(x, y []string) []run {
	ids := map[string]int{}
	number := func(lines []string) []int {
		n := make([]int, len(lines))
		for i, l := range lines {
			id, ok := ids[l]
			if !ok {
				id = len(ids)
				ids[l] = id
			}
			n[i] = id
		}
		return n
	}
	m := matcher{x: number(x), y: number(y)}
	m.lines(0, len(x), 0, len(y))
	return m.runs
}

type matcher struct {
	x, y []int
	runs []run
}

func (m *matcher) add(x, y, n int) {
	if n == 0 {
		return
	}
	if k := len(m.runs) - 1; k >= 0 && m.runs[k].x+m.runs[k].n == x && m.runs[k].y+m.runs[k].n == y {
		m.runs[k].n += n
		return
	}
	m.runs = append(m.runs, run{x, y, n})
}

// lines matches x[i:i2] with y[j:j2].
func (m *matcher) lines(i, i2, j, j2 int) {
	n := 0
	for i+n < i2 && j+n < j2 && m.x[i+n] == m.y[j+n] {
		n++
	}
	m.add(i, j, n)
	i, j = i+n, j+n
	tail := 0
	for i2-tail > i && j2-tail > j && m.x[i2-tail-1] == m.y[j2-tail-1] {
		tail++
	}
	i2, j2 = i2-tail, j2-tail
	if i < i2 && j < j2 && !m.shortest(i, i2, j, j2) {
		for _, a := range m.anchors(i, i2, j, j2) {
			if a.x < i || a.y < j {
				continue // already matched by the common start of a part before
			}
			m.lines(i, a.x, j, a.y)
			m.add(a.x, a.y, 1)
			i, j = a.x+1, a.y+1
		}
		// Without a fixed point the rest is taken as replaced.
		if k := m.commonStart(i, i2, j, j2); k > 0 {
			m.add(i, j, k)
		}
	}
	m.add(i2, j2, tail)
}

func (m *matcher) commonStart(i, i2, j, j2 int) int {
	n := 0
	for i+n < i2 && j+n < j2 && m.x[i+n] == m.y[j+n] {
		n++
	}
	return n
}

// maxEdits is how many differing lines the exact search looks through.
const maxEdits = 400

// shortest finds the longest common subsequence by Myers's greedy search, if
// there are at most maxEdits differences.
func (m *matcher) shortest(i, i2, j, j2 int) bool {
	x, y := m.x[i:i2], m.y[j:j2]
	limit := min(maxEdits, len(x)+len(y))
	v := make([]int, 2*limit+2) // furthest x on each diagonal
	var trace [][]int
	off := limit
	for d := 0; d <= limit; d++ {
		trace = append(trace, slices.Clone(v[off-d:off+d+2]))
		for k := -d; k <= d; k += 2 {
			var p int
			if k == -d || k != d && v[off+k-1] < v[off+k+1] {
				p = v[off+k+1]
			} else {
				p = v[off+k-1] + 1
			}
			q := p - k
			for p < len(x) && q < len(y) && x[p] == y[q] {
				p, q = p+1, q+1
			}
			v[off+k] = p
			if p >= len(x) && q >= len(y) {
				m.back(trace, d, i, j, len(x), len(y))
				return true
			}
		}
	}
	return false
}

// back follows the search from its end to its start.
func (m *matcher) back(trace [][]int, d, i, j, p, q int) {
	var runs []run
	for ; d > 0; d-- {
		v := trace[d] // before step d: diagonals -d to d+1, from index 0
		k := p - q
		var prev int
		if k == -d || k != d && v[d+k-1] < v[d+k+1] {
			prev = k + 1
		} else {
			prev = k - 1
		}
		pp := v[d+prev]
		pq := pp - prev
		n := min(p-pp, q-pq)
		runs = append(runs, run{p - n, q - n, n})
		p, q = pp, pq
	}
	runs = append(runs, run{0, 0, p})
	for _, r := range slices.Backward(runs) {
		m.add(i+r.x, j+r.y, r.n)
	}
}

// anchors gives the lines that stand exactly once on both sides, as far as they
// are in the same order.
func (m *matcher) anchors(i, i2, j, j2 int) []run {
	type seen struct{ nx, ny, x, y int }
	at := map[int]*seen{}
	for p := i; p < i2; p++ {
		s := at[m.x[p]]
		if s == nil {
			s = &seen{}
			at[m.x[p]] = s
		}
		s.nx++
		s.x = p
	}
	for q := j; q < j2; q++ {
		if s := at[m.y[q]]; s != nil {
			s.ny++
			s.y = q
		}
	}
	var all []run
	for p := i; p < i2; p++ {
		if s := at[m.x[p]]; s.nx == 1 && s.ny == 1 {
			all = append(all, run{s.x, s.y, 1})
		}
	}
	// The longest increasing sequence of y.
	var ends []int // indexes into all: the smallest end of a sequence of each length
	prev := make([]int, len(all))
	for k, r := range all {
		n, _ := slices.BinarySearchFunc(ends, r.y, func(e, y int) int { return all[e].y - y })
		prev[k] = -1
		if n > 0 {
			prev[k] = ends[n-1]
		}
		if n == len(ends) {
			ends = append(ends, k)
		} else {
			ends[n] = k
		}
	}
	var out []run
	if len(ends) > 0 {
		for k := ends[len(ends)-1]; k >= 0; k = prev[k] {
			out = append(out, all[k])
		}
	}
	slices.Reverse(out)
	return out
}
