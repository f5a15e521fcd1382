package cli

import (
	"flag"
	"fmt"
	"strings"
)

// flagError makes a sentence of what the flag package says of a command line: what was
// wrong, and what there is instead.
func (s *session) flagError(err error) error {
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
