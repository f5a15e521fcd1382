// Package planted puts random values into a vault under test and searches for them wherever they must never get: action log, answers, metrics, stores of
// apps, what boxd prints. Every suite that runs a box plants some and searches at its end; test/imports holds it to that.
package planted

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Vault is the file that may hold the values.
const Vault = "vault.env"

// most is how many bytes of a file are searched: what a box writes of its own is smaller, and a task may write 5 GB.
const most = 64 << 20

// Values are keys and their values.
type Values map[string]string

// New are values of these keys, and of two more that nobody asks for: one of letters and digits, and one that each spelling writes in another way.
func New(keys ...string) Values {
	v := Values{"PLANTED_KEY": "pl" + rand.Text(), "PLANTED_ODD_KEY": "pl" + rand.Text() + `"\/&+ <é`}
	for _, k := range keys {
		v[k] = "pl" + rand.Text()
	}
	return v
}

// Write makes a vault of them in BOX_HOME.
func (v Values) Write(t testing.TB, home string) {
	t.Helper()
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(v)) {
		fmt.Fprintf(&b, "%s=%s\n", name, v[name])
	}
	if err := os.WriteFile(filepath.Join(home, Vault), b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// spellings are a value as it stands, and in base64 at each offset, and in hex.
func spellings(value string) map[string][]byte {
	m := map[string][]byte{"plain": []byte(value), "hex": []byte(hex.EncodeToString([]byte(value))), "HEX": []byte(strings.ToUpper(hex.EncodeToString([]byte(value))))}
	for pad := range 3 {
		for name, enc := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
			s := enc.EncodeToString(append(make([]byte, pad), value...))
			m[fmt.Sprintf("%s at %d", name, pad)] = []byte(s[(pad*8+5)/6 : len(s)-1]) // what the bytes around have no part in
		}
	}
	return m
}

// Find tells which values stand in a text, and how they are spelled there.
func (v Values) Find(text []byte) (found []string) {
	for _, name := range slices.Sorted(maps.Keys(v)) {
		for how, s := range spellings(v[name]) {
			if bytes.Contains(text, s) {
				found = append(found, name+" in "+how)
			}
		}
		// A start of it tells too much already; without the end, which odd characters stand at.
		if start := []byte(v[name][:16]); bytes.Contains(text, start) && !bytes.Contains(text, []byte(v[name])) {
			found = append(found, name+" in part")
		}
	}
	return found
}

// Search fails the test when a value stands in a text.
func (v Values) Search(t testing.TB, what string, text []byte) {
	t.Helper()
	for _, f := range v.Find(text) {
		t.Errorf("the vault's %s stands in %s", f, what)
	}
}

// Files searches every file below a folder but the vault itself.
func (v Values) Files(t testing.TB, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil // a box that runs deletes files
		}
		if err != nil || !d.Type().IsRegular() || p == filepath.Join(dir, Vault) {
			return err
		}
		f, err := os.Open(p)
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, most))
		v.Search(t, strings.TrimPrefix(p, dir+"/"), text)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// answers are what a box tells its own screen.
var answers = []string{
	"/", "/api/health", "/api/openapi.json", "/api/box", "/api/tasks?limit=1000", "/api/approvals", "/api/log", "/api/vault", "/api/apps?all=1",
	"/api/permissions", "/api/settings", "/api/workspaces", "/api/workspaces/home/files", "/api/devices", "/api/spend", "/api/update", "/metrics",
}

// API searches what the box at an address answers to whoever asks.
func (v Values) API(t testing.TB, client *http.Client, url string) {
	t.Helper()
	for _, path := range answers {
		res, err := client.Get(url + path)
		if err != nil {
			return // it is ending, or gone
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err == nil {
			v.Search(t, "GET "+path, text)
		}
	}
}
