package broker_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gurtos/core/actionlog"
	"gurtos/core/broker"
	"gurtos/core/durable"
	"gurtos/core/leak"
	"gurtos/core/task"
	"gurtos/core/tool"
	"gurtos/core/vault"
)

// keys are the false keys that a task finds in its environment.
func (b *box) keys(id string) (out []string) {
	for _, e := range b.runner.get(id).spec.Env {
		if v, ok := strings.CutPrefix(e, "AWS_ACCESS_KEY_ID="); ok {
			out = append(out, v)
		}
		if v, ok := strings.CutPrefix(e, "AWS_SECRET_ACCESS_KEY="); ok {
			out = append(out, v)
		}
	}
	if len(out) != 2 {
		b.t.Fatal(out)
	}
	return out
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// spellings are inputs that hold a secret in every way that is looked for.
func spellings(k string) map[string]string {
	esc := ""
	for _, c := range k {
		esc += fmt.Sprintf(`\u%04x`, c)
	}
	pct := ""
	for _, c := range []byte(k) {
		pct += fmt.Sprintf("%%%02X", c)
	}
	h, n := len(k)/2, len(k)
	m := map[string]string{
		"plain":                 fmt.Sprintf(`{"n":%s}`, quoted("key="+k+"!")),
		"a name":                fmt.Sprintf(`{%s:1}`, quoted(k)),
		"deep":                  fmt.Sprintf(`{"n":[[{"x":[%s]}]]}`, quoted(k)),
		"JSON escapes":          `{"n":"` + esc + `"}`,
		"JSON in JSON":          fmt.Sprintf(`{"n":%s}`, quoted(`{"a":"`+esc+`"}`)),
		"URL":                   fmt.Sprintf(`{"n":%s}`, quoted("http://x/?a="+url.QueryEscape(k))),
		"URL all":               fmt.Sprintf(`{"n":%s}`, quoted(pct)),
		"hex":                   fmt.Sprintf(`{"n":%s}`, quoted("00"+hex.EncodeToString([]byte(k))+"ff")),
		"HEX":                   fmt.Sprintf(`{"n":%s}`, quoted(strings.ToUpper(hex.EncodeToString([]byte(k))))),
		"two fields":            fmt.Sprintf(`{"a":%s,"b":%s}`, quoted(k[:h]), quoted(k[h:])),
		"two fields turned":     fmt.Sprintf(`{"a":%s,"b":%s}`, quoted(k[h:]), quoted(k[:h])),
		"two fields, one short": fmt.Sprintf(`{"a":%s,"b":{"c":%s}}`, quoted(k[:3]), quoted(k[3:])),
		"the last one short":    fmt.Sprintf(`["x",%s,7,%s]`, quoted(k[:n-3]), quoted(k[n-3:])),
		"five in a row":         fmt.Sprintf(`{"n":[%s,%s,%s,%s,%s]}`, quoted(k[:4]), quoted(k[4:8]), quoted(k[8:12]), quoted(k[12:16]), quoted(k[16:])),
		"five fields":           fmt.Sprintf(`{"a":%s,"b":%s,"c":%s,"d":%s,"e":%s}`, quoted(k[:4]), quoted(k[4:8]), quoted(k[8:12]), quoted(k[12:16]), quoted(k[16:])),
		"two fields in base64": fmt.Sprintf(`{"a":%s,"b":%s}`, quoted(base64.StdEncoding.EncodeToString([]byte(k[:h]))),
			quoted(base64.StdEncoding.EncodeToString([]byte(k[h:])))),
		"broken into lines": fmt.Sprintf(`{"n":%s}`, quoted(k[:7]+"\n "+k[7:])),
	}
	for pad := range 3 {
		raw := []byte(strings.Repeat("x", pad) + k + "yz")
		m[fmt.Sprintf("base64 at %d", pad)] = fmt.Sprintf(`{"n":%s}`, quoted(base64.StdEncoding.EncodeToString(raw)))
		m[fmt.Sprintf("base64url at %d", pad)] = fmt.Sprintf(`{"n":%s}`, quoted(base64.RawURLEncoding.EncodeToString(raw)))
	}
	return m
}

// A call with the task's false key in it, however it is spelled, is refused, the task
// is undone, and the owner is told without the value.
func TestCanaryUndoesTheTask(t *testing.T) {
	shop := &till{}
	free := shop.tool("shop.buy")
	free.Input, free.Cost, free.Card = nil, nil, nil
	b := newBox(t, boxOptions{tools: toolSet{"shop.buy": free}})
	for which := range 2 {
		for name := range spellings(strings.Repeat("k", 40)) {
			id := b.begin(buys)
			key := b.keys(id)[which]
			a := b.post(id, "/call", fmt.Sprintf(`{"key":"k","tool":"shop.buy","input":%s}`, spellings(key)[name]))
			if a.raw != `{"ok":false,"error":"refused by GurtOS"}`+"\n" {
				t.Errorf("key %d, %s: %v", which, name, a)
				continue
			}
			b.until(id, task.Undone)
			notes := b.events(actionlog.TypeNote, id)
			if len(notes) != 1 || !strings.Contains(string(notes[0].Data), `"what":"alert"`) {
				t.Errorf("%s: %v", name, notes)
			}
			if strings.Contains(b.kinds(id), "tool.call") {
				t.Errorf("%s: %s", name, b.kinds(id))
			}
		}
	}
	raw, err := os.ReadFile(filepath.Join(b.home, "disk", "log.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for id := range b.runner.boxes {
		for _, k := range b.keys(id) {
			if strings.Contains(string(raw), k[:len(k)/2]) {
				t.Errorf("a canary of %s stands in the log", id)
			}
		}
	}
	if shop.total() != 0 {
		t.Errorf("the tool ran %d times", shop.total())
	}
}

// The canary is the task's own and lasts; calls without it go through.
func TestCanaryIsUniqueAndLasts(t *testing.T) {
	shop := &till{}
	free := shop.tool("shop.buy")
	free.Input, free.Cost, free.Card = nil, nil, nil
	b := newBox(t, boxOptions{tools: toolSet{"shop.buy": free}})
	one, two := b.begin(buys), b.begin(buys)
	k1, k2 := b.keys(one), b.keys(two)
	if k1[0] == k2[0] || k1[1] == k2[1] || len(k1[0]) != 20 || len(k1[1]) != 40 || !strings.HasPrefix(k1[0], "AKIA") {
		t.Fatal(k1, k2)
	}
	b.restart()
	b.runner.wait(t, one)
	if again := b.keys(one); again[0] != k1[0] || again[1] != k1[1] {
		t.Fatal(again, k1)
	}
	for i, input := range []string{`{"n":"AKIA"}`, `{"n":` + quoted(k1[1][:8]) + `}`, `{"n":` + quoted(strings.Repeat("AKIAABCDEFGH234567XY ", 50)) + `}`} {
		if a := b.call(one, fmt.Sprint("k", i), "shop.buy", input); a.body["ok"] != true {
			t.Errorf("%.60s: %v", input, a)
		}
	}
}

// No value of the vault comes back from a tool: not in its output, its errors, its
// steps, its questions or its costs, in any spelling.
func TestVaultStaysOutOfResults(t *testing.T) {
	home := t.TempDir()
	if err := os.Chmod(home, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(home, "vault.env")
	if err := vault.Create(durable.Disk, path); err != nil {
		t.Fatal(err)
	}
	v, err := vault.Open(durable.Disk, path)
	if err != nil {
		t.Fatal(err)
	}
	const secret = "sk_live_51HabcdEFGHijklMNOPqrst"
	if err := v.Set("STRIPE_SECRET_KEY", secret); err != nil {
		t.Fatal(err)
	}
	shop := &till{}
	shop.out = func(call tool.Call, raw json.RawMessage) (json.RawMessage, error) {
		if err := call.Log("using "+secret, json.RawMessage(`{"key":"`+secret+`"}`)); err != nil {
			return nil, err
		}
		if err := call.Cost(centsOf("1"), "with "+secret); err != nil {
			return nil, err
		}
		if strings.HasSuffix(call.Key(), ".err") {
			return nil, fmt.Errorf("401 for %s", base64.StdEncoding.EncodeToString([]byte("x"+secret)))
		}
		out := "["
		for _, s := range []string{secret, url.QueryEscape(secret), hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte("ab" + secret))} {
			out += quoted("<"+s+">") + ","
		}
		return json.RawMessage(out + `{"` + secret + `":1}]`), nil
	}
	b := newBox(t, boxOptions{tools: toolSet{"shop.buy": shop.tool("shop.buy")}, vault: v})
	id := b.begin(buys)
	for _, key := range []string{"ok", "err"} {
		a := b.call(id, key, "shop.buy", fmt.Sprintf(`{"cents":1,"n":%q}`, key))
		if leak.NewSet(leak.Secret{Name: "S", Value: secret}).In(a.raw) || !strings.Contains(a.raw, "[STRIPE_SECRET_KEY]") {
			t.Errorf("%s: %s", key, a)
		}
	}
	raw, err := os.ReadFile(filepath.Join(b.home, "disk", "log.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if leak.NewSet(leak.Secret{Name: "S", Value: secret}).In(string(raw)) {
		t.Error("the secret stands in the log")
	}
}

// FuzzCanary holds that a canary put anywhere into any JSON is found, and that what
// holds none is let through.
func FuzzCanary(f *testing.F) {
	f.Add(`{"n":"x"}`, "a", byte(0))
	f.Add(`[1,{"a":"b"}]`, "%41", byte(3))
	f.Add(`{}`, `\u0041`, byte(5))
	dir := f.TempDir()
	c, err := broker.NewCanary(dir)
	if err != nil {
		f.Fatal(err)
	}
	id, secret := c.Keys("t1")
	f.Fuzz(func(t *testing.T, doc, around string, how byte) {
		if !json.Valid([]byte(doc)) || len(doc) > 1<<16 {
			return
		}
		if broker.Trapped(id, secret, doc) {
			t.Fatalf("%q holds no canary", doc)
		}
		k := []string{id, secret}[how&1]
		all := spellings(k)
		names := slices.Sorted(maps.Keys(all))
		name := names[int(how>>1)%len(names)]
		with := fmt.Sprintf(`[%s,%s,%s]`, doc, quoted(around), all[name])
		if !broker.Trapped(id, secret, with) {
			t.Fatalf("%s is not found in %q", name, with)
		}
	})
}
