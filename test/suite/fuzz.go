package suite

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"time"
)

// How long each fuzz target is run for: a while whenever all is tested, so that what a change broke shows soon, and a minute by the long forms. The quick loop
// runs its corpus alone, as any test. The corpora are in the packages' testdata/fuzz.
const (
	fuzzShort = 5 * time.Second
	fuzzLong  = time.Minute
)

func (o Options) fuzzTime() time.Duration {
	if o.All {
		return fuzzLong
	}
	return fuzzShort
}

// target is one fuzz target.
type target struct{ pkg, name string }

var fuzzFunc = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(\w+ \*testing\.F\)`)

// targets finds the fuzz targets of the tree.
func targets(root fs.FS) (found []target, err error) {
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); name != "." && (n[0] == '.' || n[0] == '_' || n == "node_modules" || n == "testdata" || n == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		text, err := fs.ReadFile(root, name)
		for _, m := range fuzzFunc.FindAllSubmatch(text, -1) {
			found = append(found, target{path.Join("gurtos", path.Dir(name)), string(m[1])})
		}
		return err
	})
	return found, err
}

// fuzz runs each target for its time. What one finds, go test puts into the target's corpus, where it stays until it is mended.
func (o Options) fuzz(ctx context.Context) (c Count, err error) {
	all, err := targets(os.DirFS(o.Root))
	if err != nil {
		return c, err
	}
	line := o.Show.Begin("fuzzing")
	defer func() { line.End(err) }()
	for _, t := range all {
		if !strings.Contains(t.pkg, o.Match) {
			continue
		}
		line.Say(strings.TrimPrefix(t.pkg, "gurtos/") + " " + t.name)
		text, err := o.command(ctx, "test", "-run=^$", "-fuzz=^"+t.name+"$", fmt.Sprint("-fuzztime=", o.fuzzTime()), t.pkg).CombinedOutput()
		if ctx.Err() != nil {
			return c, context.Cause(ctx)
		}
		if err == nil {
			c.Passed++
			continue
		}
		c.Failed++
		out := o.Show.Above(o.Out)
		fmt.Fprintf(out, "FAIL %s %s\n", t.pkg, t.name)
		for l := range strings.Lines(string(text)) {
			fmt.Fprintf(out, "  | %s\n", strings.TrimRight(l, "\n"))
		}
	}
	fmt.Fprintf(o.Show.Above(o.Out), "fuzzed for %v each: %v\n", o.fuzzTime(), c)
	return c, nil
}
