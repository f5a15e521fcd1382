package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Version of this build; the linker sets it.
var Version = "dev"

// Edition of this build.
const Edition = "core"

// BootFile is written by GurtOS's init for boxd before it starts it. Where it is
// missing, boxd runs on somebody's machine.
const BootFile = "/run/gurtos/boot.json"

// ExitDamaged is what boxd ends with when it doesn't start on a damaged action log, as
// EX_DATAERR of sysexits.h: no restart mends that, a person has to decide.
const ExitDamaged = 65

// A Unix socket's path has at most 107 bytes (sun_path without its NUL), and the
// longest below BOX_HOME is a task's broker.sock.
const (
	maxSocket  = 107
	socketTail = "/tasks/" + "t0123456789abcdef" + "/broker.sock"
)

// Config is what the environment says.
type Config struct {
	OnBox        bool   // started by GurtOS's init
	Home         string // BOX_HOME
	Port         int    // BOX_PORT, on loopback
	LANPlain     int    // BOX_LAN's first port; 0 for off
	LANTLS       int    // BOX_LAN's second port; 0 for off
	Vault        string // BOX_VAULT
	VaultNamed   bool   // BOX_VAULT was given
	Tracks       string // BOX_TRACKS
	SDK          string // folder with contract.ts and triggers.ts, beside it
	TasksRoot    string // BOX_TASKS_ROOT
	Tools        string // folder with box-init and worker
	Model        string // BOX_MODEL, "" when not given
	ApprovalWait time.Duration
}

// Read takes the environment of this process.
func Read() (Config, error) {
	exe, err := os.Executable()
	if err != nil {
		return Config{}, fmt.Errorf("finding this program's folder: %w", err)
	}
	if real, err := filepath.EvalSymlinks(exe); err == nil {
		exe = real
	}
	_, err = os.Stat(BootFile)
	return from(os.LookupEnv, exe, err == nil)
}

// from is Read for any environment, program and place.
func from(env func(string) (string, bool), exe string, onBox bool) (Config, error) {
	bin := filepath.Dir(exe)
	above := filepath.Dir(bin)
	get := func(name, box, elsewhere string) string {
		if v, ok := env(name); ok && v != "" {
			return v
		}
		if onBox {
			return box
		}
		return elsewhere
	}
	c := Config{OnBox: onBox, Tools: bin}
	c.Home = get("BOX_HOME", "/data/box", filepath.Join(above, ".box", "home"))
	c.Vault = get("BOX_VAULT", "/etc/box/vault.env", "")
	c.VaultNamed = c.Vault != ""
	if c.Vault == "" {
		c.Vault = filepath.Join(c.Home, "vault.env")
	}
	c.Tracks = get("BOX_TRACKS", filepath.Join(above, "tracks"), filepath.Join(above, "tracks"))
	c.TasksRoot = get("BOX_TASKS_ROOT", filepath.Join(above, "tasks"), filepath.Join(above, ".cache", "tasks"))
	c.Model = get("BOX_MODEL", "", "")
	for _, p := range []struct {
		name string
		path *string
	}{{"BOX_HOME", &c.Home}, {"BOX_VAULT", &c.Vault}, {"BOX_TRACKS", &c.Tracks}, {"BOX_TASKS_ROOT", &c.TasksRoot}} {
		abs, err := filepath.Abs(*p.path)
		if err != nil || strings.ContainsAny(abs, "\n\x00") {
			return Config{}, fmt.Errorf("%s is no path that can be used", p.name)
		}
		*p.path = abs
	}
	c.SDK = filepath.Join(filepath.Dir(c.Tracks), "core")
	if n := len(c.Home) + len(socketTail); n > maxSocket {
		return Config{}, fmt.Errorf("BOX_HOME %s is too long: a task's broker.sock in it would have %d bytes, and a socket's path has at most %d. Choose a BOX_HOME of at most %d bytes", c.Home, n, maxSocket, maxSocket-len(socketTail))
	}
	var err error
	if c.Port, err = port("BOX_PORT", get("BOX_PORT", "7700", "7700")); err != nil {
		return Config{}, err
	}
	if c.LANPlain, c.LANTLS, err = lan(get("BOX_LAN", "80,443", "off")); err != nil {
		return Config{}, err
	}
	wait := get("BOX_APPROVAL_WAIT_MS", "150000", "150000")
	ms, err := strconv.Atoi(wait)
	if err != nil || ms < 1 || ms > 24*60*60*1000 {
		return Config{}, fmt.Errorf("BOX_APPROVAL_WAIT_MS is %q: a whole number of milliseconds from 1 to 86400000 is needed", wait)
	}
	c.ApprovalWait = time.Duration(ms) * time.Millisecond
	return c, nil
}

// Socket is the box's own socket.
func (c Config) Socket() string { return filepath.Join(c.Home, "box.sock") }

func port(name, s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > 65535 {
		return 0, fmt.Errorf("%s is %q: a port from 1 to 65535 is needed", name, s)
	}
	return n, nil
}

// lan reads "80,443", "8080" (plain alone) or "off".
func lan(s string) (plain, tls int, err error) {
	if s == "off" {
		return 0, 0, nil
	}
	first, second, both := strings.Cut(s, ",")
	if plain, err = port("BOX_LAN", strings.TrimSpace(first)); err != nil {
		return 0, 0, fmt.Errorf("%w, or two with a comma between (plain, TLS), or off", err)
	}
	if both {
		if tls, err = port("BOX_LAN", strings.TrimSpace(second)); err != nil {
			return 0, 0, err
		}
	}
	return plain, tls, nil
}
