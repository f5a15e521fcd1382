package leak

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// stream passes text through a writer in pieces of the given sizes.
func stream(t testing.TB, s *Set, text string, size func() int) string {
	t.Helper()
	var out strings.Builder
	w := s.Writer(&out)
	for len(text) > 0 {
		n := min(size(), len(text))
		if _, err := w.Write([]byte(text[:n])); err != nil {
			t.Fatal(err)
		}
		text = text[n:]
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestWriterFindsWhatReplaceFinds holds that no border of writes hides a secret, in
// any spelling.
func TestWriterFindsWhatReplaceFinds(t *testing.T) {
	for _, v := range append(values, "on", "short") {
		s := NewSet(Secret{"KEY", v}, Secret{"OTHER", "sk_live_4242abcd-longer"})
		for name, text := range spelled(t, v) {
			for _, whole := range []string{text, "before " + text + " between " + text, "x" + text + "y", text + text[:len(text)/2]} {
				want := s.Replace(whole)
				for _, size := range []int{1, 2, 3, 7, 64} {
					if got := stream(t, s, whole, func() int { return size }); got != want {
						t.Errorf("%s of %q in pieces of %d: %q, want %q", name, v, size, got, want)
					}
				}
			}
		}
	}
}

// TestWriterHoldsLittleBack holds that a stream is not kept waiting.
func TestWriterHoldsLittleBack(t *testing.T) {
	s := NewSet(Secret{"KEY", "sk_live_4242abcd"})
	var out strings.Builder
	w := s.Writer(&out)
	for _, c := range []struct{ write, have string }{
		{"data: hello\n\n", "data: hello\n\n"},
		{"a sk_li", "data: hello\n\na "},
		{"p", "data: hello\n\na sk_lip"},
		{" sk_live_4242abc", "data: hello\n\na sk_lip "},
		{"d.", "data: hello\n\na sk_lip [KEY]."},
	} {
		if _, err := w.Write([]byte(c.write)); err != nil || out.String() != c.have {
			t.Errorf("after %q: %q, %v, want %q", c.write, out.String(), err, c.have)
		}
	}
	out.Reset()
	if _, err := w.Write([]byte(strings.Repeat(`\`, 1<<20))); err != nil || out.Len() < 1<<19 {
		t.Errorf("of 1 MiB of backslashes %d bytes went on, %v", out.Len(), err)
	}
}

// FuzzWriter holds the writer against Replace.
func FuzzWriter(f *testing.F) {
	f.Add("sk_live_4242abcd", "x sk_live_4242ab sk_live_4242abcd %73k_live\\u005f4242abcd", uint64(1))
	f.Add(`back\\slashes\`, `back\\\\slashes\\ back\\slashes\`, uint64(2))
	f.Fuzz(func(t *testing.T, value, text string, seed uint64) {
		s := NewSet(Secret{"KEY", value})
		r := rand.New(rand.NewPCG(seed, 1))
		if got, want := stream(t, s, text, func() int { return 1 + r.IntN(9) }), s.Replace(text); got != want {
			t.Errorf("%q in %q: %q, want %q", value, text, got, want)
		}
	})
}
