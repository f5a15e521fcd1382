package suite

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// event is a line of go test -json (go doc test2json), or of its build.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of a build
	Test        string
	Elapsed     float64 // seconds
	Output      string
	Key, Value  string // of an attr
	FailedBuild string
}

// Count is how many tests ended how.
type Count struct{ Passed, Failed, Skipped int }

// String is the line that people and CI read.
func (c Count) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.Passed, c.Failed, c.Skipped)
}

func (c *Count) add(o Count) {
	c.Passed += o.Passed
	c.Failed += o.Failed
	c.Skipped += o.Skipped
}

// Finding is something a test wants written down.
type Finding struct{ Package, Test, Key, Value string }

// reader turns events into lines for a person, and counts.
type reader struct {
	out      io.Writer
	say      func(string) // what runs now
	packages map[string]*pkg
	builds   map[string]*strings.Builder // what compilers said
	count    Count
	skips    []string
	findings []Finding
}

// pkg is what is known of a package under way.
type pkg struct {
	tests  map[string]*test
	order  []string
	output bytes.Buffer // outside of tests
}

type test struct {
	action string // pass, fail, skip, or run while it runs
	parent bool   // has subtests, which are counted in its place
	output bytes.Buffer
}

func newReader(out io.Writer, say func(string)) *reader {
	return &reader{out: out, say: say, packages: map[string]*pkg{}, builds: map[string]*strings.Builder{}}
}

// read reads events to their end.
func (r *reader) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				fmt.Fprintf(r.out, "%s", line) // go itself says something
			} else {
				r.take(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *reader) take(e event) {
	if e.ImportPath != "" {
		if r.builds[e.ImportPath] == nil {
			r.builds[e.ImportPath] = &strings.Builder{}
		}
		r.builds[e.ImportPath].WriteString(e.Output)
		return
	}
	p := r.packages[e.Package]
	if p == nil {
		p = &pkg{tests: map[string]*test{}}
		r.packages[e.Package] = p
	}
	if e.Test == "" {
		switch e.Action {
		case "output":
			p.output.WriteString(e.Output)
		case "pass", "fail", "skip":
			r.end(e, p)
			delete(r.packages, e.Package)
		}
		return
	}
	t := p.tests[e.Test]
	if t == nil {
		t = &test{}
		p.tests[e.Test] = t
		p.order = append(p.order, e.Test)
	}
	switch e.Action {
	case "run":
		t.action = "run"
		if i := strings.LastIndexByte(e.Test, '/'); i > 0 && p.tests[e.Test[:i]] != nil {
			p.tests[e.Test[:i]].parent = true
		}
		r.say(strings.TrimPrefix(e.Package, "gurtos/") + " " + e.Test)
	case "output":
		t.output.WriteString(e.Output)
	case "attr":
		r.findings = append(r.findings, Finding{e.Package, e.Test, e.Key, e.Value})
	case "pass", "fail", "skip":
		t.action = e.Action
	}
}

// end counts and prints a package that has ended.
func (r *reader) end(e event, p *pkg) {
	var c Count
	var bad []string
	for _, name := range p.order {
		switch t := p.tests[name]; {
		case t.action == "skip" && !t.parent:
			c.Skipped++
			r.skips = append(r.skips, e.Package+" "+name+": "+reason(t.output.String()))
		case t.action == "fail" && t.parent && failedBelow(p, name): // told by its subtests
		case t.action == "fail", t.action == "run": // ended in the middle of it
			c.Failed++
			bad = append(bad, name)
		case t.parent:
		default:
			c.Passed++
		}
	}
	if e.Action == "fail" && c.Failed == 0 {
		c.Failed++
		bad = append(bad, "")
	}
	r.count.add(c)
	mark := "ok  "
	if e.Action == "fail" {
		mark = "FAIL"
	}
	if len(p.order) > 0 || e.Action == "fail" {
		fmt.Fprintf(r.out, "%s %-40s %6.1f s  %v\n", mark, e.Package, e.Elapsed, c)
	}
	for _, name := range bad {
		r.fail(e, p, name)
	}
}

func (r *reader) fail(e event, p *pkg, name string) {
	text := p.output.String()
	if name != "" {
		text = p.tests[name].output.String()
		if p.tests[name].action == "run" {
			text += p.output.String() // a panic or a time-out is told outside
		}
	}
	if b := r.builds[e.FailedBuild]; b != nil {
		text = b.String()
	}
	fmt.Fprintf(r.out, "  --- %s\n", strings.TrimSpace(e.Package+" "+name))
	for line := range strings.Lines(text) {
		fmt.Fprintf(r.out, "  | %s\n", strings.TrimRight(line, "\n"))
	}
}

func failedBelow(p *pkg, name string) bool {
	return slices.ContainsFunc(p.order, func(n string) bool {
		return strings.HasPrefix(n, name+"/") && (p.tests[n].action == "fail" || p.tests[n].action == "run")
	})
}

// reason is what a test said last when it skipped itself: `    file_test.go:12: why`.
func reason(output string) string {
	why := "it doesn't say why"
	for line := range strings.Lines(output) {
		if _, at, ok := strings.Cut(line, "_test.go:"); ok {
			if _, said, ok := strings.Cut(at, ": "); ok {
				why = strings.TrimSpace(said)
			}
		}
	}
	return why
}
