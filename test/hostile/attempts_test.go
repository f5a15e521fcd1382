package hostile

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gurtos/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }

// outcome of one attempt.
type outcome struct {
	got bool
	why string
}

// results reads what the attempts program wrote.
func results(t *testing.T, dir string) map[string]outcome {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "results"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]outcome{}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		f := strings.SplitN(s.Text(), " ", 3)
		if len(f) != 3 {
			t.Fatalf("a result %q", s.Text())
		}
		all[f[0]] = outcome{f[1] == "got", f[2]}
	}
	return all
}

// plain are the arguments of unshare for a control.
var plain = []string{"--mount", "--pid", "--fork", "--ipc", "--uts", "--mount-proc"}

// System calls, files and devices.
func TestAttempts(t *testing.T) {
	program := sandboxtest.Program(t, "attempts.c")
	control := t.TempDir()
	c := exec.Command("unshare", append(plain, program, control)...)
	c.ExtraFiles = []*os.File{os.Stderr} // what a careless parent leaves open
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("the control: %v\n%s", err, out)
	}
	want := results(t, control)

	h := sandboxtest.Open(t)
	s := sandboxtest.Spec(t, "/work/attempts", "/work")
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	sandboxtest.Put(t, s, "attempts", b)
	if e := sandboxtest.Start(t, h, s).Wait(); e.Code != 0 {
		t.Fatalf("%+v", e)
	}
	have := results(t, filepath.Join(s.Work.Layer, "upper"))

	var unproven []string
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			inside, ran := have[name]
			if !ran {
				t.Fatal("was not tried")
			}
			if inside.got {
				t.Errorf("succeeds in a sandbox (%s): %s", source, inside.why)
			}
			if !want[name].got {
				unproven = append(unproven, name)
				t.Logf("unproven: the control is refused too: %s", want[name].why)
			}
		})
	}
	if most := len(sources) / 10; len(unproven) > most {
		t.Errorf("%d attempts are unproven, at most %d may be: %q", len(unproven), most, unproven)
	}
	t.Logf("%d attempts, unproven: %q", len(sources), unproven)
	if os.Getenv("BOX_TEST_ALL") != "" && !t.Failed() {
		t.Attr("reliability", fmt.Sprintf("%d attempts to get out of a sandbox, or more than it gives, are refused; of %d the control was refused too on this kernel", len(sources), len(unproven)))
	}
}

// Each attempt names its source, and each source has its attempt.
func TestSources(t *testing.T) {
	b, err := os.ReadFile("attempts.c")
	if err != nil {
		t.Fatal(err)
	}
	tried := map[string]bool{}
	for _, m := range regexp.MustCompile(`\bA\((\w+)\)`).FindAllStringSubmatch(string(b), -1) {
		if m[1] != "f" {
			tried[m[1]] = true
		}
	}
	for name := range tried {
		if sources[name] == "" {
			t.Errorf("%s has no source", name)
		}
	}
	for name := range sources {
		if !tried[name] {
			t.Errorf("%s is not in attempts.c", name)
		}
	}
}
