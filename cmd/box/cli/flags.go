package cli

import (
	"errors"
	"flag"
	"fmt"
	"strings"
)

// flagError makes a sentence of what the flag package says of a command line: what was
// wrong, and what there is instead.
func (s *session) flagError(err error) error {
	if s.over != "" {
		return twice(s.over, s.cmd.Name)
	}
	text := err.Error()
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: -"); ok {
		return &usageError{fmt.Sprintf("`box %s` has no flag %s%s; it takes %s. `box help %s` tells more",
			s.cmd.Name, dashed(visible(name)), s.meant(name), strings.Join(s.flags(), ", "), s.cmd.Name)}
	}
	if name, ok := strings.CutPrefix(text, "flag needs an argument: -"); ok {
		return &usageError{fmt.Sprintf("%s needs a value behind it. `box help %s` tells more", dashed(name), s.cmd.Name)}
	}
	value, rest, ok := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(text, "invalid value "), "invalid boolean value "), " for ")
	name, _, named := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(rest, "flag "), "-"), ":")
	if f := s.set.Lookup(name); ok && named && f != nil {
		need := "a whole number is needed"
		if b, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() {
			need = "true or false is needed, or nothing"
		}
		return &usageError{fmt.Sprintf("%s is %s: %s. `box help %s` tells more", dashed(name), visible(value), need, s.cmd.Name)}
	}
	return &usageError{fmt.Sprintf("%s. `box help %s` tells more; behind -- all are arguments", visible(text), s.cmd.Name)}
}

// eachOnce refuses a flag that is given twice, but for those that may be given several
// times: of two values the last would count, and nobody be told that the first didn't.
func (s *session) eachOnce() {
	s.set.VisitAll(func(f *flag.Flag) {
		if _, several := f.Value.(*words); !several {
			f.Value = &once{f.Value, s, f.Name, f.Name == "json" && s.json}
		}
	})
}

// once is the value of a flag that may be given once.
type once struct {
	flag.Value
	s     *session
	name  string
	given bool
}

// Set notes the flag in its session, since package flag keeps no more than an error's text.
func (o *once) Set(v string) error {
	if o.given {
		o.s.over = o.name
		return errors.New("it is given twice")
	}
	o.given = true
	return o.Value.Set(v)
}

// IsBoolFlag says that the flag needs no value.
func (o *once) IsBoolFlag() bool {
	b, ok := o.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
}

// twice refuses a flag of a command, or of all commands.
func twice(name, cmd string) error {
	if cmd != "" {
		cmd = " " + cmd
	}
	return &usageError{fmt.Sprintf("%s is given twice; give it once. `box help%s` tells more", dashed(name), cmd)}
}

// meant guesses which flag was meant by one that there isn't.
func (s *session) meant(name string) string {
	guess := ""
	s.set.VisitAll(func(f *flag.Flag) {
		if len(f.Name) > 1 && len(name) > 1 && (strings.HasPrefix(name, f.Name) || strings.HasPrefix(f.Name, name)) {
			guess = f.Name
		}
	})
	if guess == "" {
		return ""
	}
	return ", perhaps " + dashed(guess) + " is meant"
}

// flags are the names of all flags of the command.
func (s *session) flags() (names []string) {
	s.set.VisitAll(func(f *flag.Flag) { names = append(names, dashed(f.Name)) })
	return names
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
