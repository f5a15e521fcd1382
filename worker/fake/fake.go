package fake

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"gurtos/worker"
)

// Run does the task that the broker gives, in the workspace at dir.
func Run(ctx context.Context, b *worker.Broker, dir string) error {
	task, steps, err := b.Task(ctx)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("the workspace: %w", err)
	}
	defer root.Close()
	done := lastLine(steps)
	for i, text := range strings.Split(task.Prompt, "\n") {
		text = strings.TrimSpace(text)
		if i < done || text == "" || text[0] == '#' {
			continue
		}
		l := &line{b: b, dir: dir, root: root, number: i + 1, step: text, data: map[string]any{"line": i + 1}}
		if err := l.do(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// lastLine is the number of the last line that earlier runs finished.
func lastLine(steps []worker.Step) int {
	last := 0
	for _, s := range steps {
		var data struct {
			Line   int  `json:"line"`
			Failed bool `json:"failed"`
		}
		if json.Unmarshal(s.Data, &data) == nil && !data.Failed {
			last = max(last, data.Line)
		}
	}
	return last
}

// line is one line at work.
type line struct {
	b      *worker.Broker
	dir    string
	root   *os.Root
	number int
	step   string         // text of the step that is posted after it
	data   map[string]any // and its data
}

// mostStep is how much of a line its step says.
const mostStep = 500

// do runs the line and posts its step. A line that fails the task posts what it
// saw too, marked so that a resumed task fails at it again.
func (l *line) do(ctx context.Context, text string) error {
	name, rest, _ := strings.Cut(text, " ")
	rest = strings.TrimSpace(rest)
	w, known := words[name]
	if !known {
		return fmt.Errorf("line %d: %q is no command. There are %s", l.number, cut(name, 60), strings.Join(slices.Sorted(maps.Keys(words)), ", "))
	}
	args, ok := w.split(rest)
	if !ok {
		return fmt.Errorf("line %d: %s wants %s", l.number, name, w.usage)
	}
	failure := w.run(ctx, l, args)
	if failure != nil {
		l.data["failed"] = true
		if len(l.data) == 2 {
			return failure // nothing was seen
		}
	}
	if err := l.b.Step(ctx, cut(l.step, mostStep), l.data); err != nil {
		return fmt.Errorf("line %d: posting its step: %w", l.number, err)
	}
	return failure
}

// failed is the error of a line that ran and failed the task.
func (l *line) failed(format string, a ...any) error {
	return fmt.Errorf("line %d: %w", l.number, fmt.Errorf(format, a...))
}

// cut shortens s to n bytes and makes it valid text.
func cut(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "")
}
