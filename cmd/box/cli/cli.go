package cli

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
)

// Command is one verb.
type Command struct {
	Name  string              // such as "task new"
	Args  string              // what stands behind its flags
	Short string              // one line, no full stop
	Long  string              // sentences, with an example
	Least int                 // arguments at least
	Most  int                 // at most; -1 for any number
	Flags func(*flag.FlagSet) // may be nil
	Run   func(*session) error
}

// Env is what the command is run in.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	Get      func(string) string // of the environment
}

// session is one run of one command.
type session struct {
	Env
	ctx  context.Context
	box  *client
	cmd  *Command
	set  *flag.FlagSet
	args []string
	json bool
	over string // the flag that was given once too often
}

// usageError is a mistake in how the command was called.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// Exit codes.
const (
	exitFailed = 1
	exitUsage  = 2
	exitLate   = 3 // a question has the opposite answer already
)

// lateError is an answer that does not stand: the opposite one was first.
type lateError struct{ text string }

func (e *lateError) Error() string { return e.text }

// Main runs the command that args name and returns the exit code.
func Main(ctx context.Context, env Env, args []string) int {
	err := run(ctx, env, args)
	var wrong *usageError
	var late *lateError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, flag.ErrHelp):
		return 0
	case errors.As(err, &wrong):
		fmt.Fprintln(env.Err, "box:", wrong.text)
		return exitUsage
	case errors.As(err, &late):
		fmt.Fprintln(env.Err, "box:", late.text)
		return exitLate
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitFailed // interrupted: whoever did it knows
	}
	fmt.Fprintln(env.Err, "box:", err)
	return exitFailed
}

func run(ctx context.Context, env Env, args []string) error {
	asJSON := false
	for len(args) > 0 && (args[0] == "--json" || args[0] == "-json") {
		if asJSON {
			return twice("json", "")
		}
		asJSON, args = true, args[1:]
	}
	if len(args) == 0 {
		fmt.Fprint(env.Out, overview())
		return nil
	}
	if args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		return help(env, args[1:])
	}
	cmd, rest := find(args)
	if cmd == nil {
		if group := inGroup(args[0]); len(group) > 0 {
			if len(args) > 1 && !strings.HasPrefix(args[1], "-") {
				return &usageError{fmt.Sprintf("there is no `box %s %s`. %s", args[0], args[1], oneOf(group))}
			}
			fmt.Fprint(env.Out, groupHelp(args[0], group))
			return nil
		}
		return &usageError{fmt.Sprintf("there is no `box %s`. `box help` lists all commands", args[0])}
	}
	s := &session{Env: env, ctx: ctx, cmd: cmd, json: asJSON}
	s.set = flag.NewFlagSet(cmd.Name, flag.ContinueOnError)
	s.set.SetOutput(io.Discard)
	s.set.BoolVar(&s.json, "json", s.json, "print the box's own answer as JSON")
	if cmd.Flags != nil {
		cmd.Flags(s.set)
	}
	s.eachOnce()
	if err := s.parse(rest); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(env.Out, cmd.help())
			return err
		}
		return err
	}
	if n := len(s.args); n < cmd.Least || cmd.Most >= 0 && n > cmd.Most {
		return &usageError{fmt.Sprintf("usage: box %s (`box help %s` tells more)", cmd.usage(), cmd.Name)}
	}
	box, err := newClient(env)
	if err != nil {
		return err
	}
	s.box = box
	return cmd.Run(s)
}

// parse takes flags before, between and behind the arguments; all behind -- are
// arguments.
func (s *session) parse(args []string) error {
	for {
		if err := s.set.Parse(args); err != nil {
			if errors.Is(err, flag.ErrHelp) {
				return err
			}
			return s.flagError(err)
		}
		rest := s.set.Args()
		if used := len(args) - len(rest); used > 0 && args[used-1] == "--" {
			s.args = append(s.args, rest...)
			return nil
		}
		if len(rest) == 0 {
			return nil
		}
		s.args, args = append(s.args, rest[0]), rest[1:]
	}
}

// find gives the command whose name args begin with, the longest first.
func find(args []string) (*Command, []string) {
	for n := min(2, len(args)); n > 0; n-- {
		name := strings.Join(args[:n], " ")
		if i := slices.IndexFunc(Commands, func(c Command) bool { return c.Name == name }); i >= 0 {
			return &Commands[i], args[n:]
		}
	}
	return nil, nil
}

func inGroup(word string) []Command {
	var out []Command
	for _, c := range Commands {
		if strings.HasPrefix(c.Name, word+" ") {
			out = append(out, c)
		}
	}
	return out
}

func oneOf(group []Command) string {
	var names []string
	for _, c := range group {
		names = append(names, "`box "+c.Name+"`")
	}
	return "There are " + strings.Join(names, ", ")
}

func (c *Command) usage() string { return strings.TrimSpace(c.Name + " " + c.Args) }

func (c *Command) help() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: box %s\n\n%s.\n\n%s\n", c.usage(), c.Short, c.Long)
	set := flag.NewFlagSet("", flag.ContinueOnError)
	set.Bool("json", false, "print the box's own answer as JSON")
	if c.Flags != nil {
		c.Flags(set)
	}
	b.WriteString("\nFlags:\n")
	w := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	set.VisitAll(func(f *flag.Flag) {
		name, text := flag.UnquoteUsage(f)
		dash := "--"
		if len(f.Name) == 1 {
			dash = "-"
		}
		fmt.Fprintf(w, "  %s%s\t%s\n", dash, strings.TrimSpace(f.Name+" "+name), text)
	})
	w.Flush()
	return b.String()
}

func help(env Env, args []string) error {
	if len(args) == 0 {
		fmt.Fprint(env.Out, overview())
		return nil
	}
	if cmd, _ := find(args); cmd != nil {
		fmt.Fprint(env.Out, cmd.help())
		return nil
	}
	if group := inGroup(args[0]); len(group) > 0 {
		fmt.Fprint(env.Out, groupHelp(args[0], group))
		return nil
	}
	return &usageError{fmt.Sprintf("there is no `box %s`. `box help` lists all commands", strings.Join(args, " "))}
}

func groupHelp(word string, group []Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, "box %s …\n\n", word)
	table(&b, group)
	fmt.Fprintf(&b, "\n`box help %s` tells more about one.\n", group[0].Name)
	return b.String()
}

func overview() string {
	var b strings.Builder
	b.WriteString("box: the command line of a GurtOS box.\n\n")
	table(&b, Commands)
	b.WriteString(`
Each takes --json for the box's own answer, and -h for more about it.
On the box it talks to the box's own socket, as root. From elsewhere set BOX_URL
to the box's address, such as http://192.168.1.20, and BOX_TOKEN to the token
that pairing gave (box help pair).
`)
	return b.String()
}

func table(out io.Writer, list []Command) {
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	for _, c := range list {
		fmt.Fprintf(w, "  box %s\t%s\n", c.usage(), c.Short)
	}
	w.Flush()
}

// print shows an answer: as it came with --json, else as show makes it.
func (s *session) print(raw json.RawMessage, show func() error) error {
	if !s.json {
		return show()
	}
	_, err := fmt.Fprintf(s.Out, "%s\n", strings.TrimSpace(string(raw)))
	return err
}

// columns writes lines of cells under one another.
func (s *session) columns(rows [][]string) error {
	w := tabwriter.NewWriter(s.Out, 0, 8, 2, ' ', 0)
	for _, r := range rows {
		for i, c := range r {
			r[i] = visible(c)
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join(r, "\t"), "\t"))
	}
	return w.Flush()
}

// steering are whole sequences that a terminal takes as commands (ECMA-48): control
// sequences, strings to their end in the line, and short ones that terminals know. Of
// what begins none, visible takes the one character out.
var steering = regexp.MustCompile(`(?:\x1b\[|\x{9b})[0-?]*[ -/]*[@-~]` +
	`|(?:\x1b[\]PX^_]|[\x{90}\x{98}\x{9d}-\x{9f}])[^\x07\x1b\x{9c}\n]*(?:\x07|\x1b\\|\x{9c})` +
	`|\x1b(?:[ -/]+[0-~]|[78=>DEHMcn])`)

// visible takes out what would steer the terminal: titles and steps are texts of
// tasks.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, steering.ReplaceAllString(s, ""))
}

// lines is visible for a text of several lines.
func lines(s string) string {
	all := strings.Split(s, "\n")
	for i, l := range all {
		all[i] = visible(strings.ReplaceAll(l, "\t", "    "))
	}
	return strings.Join(all, "\n")
}
