package suite

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// A goal holds two figures of one run against each other, or one against a number.
type goal struct {
	says     string   // what is wanted
	of, to   figureOf // without to, the figure itself is judged
	most     float64  // of may be at most this part of to; negative: it must be at least so much
	why      string   // where the time goes when it is missed
	wildcard bool     // of and to stand for each row that begins with theirs
}

// figureOf names a figure of a row: `p50 ms` stands for `p50 3.6 ms`, `MB/s` for `2690 MB/s`. A name alone is a time in milliseconds.
type figureOf struct{ row, figure string }

// goals are those that the box has set itself, in the order in which they are told.
var goals = []goal{
	{says: "a sandbox made when it is asked for takes at most 0.65 of runc 1.5.3's time", of: figureOf{"Sandbox/at-once=1/gurtos-cold", "p50"},
		to: figureOf{"Sandbox/at-once=1/runc-1.5.3-equal", "p50"}, most: 0.65, why: libcontainerWhy},
	{says: "and no more than crun's", of: figureOf{"Sandbox/at-once=1/gurtos-cold", "p50"}, to: figureOf{"Sandbox/at-once=1/crun-equal", "p50"}, most: 1, why: libcontainerWhy},
	{says: "one from the pool takes no more than bubblewrap", of: figureOf{"Sandbox/at-once=1/gurtos-warm", "p50"}, to: figureOf{"Sandbox/at-once=1/bubblewrap-equal", "p50"}, most: 1,
		why: "the two overlays, the filter and the end of its control group"},
	{says: "one writer's lines are on disk sooner than SQLite's", of: appends(1, "gurtos"), to: appends(1, "sqlite"), most: -1, why: appendWhy},
	{says: "and than bbolt's", of: appends(1, "gurtos"), to: appends(1, "bbolt"), most: -1, why: appendWhy},
	{says: "those of 8 writers sooner than SQLite's", of: appends(8, "gurtos"), to: appends(8, "sqlite"), most: -1, why: appendWhy},
	{says: "and than bbolt's", of: appends(8, "gurtos"), to: appends(8, "bbolt"), most: -1, why: appendWhy},
	{says: "those of 64 writers sooner than SQLite's", of: appends(64, "gurtos"), to: appends(64, "sqlite"), most: -1, why: appendWhy},
	{says: "and than bbolt's", of: appends(64, "gurtos"), to: appends(64, "bbolt"), most: -1, why: appendWhy},
	{says: "over a link of 1 Gbit/s a task gets at least 0.95 of a direct connection", of: figureOf{"Network/1-Gbit/gurtos", "Mbit/s"}, to: figureOf{"Network/1-Gbit/direct", "Mbit/s"}, most: -0.95, why: relayWhy},
	{says: "without a limit it takes at most twice the processor time of a direct connection", of: figureOf{"Network/unshaped/gurtos", "cpu s/GB"}, to: figureOf{"Network/unshaped/direct", "cpu s/GB"}, most: 2, why: relayWhy},
	{says: "and less than squid's", of: figureOf{"Network/unshaped/gurtos", "cpu s/GB"}, to: figureOf{"Network/unshaped/squid", "cpu s/GB"}, most: 1, why: relayWhy},
	{says: "it is faster than squid", of: figureOf{"Network/unshaped/gurtos", "MB/s"}, to: figureOf{"Network/unshaped/squid", "MB/s"}, most: -1, why: relayWhy},
	{says: "than mitmproxy", of: figureOf{"Network/unshaped/gurtos", "MB/s"}, to: figureOf{"Network/unshaped/mitmproxy", "MB/s"}, most: -1, why: relayWhy},
	{says: "and than tinyproxy", of: figureOf{"Network/unshaped/gurtos", "MB/s"}, to: figureOf{"Network/unshaped/tinyproxy", "MB/s"}, most: -1, why: relayWhy},
	{says: "a call of an app's tool takes at most 1.5 times that of a plain Node child over stdio", of: figureOf{"AppCall", "p50 times-plain"}, most: 1.5, why: callWhy},
	{says: "a saved file is in its app's page within a second", of: figureOf{"AppReload", "p50 ms"}, most: 1000, why: "the app is read in a sandbox of its own, and its process is started anew"},
	{says: "ten apps take at most 150 MB together", of: figureOf{"AppMemory", "PSS MB"}, most: 150, why: "ten processes of Node"},
	{says: "file work over one layer is at least 0.9 as fast as on the bare file system", of: figureOf{"Files/", "bare"}, to: figureOf{"Files/", "layer"}, wildcard: true, most: -0.9, why: overlayWhy},
	{says: "and over 100 layers", of: figureOf{"Files/", "bare"}, to: figureOf{"Files/", "layers100"}, wildcard: true, most: -0.9, why: overlayWhy},
}

func appends(writers int, peer string) figureOf {
	return figureOf{fmt.Sprintf("Appends/writers=%d/%s", writers, peer), "appends/s"}
}

const (
	libcontainerWhy = "half of it is libcontainer: three stages, the Go runtime of the second program, files of state (docs/decisions/sandbox.md)"
	appendWhy       = "the wait for the disk, which all peers share"
	relayWhy        = "the connection is taken in the box's namespace and dialled anew outside"
	callWhy         = "a socket where the child has a pipe, the sandbox's filter at each system call, and a reader beside the callers"
	overlayWhy      = "overlayfs itself: it opens two files for one and asks two file systems; filter and Landlock take a twentieth (docs/decisions/sandbox.md)"
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
			to, ok2 := 1.0, true
			if g.to.figure != "" {
				to, ok2 = read(rows, p[1], g.to.figure)
			}
			if !ok1 || !ok2 || to == 0 {
				continue
			}
			part, met := of/to, of/to <= g.most
			if g.most < 0 { // at least
				met = part >= -g.most
			}
			measured := fmt.Sprintf("%.2f", part)
			if _, unit, _ := strings.Cut(g.of.figure, " "); g.to.figure == "" && (unit == "ms" || unit == "MB") {
				measured += " " + unit // and no part of anything
			}
			what, verdict := g.says, "met"
			if g.wildcard {
				what += " (" + strings.TrimPrefix(p[0], g.of.row) + ")"
			}
			if !met {
				verdict = "missed: " + g.why
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", what, measured, verdict)
		}
	}
	if b.Len() == 0 {
		return nil
	}
	return append([]byte("\n## Goals\n\n| goal | measured | |\n|---|---|---|\n"), b.Bytes()...)
}

// read finds a figure such as `p50 3.6 ms` in a row.
func read(rows []Row, what, figure string) (float64, bool) {
	name, unit, two := strings.Cut(figure, " ")
	switch {
	case two:
	case strings.Contains(figure, "/"):
		name, unit = "", figure
	default:
		unit = "ms"
	}
	for _, r := range rows {
		if r.What != what {
			continue
		}
		for f := range strings.SplitSeq(r.Figures, " · ") {
			w := strings.Fields(f)
			if len(w) == 2 {
				w = append([]string{""}, w...)
			}
			if len(w) == 3 && w[0] == name && w[2] == unit {
				v, err := strconv.ParseFloat(w[1], 64)
				return v, err == nil
			}
		}
	}
	return 0, false
}
