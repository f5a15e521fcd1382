package suite

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// A goal holds two figures of one run against each other.
type goal struct {
	says     string // what is wanted
	of, to   figureOf
	most     float64 // of may be at most this part of to
	why      string  // where the time goes when it is missed
	wildcard bool    // of and to stand for each row that begins with theirs
}

// figureOf names a figure of a row.
type figureOf struct{ row, figure string }

// goals are those that the box has set itself, in the order in which they are told.
var goals = []goal{
	{says: "a sandbox made when it is asked for takes at most 0.65 of runc 1.5.3's time", of: figureOf{"Sandbox/at-once=1/gurtos-cold", "p50"},
		to: figureOf{"Sandbox/at-once=1/runc-1.5.3-equal", "p50"}, most: 0.65, why: libcontainerWhy},
	{says: "and no more than crun's", of: figureOf{"Sandbox/at-once=1/gurtos-cold", "p50"}, to: figureOf{"Sandbox/at-once=1/crun-equal", "p50"}, most: 1, why: libcontainerWhy},
	{says: "one from the pool takes no more than bubblewrap", of: figureOf{"Sandbox/at-once=1/gurtos-warm", "p50"}, to: figureOf{"Sandbox/at-once=1/bubblewrap-equal", "p50"}, most: 1,
		why: "the two overlays, the filter and the end of its control group"},
	{says: "file work over one layer is at least 0.9 as fast as on the bare file system", of: figureOf{"Files/", "bare"}, to: figureOf{"Files/", "layer"}, wildcard: true, most: -0.9, why: overlayWhy},
	{says: "and over 100 layers", of: figureOf{"Files/", "bare"}, to: figureOf{"Files/", "layers100"}, wildcard: true, most: -0.9, why: overlayWhy},
}

const (
	libcontainerWhy = "half of it is libcontainer: three stages, the Go runtime of the second program, files of state (docs/decisions/sandbox.md)"
	overlayWhy      = "overlayfs looks each path up in itself and in the layer, and the filter is asked at each call"
)

// judged writes what became of the goals, nothing where a run left their figures out.
func judged(rows []Row) []byte {
	var b bytes.Buffer
	for _, g := range goals {
		var pairs [][2]string
		if !g.wildcard {
			pairs = append(pairs, [2]string{g.of.row, g.to.row})
		} else {
			for _, r := range rows {
				if strings.HasPrefix(r.What, g.of.row) {
					pairs = append(pairs, [2]string{r.What, r.What})
				}
			}
		}
		for _, p := range pairs {
			of, ok1 := read(rows, p[0], g.of.figure)
			to, ok2 := read(rows, p[1], g.to.figure)
			if !ok1 || !ok2 || to == 0 {
				continue
			}
			part, met := of/to, of/to <= g.most
			if g.most < 0 { // at least
				met = part >= -g.most
			}
			what, verdict := g.says, "met"
			if g.wildcard {
				what += " (" + strings.TrimPrefix(p[0], g.of.row) + ")"
			}
			if !met {
				verdict = "missed: " + g.why
			}
			fmt.Fprintf(&b, "| %s | %.2f | %s |\n", what, part, verdict)
		}
	}
	if b.Len() == 0 {
		return nil
	}
	return append([]byte("\n## Goals\n\n| goal | measured | |\n|---|---|---|\n"), b.Bytes()...)
}

// read finds a figure such as `p50 3.6 ms` in a row.
func read(rows []Row, what, name string) (float64, bool) {
	for _, r := range rows {
		if r.What != what {
			continue
		}
		for f := range strings.SplitSeq(r.Figures, " · ") {
			if w := strings.Fields(f); len(w) == 3 && w[0] == name && w[2] == "ms" {
				v, err := strconv.ParseFloat(w[1], 64)
				return v, err == nil
			}
		}
	}
	return 0, false
}
