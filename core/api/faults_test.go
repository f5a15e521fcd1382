package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gurtos/core/actionlog"
	"gurtos/core/device"
	"gurtos/core/durable"
	"gurtos/core/durable/powercut"
	"gurtos/core/settings"
	"gurtos/core/task"
	"gurtos/core/vault"
	"gurtos/core/workspace"
)

// keeper is the API over the files that the box keeps beside its log, on a disk whose
// power can be cut. No task runs on it.
type keeper struct {
	t     testing.TB
	home  string
	disk  *powercut.Disk
	log   *actionlog.Log
	tasks *task.Tasks
	srv   *Server
}

type noLayers struct{ task.Layers }

func (noLayers) RecoverBase(string, []string) ([]string, error) { return nil, nil }

func newKeeper(t testing.TB) *keeper {
	t.Helper()
	home, err := os.MkdirTemp("/tmp", "keep")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	if err := vault.Create(durable.Disk, filepath.Join(home, "vault.env")); err != nil {
		t.Fatal(err)
	}
	k := &keeper{t: t, home: home}
	k.start()
	t.Cleanup(func() { k.log.Close() })
	return k
}

// start opens everything as boxd does.
func (k *keeper) start() {
	k.t.Helper()
	must := func(err error) {
		k.t.Helper()
		if err != nil {
			k.t.Fatal(err)
		}
	}
	k.disk = powercut.New(k.home)
	at := func(name string) string { return filepath.Join(k.home, name) }
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	keys, err := vault.Open(k.disk, at("vault.env"))
	must(err)
	k.log, err = actionlog.Open(k.home, actionlog.Options{FS: k.disk, Reserve: -1})
	must(err)
	chosen, err := settings.Open(k.disk, at("settings.json"))
	must(err)
	devices, err := device.Open(k.disk, at("devices.json"))
	must(err)
	spaces, err := workspace.Open(durable.Disk, at("workspaces"))
	must(err)
	k.tasks, err = task.New(k.t.Context(), task.Options{Home: k.home, Log: k.log, Layers: noLayers{}, Tools: noTools{}, Settings: chosen, Slog: quiet})
	must(err)
	k.srv = New(Options{
		Tasks: k.tasks, Events: k.log, Settings: chosen, Devices: devices, Vault: keys, Workspaces: spaces, Broken: k.log.Err,
		Log: quiet, Version: "1.2.3", Edition: "core", Home: k.home, Port: 7700,
	})
	must(k.srv.Mend(k.t.Context()))
}

// cut takes the power away now, and starts the box again on what the disk has.
func (k *keeper) cut(seed uint64) {
	k.t.Helper()
	k.disk.CutAfter(0)
	k.log.Close()
	if err := k.disk.Cut(seed); err != nil {
		k.t.Fatal(err)
	}
	k.start()
}

// ask makes a request as the box's own screen.
func (k *keeper) ask(method, path, body string) (status int, answer string) {
	r := httptest.NewRequest(method, "http://box"+path, strings.NewReader(body))
	r = r.WithContext(context.WithValue(k.t.Context(), linkKey{}, &link{unix: true}))
	w := httptest.NewRecorder()
	k.srv.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// is what the files say, in words that said has too.
func (k *keeper) is() map[string]string {
	m := map[string]string{}
	for name, v := range settingsUnlike(nil, k.srv.opt.Settings.Values()) {
		m["setting "+name] = string(v)
	}
	for _, e := range k.srv.opt.Vault.List() {
		m["key "+e.Name] = e.SetAt
	}
	for _, d := range k.srv.opt.Devices.List() {
		m["device "+d.ID] = d.Name
	}
	spaces, err := k.srv.opt.Workspaces.List()
	if err != nil {
		k.t.Fatal(err)
	}
	for _, w := range spaces {
		m["workspace "+w.Name] = ""
	}
	return m
}

// said is what the lines of the log say, read one by one.
func (k *keeper) said() map[string]string {
	m, std := map[string]string{}, settings.Defaults()
	err := k.log.Read(k.t.Context(), 0, func(_ []byte, event func() (actionlog.Event, error)) error {
		ev, err := event()
		if err != nil || ev.Type != actionlog.TypeNote {
			return err
		}
		var d struct {
			What, Name, SetAt, Device string
			Set                       map[string]json.RawMessage
		}
		if err := json.Unmarshal(ev.Data, &d); err != nil {
			return err
		}
		switch d.What {
		case "settings":
			for _, row := range settings.Table {
				if v, ok := d.Set[row.Name]; ok {
					if m["setting "+row.Name] = string(v); string(v) == string(row.JSON(std)) {
						delete(m, "setting "+row.Name)
					}
				}
			}
		case "vault key set":
			m["key "+d.Name] = d.SetAt
		case "vault key removed":
			delete(m, "key "+d.Name)
		case "device paired":
			m["device "+d.Device] = d.Name
		case "device removed":
			delete(m, "device "+d.Device)
		case "workspace made":
			m["workspace "+d.Name] = ""
		}
		return nil
	})
	if err != nil {
		k.t.Fatal(err)
	}
	return m
}

// changes are what is changed in a file: how a box comes to where it can be, and the
// request. part is what of the state it is about.
var fileChanges = []struct {
	name    string
	prepare func(k *keeper)
	request func(k *keeper) (method, path, body string)
	part    string
}{
	{"set a setting", func(*keeper) {}, func(*keeper) (string, string, string) {
		return "PUT", "/api/settings", `{"keepDays":7,"defaultHosts":["Example.com"]}`
	}, "setting keepDays"},
	{"set it back", func(k *keeper) { k.done("PUT", "/api/settings", `{"keepDays":7}`) }, func(*keeper) (string, string, string) {
		return "PUT", "/api/settings", `{"keepDays":30}`
	}, "setting keepDays"},
	{"set a key", func(*keeper) {}, func(*keeper) (string, string, string) { return "PUT", "/api/vault/SHOP_KEY", "a value of some length" }, "key SHOP_KEY"},
	{"set it anew", func(k *keeper) {
		k.done("PUT", "/api/vault/OTHER_KEY", "another value")
		k.done("PUT", "/api/vault/SHOP_KEY", "a value of some length")
	}, func(*keeper) (string, string, string) { return "PUT", "/api/vault/SHOP_KEY", "a value that is new" }, "key SHOP_KEY"},
	{"remove a key", func(k *keeper) {
		k.done("PUT", "/api/vault/OTHER_KEY", "another value")
		k.done("PUT", "/api/vault/SHOP_KEY", "a value of some length")
	}, func(*keeper) (string, string, string) { return "DELETE", "/api/vault/SHOP_KEY", "" }, "key SHOP_KEY"},
	{"pair a device", func(*keeper) {}, func(k *keeper) (string, string, string) {
		code, err := k.srv.opt.Devices.Code(device.Owner)
		if err != nil {
			k.t.Fatal(err)
		}
		return "POST", "/api/pair", fmt.Sprintf(`{"code":%q,"name":"phone"}`, code.Code)
	}, "device "},
	{"remove a device", func(k *keeper) {
		code, err := k.srv.opt.Devices.Code(device.Owner)
		if err != nil {
			k.t.Fatal(err)
		}
		k.done("POST", "/api/pair", fmt.Sprintf(`{"code":%q,"name":"phone"}`, code.Code))
	}, func(k *keeper) (string, string, string) {
		return "DELETE", "/api/devices/" + k.srv.opt.Devices.List()[0].ID, ""
	}, "device "},
}

func (k *keeper) done(method, path, body string) {
	k.t.Helper()
	if status, answer := k.ask(method, path, body); status/100 != 2 {
		k.t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
}

// part is what of a state begins so.
func partOf(m map[string]string, begin string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if strings.HasPrefix(key, begin) {
			out = append(out, key+"="+m[key])
		}
	}
	return strings.Join(out, ", ")
}

// The power goes at each operation of the disk in turn, for each change of a file. After
// it the log says what the files are, and what was answered holds. Each row of
// docs/faults.md is come to.
func TestNoChangeWithoutALine(t *testing.T) {
	rows := map[string]int{}
	for _, c := range fileChanges {
		t.Run(c.name, func(t *testing.T) {
			for n, over := 0, false; !over; n++ {
				if n > 300 {
					t.Fatal("it never ends")
				}
				k := newKeeper(t)
				c.prepare(k)
				method, path, body := c.request(k)
				before, lines := partOf(k.is(), c.part), len(k.lines())
				value, _ := k.srv.opt.Vault.Get("SHOP_KEY")
				start := k.disk.Ops()
				k.disk.CutAfter(n)
				status, answer := k.ask(method, path, body)
				over = k.disk.Ops()-start < n
				if over && status/100 != 2 {
					t.Fatalf("nothing was cut: %d %s", status, answer)
				}
				token := ""
				if status == http.StatusCreated {
					var p Paired
					if err := json.Unmarshal([]byte(answer), &p); err != nil {
						t.Fatal(err)
					}
					token = p.Token
				}
				k.cut(uint64(n))
				is, said := k.is(), k.said()
				if !maps.Equal(is, said) {
					t.Fatalf("cut after %d of its operations: the files say %v, the log %v", n, is, said)
				}
				after := partOf(is, c.part)
				now, _ := k.srv.opt.Vault.Get("SHOP_KEY")
				changed := after != before || now != value
				if status/100 == 2 && !changed {
					t.Fatalf("cut after %d: it was answered %s and is not there", n, answer)
				}
				if token != "" {
					if _, _, err := k.srv.opt.Devices.Check(token); err != nil {
						t.Fatal(err)
					}
				}
				row := rowOf(method, status, changed, k.lines()[lines:])
				if rows[row]++; row == "a change without a line" {
					t.Errorf("cut after %d: %s, %s and then %s: %v", n, row, before, after, k.lines()[lines:])
				}
				if err := k.srv.Mend(t.Context()); err != nil || len(k.said()) != len(said) {
					t.Fatal("a second look finds more to mend", err)
				}
				k.log.Close()
			}
		})
	}
	doc, err := os.ReadFile("../../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^\| ((?:change|pair|remove)-[a-z]+) \|`).FindAllStringSubmatch(string(doc), -1) {
		if rows[m[1]] == 0 {
			t.Errorf("no cut came to %s of docs/faults.md: %v", m[1], rows)
		}
		delete(rows, m[1])
	}
	delete(rows, "answered")
	if len(rows) > 0 {
		t.Errorf("docs/faults.md has no %v", rows)
	}
}

func (k *keeper) lines() []string {
	var out []string
	err := k.log.Read(k.t.Context(), 0, func(line []byte, _ func() (actionlog.Event, error)) error {
		out = append(out, string(line))
		return nil
	})
	if err != nil {
		k.t.Fatal(err)
	}
	return out
}

// rowOf is the row of docs/faults.md that a cut came to.
func rowOf(method string, status int, changed bool, since []string) string {
	mended, logged := false, false
	for _, l := range since {
		ours := strings.Contains(l, `"what":"device `) || strings.Contains(l, `"what":"vault key`) || strings.Contains(l, `"what":"settings"`)
		mended = mended || ours && strings.Contains(l, byStart)
		logged = logged || ours && !strings.Contains(l, byStart)
	}
	switch {
	case status/100 == 2:
		return "answered"
	case method == "POST" && mended:
		return "pair-unlogged"
	case method == "POST" && logged:
		return "pair-logged"
	case method == "DELETE" && mended && slices.ContainsFunc(since, func(l string) bool { return strings.Contains(l, "device removed") }):
		return "remove-unlogged"
	case mended:
		return "change-unlogged"
	case logged:
		return "change-logged"
	case !changed:
		return "change-unwritten"
	}
	return "a change without a line"
}

// What was changed by hand while the box was off has its line too.
func TestChangesByHandHaveALine(t *testing.T) {
	k := newKeeper(t)
	k.done("PUT", "/api/vault/SHOP_KEY", "a value of some length")
	k.done("PUT", "/api/vault/OLD_KEY", "an old value")
	k.log.Close()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(k.home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("vault.env", "SHOP_KEY=a value put in by hand\nNEW_KEY=a new value\n")
	write("settings.json", `{"version":1,"settings":{"keepDays":3}}`)
	if err := os.Mkdir(filepath.Join(k.home, "workspaces", "mine"), 0o755); err != nil {
		t.Fatal(err)
	}
	k.start()
	if is, said := k.is(), k.said(); !maps.Equal(is, said) || is["setting keepDays"] != "3" || len(is) != 4 {
		t.Errorf("the files say %v, the log %v", is, said)
	}
	for _, l := range k.lines() {
		if strings.Contains(l, "by hand") {
			t.Error(l)
		}
	}
}

// A pairing whose line can't be written leaves no device, and neither does the next start.
func TestPairingWithoutALineIsNone(t *testing.T) {
	k := newKeeper(t)
	code, err := k.srv.opt.Devices.Code(device.Owner)
	if err != nil {
		t.Fatal(err)
	}
	k.disk.Fail(func(op powercut.Op) error {
		if strings.HasPrefix(op.Path, "log.") {
			return errors.New("broken")
		}
		return nil
	})
	if status, answer := k.ask("POST", "/api/pair", fmt.Sprintf(`{"code":%q,"name":"phone"}`, code.Code)); status != 503 || strings.Contains(answer, "token") {
		t.Errorf("%d %s", status, answer)
	}
	if l := k.srv.opt.Devices.List(); len(l) != 0 {
		t.Errorf("%v stays", l)
	}
}
