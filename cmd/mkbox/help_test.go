package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"strings"
	"testing"
)

// The help of every verb that takes --help says what the verb does.
func TestVerbsHelp(t *testing.T) {
	for _, v := range verbs {
		if v.name == "deps" {
			continue // takes nothing
		}
		m := &maker{root: t.TempDir(), verb: v}
		if err := v.run(context.Background(), m, []string{"--help"}); !errors.Is(err, flag.ErrHelp) {
			t.Errorf("mkbox %s --help: %v", v.name, err)
		}
		var out bytes.Buffer
		set := m.flags("And more.")
		set.Bool("loud", false, "make noise")
		set.SetOutput(&out)
		set.Usage()
		for _, want := range []string{"usage: mkbox " + v.name + "\n", v.short, "And more.", "-loud", "make noise"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("the help of mkbox %s has no %q: %s", v.name, want, out.String())
			}
		}
	}
	if err := doDev(context.Background(), &maker{root: t.TempDir()}, []string{"loud"}); err == nil || !strings.Contains(err.Error(), `not "loud"`) {
		t.Error(err)
	}
}
