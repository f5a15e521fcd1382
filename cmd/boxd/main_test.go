package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"testing"

	"gurtos/core/actionlog"
	"gurtos/core/config"
)

// Who starts boxd can tell a damaged log, which no restart mends.
func TestCode(t *testing.T) {
	damaged := fmt.Errorf("open: %w", &actionlog.DamageError{First: 2, Last: 2, Kind: "changed"})
	if got := code(damaged); got != config.ExitDamaged {
		t.Errorf("a damaged log: %d", got)
	}
	if got := code(errors.New("boxd needs root")); got != 1 {
		t.Errorf("anything else: %d", got)
	}
}

// README.md has the variables of the environment as the usage has them, which names all
// that are read.
func TestReadmeHasTheVariables(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("../../core/config/config.go")
	if err != nil {
		t.Fatal(err)
	}
	says, shows, read := map[string]string{}, map[string]string{}, map[string]string{}
	for into, m := range map[*map[string]string][][]string{
		&says:  regexp.MustCompile(`(?m)^  (BOX_\w+) +(.*)$`).FindAllStringSubmatch(usage, -1),
		&shows: regexp.MustCompile("(?m)^\\| `(BOX_\\w+)` \\| (.*) \\|$").FindAllStringSubmatch(string(readme), -1),
		&read:  regexp.MustCompile(`get\("(BOX_\w+)"()`).FindAllStringSubmatch(string(source), -1),
	} {
		for _, row := range m {
			(*into)[row[1]] = row[2]
		}
	}
	if len(read) == 0 || !maps.Equal(says, shows) {
		t.Errorf("boxd says\n%v\nand README.md\n%v", says, shows)
	}
	for name := range read {
		if says[name] == "" {
			t.Errorf("boxd reads %s, and its usage doesn't say so", name)
		}
	}
	if len(says) != len(read) {
		t.Errorf("the usage has %d variables, and %d are read", len(says), len(read))
	}
}
