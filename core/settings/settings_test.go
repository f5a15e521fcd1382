package settings

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/core/durable"
	"gurtos/core/durable/powercut"
)

func open(t testing.TB, path string) *Settings {
	t.Helper()
	s, err := Open(durable.Disk, path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestTableNamesEveryValue(t *testing.T) {
	typ := reflect.TypeFor[Values]()
	if typ.NumField() != len(Table) {
		t.Fatalf("%d values, %d rows", typ.NumField(), len(Table))
	}
	for i, row := range Table {
		if got := typ.Field(i).Tag.Get("json"); got != row.Name {
			t.Errorf("row %d is %s, the value %s", i, row.Name, got)
		}
		if !strings.HasSuffix(row.Doc, ".") {
			t.Errorf("%s: %q is no sentence", row.Name, row.Doc)
		}
	}
}

func TestDefaultsPassTheirOwnChecks(t *testing.T) {
	v := Defaults()
	for name, raw := range fields(Defaults()) {
		if err := apply(&v, name, raw); err != nil {
			t.Error(err)
		}
	}
	if !reflect.DeepEqual(v, Defaults()) {
		t.Errorf("%+v", v)
	}
}

func TestChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.json")
	for _, c := range []struct{ name, value, refused string }{
		{"defaultBudgetCents", `0`, ""},
		{"defaultBudgetCents", `100000`, ""},
		{"defaultBudgetCents", `100001`, "from 0 to 100000"},
		{"defaultBudgetCents", `1.5`, "whole number"},
		{"defaultBudgetCents", `"1"`, "whole number"},
		{"defaultBudgetCents", `null`, "whole number"},
		{"networkDefault", `"allowlist"`, ""},
		{"networkDefault", `"all"`, "none, allowlist"},
		{"defaultHosts", `["EXAMPLE.org.","example.com:8080"]`, ""},
		{"defaultHosts", `["*.com"]`, "*.com"},
		{"defaultHosts", `["localhost"]`, "localhost"},
		{"defaultHosts", `null`, "array"},
		{"maxRunning", `0`, "from 1"},
		{"timeZone", `"Europe/London"`, ""},
		{"timeZone", `"../etc/passwd"`, "no time zone"},
		{"boxName", `"kitchen-2"`, ""},
		{"boxName", `"-x"`, "hyphen"},
		{"boxName", `"küche"`, "letters"},
		{"theme", `"dark"`, ""},
		{"theme", `"blue"`, "system, light, dark"},
		{"updateSource", `"https://updates.example.com/x"`, ""},
		{"updateSource", `"ftp://x"`, "https://"},
		{"updateSource", `"https://u:p@example.com"`, "https://"},
		{"updateAuto", `1`, "true or false"},
		{"updateHour", `24`, "from 0 to 23"},
		{"bogus", `1`, "no setting of this name"},
	} {
		s := open(t, path)
		before := s.Values()
		_, err := s.Change(map[string]json.RawMessage{c.name: json.RawMessage(c.value), "keepDays": json.RawMessage("9")})
		if c.refused == "" {
			if err != nil {
				t.Errorf("%s %s: %v", c.name, c.value, err)
			} else if !reflect.DeepEqual(open(t, path).Values(), s.Values()) {
				t.Errorf("%s %s: not the same after opening again", c.name, c.value)
			}
			continue
		}
		var bad *Invalid
		if !errors.As(err, &bad) || bad.Field != c.name || !strings.Contains(bad.Sentence, c.refused) {
			t.Errorf("%s %s: %v, want %q", c.name, c.value, err, c.refused)
		}
		if !reflect.DeepEqual(s.Values(), before) {
			t.Errorf("%s %s: refused, yet something changed", c.name, c.value)
		}
	}
	if got := open(t, path).Values().DefaultHosts; !reflect.DeepEqual(got, []string{"example.org", "example.com:8080"}) {
		t.Errorf("hosts %v", got)
	}
}

type fullDisk struct{ durable.FS }

func (fullDisk) Open(name string, flag int, perm fs.FileMode) (durable.File, error) {
	if flag&os.O_CREATE != 0 {
		return nil, unix.ENOSPC
	}
	return durable.Disk.Open(name, flag, perm)
}

func TestFailedWriteChangesNothing(t *testing.T) {
	s, err := Open(fullDisk{durable.Disk}, filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Change(map[string]json.RawMessage{"keepDays": json.RawMessage("9")}); !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	if s.Values().KeepDays != 30 {
		t.Fatal("changed in memory alone")
	}
}

func TestFilesThatAreRefused(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{`{"version":2,"settings":{}}`, "version 2"},
		{`{"settings":{}}`, "no version"},
		{`{"version":1,"settings":{"keepDays":-1}}`, "keepDays"},
		{`{"version":1,"settings":{"gone":1}}`, "gone"},
		{`{`, "damaged"},
	} {
		path := filepath.Join(t.TempDir(), "settings.json")
		if err := os.WriteFile(path, []byte(c.in), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(durable.Disk, path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.in, err)
		}
		if b, _ := os.ReadFile(path); string(b) != c.in {
			t.Errorf("%s was changed to %s", c.in, b)
		}
	}
}

// The power goes after each operation of a change: afterwards the settings open
// and are those of before or after, and of after when the change was answered.
func TestPowerCut(t *testing.T) {
	for n := 0; ; n++ {
		dir := t.TempDir()
		path := filepath.Join(dir, "settings.json")
		if _, err := open(t, path).Change(map[string]json.RawMessage{"keepDays": json.RawMessage("7")}); err != nil {
			t.Fatal(err)
		}
		disk := powercut.New(dir)
		disk.CutAfter(n)
		s, err := Open(disk, path)
		if err == nil {
			_, err = s.Change(map[string]json.RawMessage{"keepDays": json.RawMessage("8"), "theme": json.RawMessage(`"dark"`)})
		}
		if err != nil && !errors.Is(err, powercut.ErrOff) {
			t.Fatal(err)
		}
		if err := disk.Cut(uint64(n)); err != nil {
			t.Fatal(err)
		}
		v := open(t, path).Values()
		before, after := v.KeepDays == 7 && v.Theme == "system", v.KeepDays == 8 && v.Theme == "dark"
		if !after && (err == nil || !before) {
			t.Fatalf("cut after %d: keepDays %d, theme %s, Change said %v", n, v.KeepDays, v.Theme, err)
		}
		if err == nil {
			return
		}
	}
}

// A slow disk under a change holds up nobody who asks for the values: tasks do, with
// the lock of all tasks in hand.
func TestChangeHoldsUpNoReader(t *testing.T) {
	dir := t.TempDir()
	disk := powercut.New(dir)
	s, err := Open(disk, filepath.Join(dir, "settings.json"))
	if err != nil {
		t.Fatal(err)
	}
	disk.Fail(func(powercut.Op) error {
		read := make(chan Values, 1)
		go func() { read <- s.Values() }()
		select {
		case <-read:
		case <-time.After(time.Minute):
			t.Error("the values can't be read while a change is written")
		}
		return nil
	})
	if _, err := s.Change(map[string]json.RawMessage{"keepDays": json.RawMessage("7")}); err != nil {
		t.Fatal(err)
	}
	if n := s.Values().KeepDays; n != 7 {
		t.Errorf("keepDays is %d", n)
	}
}
