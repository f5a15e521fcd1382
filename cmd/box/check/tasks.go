package check

import "strings"

// absent is the worker that a task has which names none, and that this build has no
// program for: the box refuses such a task, when it is to be started.
const absent = "droid"

// task is an object in a source that has what a task needs.
type task struct {
	line   int    // 1 for the first
	worker string // as it stands there, quotes and all; "" for none
}

// tasks finds the tasks that are written out in a source. Only plain objects are: one with
// a spread may have a worker from elsewhere.
func tasks(text string) (found []task) {
	type object struct {
		line   int
		fields map[string]string
		other  bool // it is a block, a type, or has a spread
	}
	var open []*object
	line := 1
	skip := func(n int) { // goes over n bytes
		line += strings.Count(text[:n], "\n")
		text = text[n:]
	}
	name, value := "", "" // of the field that is read; its value up to the first bracket
	colon := false
	end := func() { // of a field
		if len(open) > 0 && open[len(open)-1] != nil {
			if name = strings.TrimSpace(name); strings.HasPrefix(name, "...") {
				open[len(open)-1].other = true
			} else if name = strings.Trim(name, `'"`); name != "" {
				open[len(open)-1].fields[name] = strings.TrimSpace(value)
			}
		}
		name, value, colon = "", "", false
	}
	add := func(s string) {
		to := &name
		if colon {
			to = &value
		}
		if *to == "" {
			s = strings.TrimSpace(s)
		}
		*to += s[:min(len(s), max(0, enough-len(*to)))]
	}
	type outer struct {
		name, value string
		colon       bool
	}
	var stack []outer
	for text != "" {
		switch c := text[0]; {
		case strings.HasPrefix(text, "//"):
			skip(upTo(text, "\n", 2))
		case strings.HasPrefix(text, "/*"):
			skip(upTo(text, "*/", 2))
		case c == '\'' || c == '"' || c == '`':
			n := quoted(text)
			add(text[:n])
			skip(n)
		case c == '{' || c == '[' || c == '(':
			stack = append(stack, outer{name, value, colon})
			name, value, colon = "", "", false
			var o *object
			if c == '{' {
				o = &object{line: line, fields: map[string]string{}}
			}
			open = append(open, o)
			skip(1)
		case c == '}' || c == ']' || c == ')':
			end()
			if n := len(open); n > 0 {
				if o := open[n-1]; o != nil && !o.other && !assigned(text[1:]) {
					if worker, ok := worker(o.fields); ok {
						found = append(found, task{o.line, worker})
					}
				}
				open = open[:n-1]
				name, value, colon = stack[n-1].name, stack[n-1].value, stack[n-1].colon
				stack = stack[:n-1]
				add(" ")
			}
			skip(1)
		case c == ',':
			end()
			skip(1)
		case c == ';':
			if n := len(open); n > 0 && open[n-1] != nil {
				open[n-1].other = true
			}
			end()
			skip(1)
		case c == ':' && !colon:
			colon = true
			skip(1)
		default:
			add(text[:1])
			skip(1)
		}
	}
	return found
}

// worker is that of a task with these fields, and whether they are a task's: with a title
// and a prompt, and more said of them than their names, as where somebody takes one apart.
func worker(fields map[string]string) (worker string, ok bool) {
	title, has := fields["title"]
	prompt, asks := fields["prompt"]
	worker, named := fields["worker"]
	if !has || !asks || prompt == "string" || title == "" && prompt == "" && worker == "" {
		return "", false
	}
	if named && worker == "" {
		worker = "worker" // the variable of that name
	}
	return worker, true
}

// assigned says that something is put into what ends before the text, as in
// `const { title: t } = task`.
func assigned(text string) bool {
	text = strings.TrimLeft(text, " \t\r\n")
	return strings.HasPrefix(text, "=") && !strings.HasPrefix(text, "==") && !strings.HasPrefix(text, "=>")
}

// enough is how many bytes of a name or a value are kept; those that matter are shorter.
const enough = 100

// upTo is the end of what begins a text and ends in mark, which stands behind from.
func upTo(text, mark string, from int) int {
	if i := strings.Index(text[from:], mark); i >= 0 {
		return from + i + len(mark)
	}
	return len(text)
}

// quoted is the length of the string that begins a text. One that doesn't end in its line,
// where it has to, is none: an apostrophe in a pattern.
func quoted(text string) int {
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case text[i] == text[0], text[i] == '\n' && text[0] != '`':
			return i + 1
		}
	}
	return len(text)
}
