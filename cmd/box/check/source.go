package check

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gurtos/core/app/declare"
	"gurtos/netpolicy/rules"
)

var (
	readsKey = regexp.MustCompile(`\b(\w+)\.secret\(\s*(?:(['"` + "`" + `])([A-Z][A-Z0-9_]*)['"` + "`" + `]|(\w+))\s*\)`)
	constant = regexp.MustCompile(`\bconst\s+(\w+)\s*(?::[^=]+)?=\s*['"]([A-Z][A-Z0-9_]*)['"]`)
	comment  = regexp.MustCompile(`(^|\s)//.*$`)
	address  = regexp.MustCompile(`['"` + "`" + `](https?)://([^/'"` + "`" + `\s$?#:@]+)(?::([0-9]+))?`)
)

// read looks for what the app does in its sources and does not declare. Only plain
// spellings are found: what is worked out while it runs, the box finds then.
func (r *Report) read(src *declare.Source) {
	if r.Declared == nil {
		return
	}
	if r.Declared.Description == "" {
		r.add("track.ts", 0, "description: App Center has nothing to show; give it one, or a README.md with a paragraph")
	}
	app := r.Declared
	inCalls := map[string]bool{}
	for _, t := range app.Tools {
		for _, k := range t.Secrets {
			inCalls[k] = true
		}
	}
	for _, j := range app.Jobs {
		for _, k := range j.Secrets {
			inCalls[k] = true
		}
	}
	hosts, err := rules.ParseList(app.DeclaredHosts())
	for _, f := range src.Files {
		if !f.Script() || strings.HasSuffix(f.Path, ".test.ts") || f.Path == "demo.ts" {
			continue
		}
		text := string(f.Text)
		for _, t := range tasks(text) {
			switch t.worker {
			case "":
				r.note(f.Path, t.line, "this task names no worker, and %s, which it then has, is not in this build: the box will refuse it. The one that is there is fake: give it worker: 'fake'", absent)
			case "'" + absent + "'", `"` + absent + `"`, "`" + absent + "`":
				r.note(f.Path, t.line, "this task's worker, %s, is not in this build: the box will refuse it. The one that is there is fake: give it worker: 'fake'", absent)
			}
		}
		named := map[string]string{}
		for _, m := range constant.FindAllStringSubmatch(text, -1) {
			named[m[1]] = m[2]
		}
		for n, line := range slices.Collect(strings.Lines(text)) {
			if c := strings.TrimSpace(line); strings.HasPrefix(c, "*") || strings.HasPrefix(c, "/*") {
				continue
			}
			line = comment.ReplaceAllString(strings.TrimRight(line, "\r\n"), "")
			for _, m := range readsKey.FindAllStringSubmatch(line, -1) {
				key := m[3]
				if key == "" {
					key = named[m[4]]
				}
				switch {
				case key == "":
				case m[1] == "ctx" && !inCalls[key]:
					r.add(f.Path, n+1, "ctx.secret() reads %s, and no tool or model job lists it in its secrets", key)
				case m[1] == "box" && !slices.Contains(app.Secrets, key):
					r.add(f.Path, n+1, "box.secret() reads %s, and the app does not list it in its secrets", key)
				case !inCalls[key] && !slices.Contains(app.Secrets, key):
					r.add(f.Path, n+1, "%s is read, and neither the app nor a tool or model job lists it in its secrets", key)
				}
			}
			if err != nil || len(app.Tools) == 0 {
				continue // an app declares hosts with its tools
			}
			for _, m := range address.FindAllStringSubmatch(line, -1) {
				port := map[string]uint16{"http": 80, "https": 443}[m[1]]
				if p, err := strconv.ParseUint(m[3], 10, 16); err == nil {
					port = uint16(p)
				}
				name, bad := rules.Normalize(m[2])
				if bad != nil {
					continue
				}
				if _, ok := hosts.Match(name, port); !ok {
					r.add(f.Path, n+1, "%s is in an address here, and no tool lists it in its hosts", name)
				}
			}
		}
	}
	slices.SortStableFunc(r.Problems, func(a, b Problem) int { return strings.Compare(a.File, b.File) })
}

// Sum says in a few words what the app is made of.
func (r *Report) Sum() string {
	d := r.Declared
	if d == nil {
		return ""
	}
	parts := map[string]int{"tool": len(d.Tools), "trigger": len(d.Triggers), "log reader": len(d.Readers), "model job": len(d.Jobs), "route": len(d.Routes), "page": len(d.Pages)}
	var out []string
	for _, what := range slices.Sorted(maps.Keys(parts)) {
		switch n := parts[what]; n {
		case 0:
		case 1:
			out = append(out, "1 "+what)
		default:
			out = append(out, strconv.Itoa(n)+" "+what+"s")
		}
	}
	if len(out) == 0 {
		return "it does nothing yet"
	}
	return strings.Join(out, ", ")
}
