package layers

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestUnifiedPatches holds that patch(1) turns the old text into the new one by
// what unified writes, for texts of many shapes.
func TestUnifiedPatches(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal("needs git")
	}
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(1, 2))
	text := func(n, words int) []string {
		l := make([]string, n)
		for i := range l {
			l[i] = fmt.Sprintf("line %d\n", r.IntN(words))
		}
		return l
	}
	var patches bytes.Buffer
	want := map[string]string{}
	for i := range 60 {
		n := []int{0, 1, 5, 40, 1500}[i%5]
		words := []int{2, 10, 100000}[i%3]
		a := text(n, words)
		b := append([]string(nil), a...)
		for range r.IntN(1 + n) {
			switch at := r.IntN(len(b) + 1); r.IntN(3) {
			case 0:
				b = append(b[:at:at], append(text(1+r.IntN(3), words), b[at:]...)...)
			case 1:
				if at < len(b) {
					b = append(b[:at:at], b[at+1:]...)
				}
			case 2:
				if at < len(b) {
					b[at] = "changed\n"
				}
			}
		}
		if i%4 == 0 {
			a, b = b, text(r.IntN(900), words)
		}
		x, y := strings.Join(a, ""), strings.Join(b, "")
		if i%2 == 0 {
			x = strings.TrimSuffix(x, "\n")
		}
		if i%7 == 0 {
			y = strings.TrimSuffix(y, "\n")
		}
		if x == y || x == "" || y == "" {
			continue
		}
		name := fmt.Sprintf("f%d", i)
		os.WriteFile(filepath.Join(dir, name), []byte(x), 0o644)
		fmt.Fprintf(&patches, "diff --git a/%s b/%s\n--- a/%s\n+++ b/%s\n", name, name, name, name)
		unified(&patches, []byte(x), []byte(y))
		want[name] = y
	}
	c := exec.Command("git", "apply", "--whitespace=nowarn", "-")
	c.Dir, c.Stdin = dir, &patches
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v %s", err, out)
	}
	for name, y := range want {
		if got, _ := os.ReadFile(filepath.Join(dir, name)); string(got) != y {
			t.Errorf("%s: patched to something else", name)
		}
	}
}

func TestUnifiedIsShortest(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{"a\nb\nc\n", "a\nc\n", "@@ -1,3 +1,2 @@\n a\n-b\n c\n"},
		{"", "a\n", "@@ -0,0 +1 @@\n+a\n"},
		{"a", "a\n", "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"},
		{"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n5\n6\n7\n8\n9\n", "@@ -2,6 +2,7 @@\n 2\n 3\n 4\n+x\n 5\n 6\n 7\n"},
		{"a\nb\nc\na\nb\nb\na\n", "c\nb\na\nb\na\nc\n", "@@ -1,7 +1,6 @@\n-a\n-b\n c\n+b\n a\n b\n-b\n a\n+c\n"},
	} {
		var out bytes.Buffer
		unified(&out, []byte(c.a), []byte(c.b))
		if out.String() != c.want {
			t.Errorf("%q to %q:\n%swant\n%s", c.a, c.b, &out, c.want)
		}
	}
}

// TestDiffRebuildsTheTask applies a layer's diff to a copy of what the task saw.
func TestDiffRebuildsTheTask(t *testing.T) {
	m := newMounter(t)
	dir := t.TempDir()
	base := ownedBase(t, dir, `
		mkdir -p d/e; seq 1 100 > d/n; echo gone > gone; echo run > s; ln -s a l; echo typ > typ
		printf 'no end' > "odd \"name"; echo x > "with space"; echo u > $'\xff\xfe'; printf '\0\1' > bin; seq 1 300000 > large`)
	a := View{Base: base, Layer: newLayer(t, dir+"/a")}
	inTask(t, m, a, `
		sed -i 's/^50$/fifty/;/^7$/d' d/n; rm gone; chmod +x s; ln -sf b l; rm typ; ln -s to typ
		printf 'no end\n' > "odd \"name"; echo y >> "with space"; echo v > $'\xff\xfe'; mv d/e d/f; echo n > d/f/new`)
	live, err := Diff(t.Context(), a, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := Seal(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	diff, err := Diff(t.Context(), View{Layer: a.Layer}, "")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(live, diff) {
		t.Errorf("the running task's diff was\n%s\nthe sealed one's is\n%s", live, diff)
	}
	var lines []string
	for l := range strings.SplitAfterSeq(string(diff), "\n") {
		if !strings.HasPrefix(l, "Folder ") {
			lines = append(lines, l)
		}
	}
	c := exec.Command("git", "apply", "-v", "-")
	c.Dir, c.Stdin = base, strings.NewReader(strings.Join(lines, ""))
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v %s\n%s", err, out, diff)
	}
	folder := func(s string) bool { return strings.HasSuffix(s, "/") } // git leaves emptied ones
	want := slices.DeleteFunc(shown(t, View{Base: base, Lowers: []string{a.Layer}}), folder)
	got := slices.DeleteFunc(shown(t, View{Base: base}), folder)
	if !slices.Equal(got, want) {
		t.Errorf("patched %q\nwant    %q", got, want)
	}
	b := runTask(t, m, base, nil, dir+"/b", `printf '\0\2' > bin; echo 1 >> large`)
	for p, want := range map[string]string{
		"bin":   "diff --git a/bin b/bin\nBinary files a/bin and b/bin differ\n",
		"large": "diff --git a/large b/large\nFiles a/large and b/large differ (too large to show: 1988895 bytes; too large to show: 1988897 bytes)\n",
	} {
		if got, err := Diff(t.Context(), View{Layer: b.Layer}, p); err != nil || string(got) != want {
			t.Errorf("%s: %s %v; want %s", p, got, err, want)
		}
	}
	if _, err := Diff(t.Context(), View{Layer: b.Layer}, "nothing"); err == nil {
		t.Error("a diff of nothing")
	}
}
