package suite

import (
	"bytes"
	"strings"
	"testing"
)

func TestCount(t *testing.T) {
	for _, c := range []struct {
		holds  string
		events string
		want   string
		said   []string
	}{
		{"a passing and a skipped test", `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:3: no KVM here\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"pass","Package":"p","Elapsed":1}`, "1 passed, 0 failed, 1 skipped", nil},
		{"subtests count in place of their parent", `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/x"}
{"Action":"run","Package":"p","Test":"TestA/y"}
{"Action":"output","Package":"p","Test":"TestA/y","Output":"    a_test.go:9: wrong\n"}
{"Action":"pass","Package":"p","Test":"TestA/x"}
{"Action":"fail","Package":"p","Test":"TestA/y"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p","Elapsed":1}`, "1 passed, 1 failed, 0 skipped", []string{"FAIL p", "--- p TestA/y", "| ", "wrong"}},
		{"a parent that fails by itself", `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/x"}
{"Action":"pass","Package":"p","Test":"TestA/x"}
{"Action":"output","Package":"p","Test":"TestA","Output":"after all\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p","Elapsed":1}`, "1 passed, 1 failed, 0 skipped", []string{"after all"}},
		{"a package that doesn't compile", `
{"ImportPath":"p [p.test]","Action":"build-output","Output":"p.go:3: undefined: x\n"}
{"ImportPath":"p [p.test]","Action":"build-fail"}
{"Action":"start","Package":"p"}
{"Action":"fail","Package":"p","Elapsed":0,"FailedBuild":"p [p.test]"}`, "0 passed, 1 failed, 0 skipped", []string{"undefined: x"}},
		{"a process that dies in a test", `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"signal: killed\n"}
{"Action":"fail","Package":"p","Elapsed":1}`, "0 passed, 1 failed, 0 skipped", []string{"signal: killed"}},
		{"a package without tests says nothing", `
{"Action":"output","Package":"p","Output":"?   p [no test files]\n"}
{"Action":"skip","Package":"p","Elapsed":0}`, "0 passed, 0 failed, 0 skipped", nil},
	} {
		var out bytes.Buffer
		r := newReader(&out, func(string) {})
		if err := r.read(strings.NewReader(strings.TrimSpace(c.events))); err != nil {
			t.Fatal(err)
		}
		if got := r.count.String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.holds, got, c.want)
		}
		for _, s := range c.said {
			if !strings.Contains(out.String(), s) {
				t.Errorf("%s: %q is not said in:\n%s", c.holds, s, &out)
			}
		}
	}
}

func TestSkipsSayWhy(t *testing.T) {
	r := newReader(&bytes.Buffer{}, func(string) {})
	r.take(event{Action: "run", Package: "p", Test: "TestB"})
	r.take(event{Action: "output", Package: "p", Test: "TestB", Output: "    b_test.go:2: seed 7\n"})
	r.take(event{Action: "output", Package: "p", Test: "TestB", Output: "    b_test.go:3: no KVM here\n"})
	r.take(event{Action: "skip", Package: "p", Test: "TestB"})
	r.take(event{Action: "pass", Package: "p"})
	if len(r.skips) != 1 || r.skips[0] != "p TestB: no KVM here" {
		t.Errorf("%q", r.skips)
	}
}

func TestFindings(t *testing.T) {
	r := newReader(&bytes.Buffer{}, func(string) {})
	r.take(event{Action: "attr", Package: "gurtos/test/boot", Test: "TestCut", Key: "reliability", Value: "100 cuts"})
	if len(r.findings) != 1 || r.findings[0].Value != "100 cuts" {
		t.Errorf("%+v", r.findings)
	}
}
