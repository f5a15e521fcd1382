package main

import (
	"errors"
	"fmt"
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
