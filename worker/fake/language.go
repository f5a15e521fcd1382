package fake

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"gurtos/worker"
)

// word is one command of the language.
type word struct {
	usage string // what follows it
	words int    // arguments; the last one takes the rest of the line
	check func(args []string) bool
	run   func(ctx context.Context, l *line, args []string) error
}

var words = map[string]word{
	"write":    {"FILE and TEXT", 2, nil, write},
	"append":   {"FILE and TEXT", 2, nil, appendTo},
	"delete":   {"a PATH", 1, nil, remove},
	"mkdir":    {"a PATH", 1, nil, mkdir},
	"move":     {"FROM and TO", 2, nil, move},
	"read":     {"a FILE", 1, nil, read},
	"run":      {"a COMMAND", 1, nil, runOrFail},
	"try":      {"a COMMAND", 1, nil, tryRun},
	"step":     {"TEXT", 1, nil, step},
	"summary":  {"TEXT", 1, nil, summary},
	"sleep":    {"a DURATION such as 1s or 200ms", 1, isDuration, sleep},
	"fail":     {"WHY", 1, nil, fail},
	"call":     {"a TOOL and JSON", 2, isJSON, call},
	"trycall":  {"a TOOL and JSON", 2, isJSON, tryCall},
	"ask":      {"a QUESTION", 1, nil, ask},
	"tryask":   {"a QUESTION", 1, nil, tryAsk},
	"cost":     {"CENTS and WHAT", 2, isCost, cost},
	"fetch":    {"an http or https URL", 1, isURL, fetch},
	"tryfetch": {"an http or https URL", 1, isURL, tryFetch},
}

// split cuts the rest of a line into the word's arguments.
func (w word) split(rest string) (args []string, ok bool) {
	for len(args) < w.words-1 {
		var arg string
		arg, rest, _ = strings.Cut(rest, " ")
		args = append(args, arg)
		rest = strings.TrimLeft(rest, " \t")
	}
	args = append(args, rest)
	for _, a := range args {
		if a == "" {
			return nil, false
		}
	}
	return args, w.check == nil || w.check(args)
}

func step(_ context.Context, l *line, args []string) error {
	l.step = args[0]
	return nil
}

func summary(_ context.Context, l *line, args []string) error {
	l.step = args[0]
	l.data["summary"] = true
	return nil
}

func fail(_ context.Context, l *line, args []string) error { return errors.New(args[0]) }

func isDuration(args []string) bool {
	d, err := time.ParseDuration(args[0])
	return err == nil && d >= 0
}

func sleep(ctx context.Context, l *line, args []string) error {
	d, _ := time.ParseDuration(args[0])
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func isJSON(args []string) bool { return json.Valid([]byte(args[1])) }

func call(ctx context.Context, l *line, args []string) error {
	a, err := l.call(ctx, args)
	if err == nil && !a.OK {
		err = l.failed("%s: %s", args[0], a.Error)
	}
	return err
}

func tryCall(ctx context.Context, l *line, args []string) error {
	_, err := l.call(ctx, args)
	return err
}

// call calls a tool with the line's number as the key. What the broker refuses
// is an answer too.
func (l *line) call(ctx context.Context, args []string) (worker.Answer, error) {
	a, err := l.b.Call(ctx, args[0], json.RawMessage(args[1]), l.key())
	var no *worker.Refusal
	if errors.As(err, &no) {
		a = worker.Answer{Error: no.Why}
		a.Raw, err = json.Marshal(map[string]any{"ok": false, "error": no.Why})
	}
	if err != nil {
		return a, l.failed("%s: %w", args[0], err)
	}
	l.data["answer"] = a.Raw
	if len(a.Raw) > mostAnswer {
		l.data["answer"] = map[string]any{"ok": a.OK, "error": cut(a.Error, mostAnswer/4), "output": cut(string(a.Output), mostAnswer/4), "cut": true}
	}
	return a, nil
}

// mostAnswer is how much of an answer a step holds; the broker takes steps of
// up to 64 KB, and escaping may make text longer.
const mostAnswer = 32 << 10

// key is the same when the line runs again, and no other line's.
func (l *line) key() string { return strconv.Itoa(l.number) }

func ask(ctx context.Context, l *line, args []string) error {
	yes, err := l.ask(ctx, args[0])
	if err == nil && !yes {
		err = l.failed("the answer to %q is no", cut(args[0], 200))
	}
	return err
}

func tryAsk(ctx context.Context, l *line, args []string) error {
	_, err := l.ask(ctx, args[0])
	return err
}

func (l *line) ask(ctx context.Context, question string) (bool, error) {
	yes, err := l.b.Ask(ctx, question, l.key())
	if err != nil {
		return false, l.failed("asking: %w", err)
	}
	l.data["approved"] = yes
	return yes, nil
}

func isCost(args []string) bool {
	var n json.Number
	return json.Unmarshal([]byte(args[0]), &n) == nil && args[0][0] != '"'
}

func cost(ctx context.Context, l *line, args []string) error {
	if err := l.b.Cost(ctx, json.Number(args[0]), args[1]); err != nil {
		return l.failed("cost: %w", err)
	}
	return nil
}
