package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"gurtos/image"
	"gurtos/image/step"
)

// Build is one source tree and its cache.
type Build struct {
	Root    string // the source tree
	Debug   bool   // a debug build: with a shell on the console
	Release Release
	Show    *step.Show

	cache string
	store *step.Store
	lock  image.Lock
}

// Release says which source a build was made from.
type Release struct {
	Version string    `json:"version"`
	Commit  string    `json:"commit"`
	Time    time.Time `json:"built"` // of the commit; the box's clock is never earlier
	Debug   bool      `json:"debug,omitempty"`
}

// Open looks at the source tree in root. The cache is BOX_CACHE, or .cache in root.
func Open(ctx context.Context, root string, debug bool, show *step.Show) (*Build, error) {
	b := &Build{Root: root, Debug: debug, Show: show}
	var err error
	if b.lock, err = image.Recorded(); err != nil {
		return nil, err
	}
	if b.Release, err = release(ctx, root, debug); err != nil {
		return nil, err
	}
	b.cache = os.Getenv("BOX_CACHE")
	if b.cache == "" {
		b.cache = filepath.Join(root, ".cache")
	}
	if b.cache, err = filepath.Abs(b.cache); err != nil {
		return nil, err
	}
	b.store, err = step.Open(b.cache, show)
	return b, err
}

// base is the version that the next release carries.
const base = "0.1.0"

func release(ctx context.Context, root string, debug bool) (Release, error) {
	r := Release{Version: base, Debug: debug}
	out, err := exec.CommandContext(ctx, "git", "-C", root, "log", "-1", "--format=%H %ct").Output()
	f := strings.Fields(string(out))
	epoch := os.Getenv("SOURCE_DATE_EPOCH")
	switch {
	case err == nil && len(f) == 2:
		r.Commit, r.Version = f[0], base+"+"+f[0][:10]
		if epoch == "" {
			epoch = f[1]
		}
	case epoch == "":
		return r, errors.New("this tree is no git checkout, so nobody knows how old it is: set SOURCE_DATE_EPOCH to the seconds since 1970 of its release")
	}
	n, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return r, fmt.Errorf("SOURCE_DATE_EPOCH is %q, not a number of seconds", epoch)
	}
	if debug {
		r.Version += ".debug"
	}
	r.Time = time.Unix(n, 0).UTC()
	return r, nil
}

// epoch is the time that files of the two file systems carry: a day that moves only with their packages.
func (b *Build) epoch() (int64, error) {
	t, err := time.Parse(time.DateOnly, b.lock.AsOf)
	if err != nil {
		return 0, fmt.Errorf("packages.lock: %w", err)
	}
	return t.Unix(), nil
}

// Prune removes results that no build used for an hour, but the newest two of each step. Each change of a program makes a whole new disk.
func (b *Build) Prune() error { return b.store.Prune(2, time.Hour) }

// hashOf makes an input of a value.
func hashOf(v any) string {
	j, _ := json.Marshal(v)
	h := sha256.Sum256(j)
	return hex.EncodeToString(h[:])
}

func hashFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// idOf makes a file system's UUID from the key of the step that makes it.
func idOf(key string) uuid.UUID { return uuid.NewSHA1(space, []byte(key)) }

var space = uuid.MustParse("1f5f1d7a-6a0b-4c9e-9a83-0d7a62f41b55") // ours alone

// run runs a tool whose output goes to the step's log.
func run(ctx context.Context, w *step.Work, dir string, env []string, name string, args ...string) error {
	fmt.Fprintf(w.Log, "+ %s %s\n", name, strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = w.Log, w.Log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(name), err)
	}
	return nil
}
