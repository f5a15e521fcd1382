package config

import (
	"strings"
	"testing"
	"time"
)

func env(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, p := range pairs {
			if n, v, _ := strings.Cut(p, "="); n == name {
				return v, true
			}
		}
		return "", false
	}
}

func TestDefaults(t *testing.T) {
	box, err := from(env(), "/usr/lib/gurtos/bin/boxd", true)
	if err != nil {
		t.Fatal(err)
	}
	if box.Home != "/data/box" || box.Vault != "/etc/box/vault.env" || !box.VaultNamed || box.LANPlain != 80 || box.LANTLS != 443 || box.TasksRoot != "/usr/lib/gurtos/tasks" || box.Port != 7700 || box.ApprovalWait != 150*time.Second {
		t.Errorf("%+v", box)
	}
	dev, err := from(env(), "/src/gurtos/bin/boxd", false)
	if err != nil {
		t.Fatal(err)
	}
	if dev.Home != "/src/gurtos/.box/home" || dev.Vault != "/src/gurtos/.box/home/vault.env" || dev.VaultNamed || dev.LANPlain != 0 || dev.LANTLS != 0 || dev.TasksRoot != "/src/gurtos/.cache/tasks" || dev.Tracks != "/src/gurtos/tracks" || dev.Tools != "/src/gurtos/bin" {
		t.Errorf("%+v", dev)
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range []struct{ set, want string }{
		{"BOX_HOME=/" + strings.Repeat("x", 80), "BOX_HOME"},
		{"BOX_PORT=0", "BOX_PORT"},
		{"BOX_PORT=http", "BOX_PORT"},
		{"BOX_LAN=80;443", "BOX_LAN"},
		{"BOX_LAN=80,99999", "BOX_LAN"},
		{"BOX_APPROVAL_WAIT_MS=-1", "BOX_APPROVAL_WAIT_MS"},
		{"BOX_APPROVAL_WAIT_MS=1s", "BOX_APPROVAL_WAIT_MS"},
	} {
		if _, err := from(env(c.set), "/x/bin/boxd", false); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.set, err)
		}
	}
	longest := "/" + strings.Repeat("x", maxSocket-len(socketTail)-1)
	if c, err := from(env("BOX_HOME="+longest), "/x/bin/boxd", false); err != nil || len(c.Home+socketTail) != maxSocket {
		t.Error(err)
	}
}
