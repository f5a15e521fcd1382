package box

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"gurtos/core/actionlog"
	"gurtos/core/config"
)

func TestOneBoxdOfOneHome(t *testing.T) {
	home := t.TempDir()
	first, err := actionlog.Open(home, actionlog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	_, err = Open(context.Background(), Options{
		Config: config.Config{Home: home, Vault: filepath.Join(home, "vault.env"), TasksRoot: t.TempDir()},
		Log:    slog.New(slog.DiscardHandler),
	})
	if err == nil || !strings.Contains(err.Error(), "another boxd runs with BOX_HOME "+home) {
		t.Errorf("a second one: %v", err)
	}
}
