package leak

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// values that the spellings must be found of: plain words, what URL and JSON
// escape, and what needs more than one byte a character.
var values = []string{"sk_live_4242abcd", `a b&c="d"/e\f+g`, "pass wörd-ключ", "key😀with😀astral", "0123456789abcdef", `back\\slashes\`, "<script>&amp;"}

func spelled(t testing.TB, v string) map[string]string {
	quote := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	all := &strings.Builder{}
	pct := &strings.Builder{}
	for _, c := range []byte(v) {
		fmt.Fprintf(pct, "%%%02x", c)
	}
	for _, r := range v {
		if r > 0xffff {
			fmt.Fprintf(all, `\u%04x\u%04X`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		} else {
			fmt.Fprintf(all, `\u%04x`, r)
		}
	}
	m := map[string]string{
		"plain":            v,
		"query":            url.QueryEscape(v),
		"path":             url.PathEscape(v),
		"query twice":      url.QueryEscape(url.QueryEscape(v)),
		"all percent":      pct.String(),
		"JSON":             quote(v),
		"JSON in JSON":     quote(quote(v)),
		"JSON three times": quote(quote(quote(v))),
		"slash escaped":    strings.ReplaceAll(quote(v), "/", `\/`),
		"all \\u":          all.String(),
		"hex":              hex.EncodeToString([]byte(v)),
		"HEX":              strings.ToUpper(hex.EncodeToString([]byte(v))),
		"query of JSON":    url.QueryEscape(quote(v)),
	}
	for pre := range 3 {
		for post := range 3 {
			s := []byte(strings.Repeat("x", pre) + v + strings.Repeat("y", post))
			for name, enc := range map[string]*base64.Encoding{"std": base64.StdEncoding, "url": base64.URLEncoding, "raw": base64.RawStdEncoding} {
				m[fmt.Sprintf("base64 %s %d %d", name, pre, post)] = enc.EncodeToString(s)
			}
			m[fmt.Sprintf("base64 in a query %d %d", pre, post)] = url.QueryEscape(base64.StdEncoding.EncodeToString(s))
		}
	}
	return m
}

func TestEverySpellingIsFound(t *testing.T) {
	for _, v := range values {
		set := NewSet(Secret{"KEY", v})
		for name, s := range spelled(t, v) {
			if name == "query of JSON" && strings.ContainsAny(v, `"\<>&`) {
				continue // an escape of an escape: each character stands for part of another
			}
			for _, text := range []string{s, "before " + s + " after", "%" + s + "\\"} {
				if !set.In(text) {
					t.Errorf("%q %s is not found in %q", v, name, text)
				}
			}
			if got := set.Replace("a." + s + ".z"); !strings.HasPrefix(got, "a.") || !strings.HasSuffix(got, ".z") || !strings.Contains(got, "[KEY]") {
				t.Errorf("%q %s: %q", v, name, got)
			}
		}
	}
}

func TestOrdinaryTextIsLeftAlone(t *testing.T) {
	set := NewSet(Secret{"KEY", "sk_live_4242abcd"}, Secret{"PIN", "on"}, Secret{"EMPTY", ""})
	for _, s := range []string{"", "sk_live_4242abc", "sk_live_4242 abcd", "common", "on_", "onß", "%73k_", `\u0073k`, `\`, "%", "%2", "%25", `\u00`} {
		if got := set.Replace(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
	if got := set.Replace("turn on, (on) on"); got != "turn [PIN], ([PIN]) [PIN]" {
		t.Errorf("%q", got)
	}
}

func TestLongestFirst(t *testing.T) {
	set := NewSet(Secret{"A", "abcdefgh"}, Secret{"B", "abcdefghijkl"})
	if got := set.Replace("abcdefghijkl abcdefgh"); got != "[B] [A]" {
		t.Error(got)
	}
}

func TestReplaceJSON(t *testing.T) {
	set := NewSet(Secret{"KEY", "sk_live_4242"}, Secret{"NUM", "1234567890"})
	for _, c := range []struct{ in, want string }{
		{`{"a": "x sk_live_4242 y" , "b":[1, 2.0]}`, `{"a": "x [KEY] y" , "b":[1, 2.0]}`},
		{`{"sk_live_4242":1}`, `{"[KEY]":1}`},
		{`{"a":"sk_l\u0069ve\u005f4242"}`, `{"a":"[KEY]"}`},
		{`{"a":1234567890}`, `{"a":"[NUM]"}`},
		{`{"a":-1234567890.5}`, `{"a":"-[NUM].5"}`},
		{`{"a":"{\"b\":\"sk_live_4242\"}"}`, `{"a":"{\"b\":\"[KEY]\"}"}`},
		{`{"a" : "nothing\u0020here"}`, `{"a" : "nothing\u0020here"}`},
	} {
		got := set.ReplaceJSON(json.RawMessage(c.in))
		if string(got) != c.want || !json.Valid(got) {
			t.Errorf("%s: %s, want %s", c.in, got, c.want)
		}
	}
}

func FuzzReplace(f *testing.F) {
	f.Add("sk_live_4242abcd", `{"a":"sk_live"}`)
	f.Add(`a"b\c/d e`, `%5c`)
	f.Fuzz(func(t *testing.T, value, text string) {
		set := NewSet(Secret{"K", value})
		set.Replace(text)
		set.ReplaceJSON(json.RawMessage(text))
		if len(value) >= 64 && !set.In(text+value) {
			t.Fatal("not found behind other text")
		}
	})
}

func BenchmarkReplaceMegabyte(b *testing.B) {
	var secrets []Secret
	for i := range 20 {
		secrets = append(secrets, Secret{fmt.Sprint("K", i), fmt.Sprintf("%d_secret_value_%d", i, i*7919)})
	}
	set := NewSet(secrets...)
	text := strings.Repeat("The quick brown fox 0123456789abcdef jumps.\n", 1<<20/44)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		set.Replace(text)
	}
}

// What is hostile to the search and holds no secret costs time in step with its length:
// four times the text is far from sixteen times the work. A run of backslashes was
// read anew from each of its bytes, which kept a core for hours on one call of 10 MB.
func TestHostileTextIsReadInStepWithItsLength(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	set := NewSet(Secret{"KEY", "AKIAABCDEFGHIJKLMNOP"}, Secret{"BACK", `back\\slashes\`}, Secret{"SHORT", "abc"})
	for _, part := range []string{`\`, `\u`, `A\`, `%25`, `%`, `25%2525`, `\\u0041`, `A`, `back\`, `41`, `QUtJQU`} {
		work := func(n int) time.Duration {
			best := time.Hour
			for range 3 {
				text := strings.Repeat(part, n/len(part))
				began := used(t)
				set.In(text)
				best = min(best, used(t)-began)
			}
			return best
		}
		small, large := work(20_000), work(80_000)
		if large > 10*small+20*time.Millisecond {
			t.Errorf("%q: %v for 20 KB, %v for 80 KB", part, small, large)
		}
	}
}

// used is the processor's time that this thread has had: what else the machine does is no part of it.
func used(t *testing.T) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// A value is found behind, before and within runs of backslashes.
func TestBackslashesHideNothing(t *testing.T) {
	for _, v := range []string{"sk_live_4242abcd", `\begins-with`, `ends-with\`} {
		set := NewSet(Secret{"KEY", v})
		for n := range 6 {
			text := strings.Repeat(`\`, n)
			if !set.In(text+v) || !set.In(text+v+text) {
				t.Errorf("%q is not found behind %d backslashes", v, n)
			}
			if n > 0 && !set.In(text+fmt.Sprintf(`u%04x`, v[0])+v[1:]) {
				t.Errorf("%q is not found with its first character escaped by %d backslashes", v, n)
			}
		}
	}
}
