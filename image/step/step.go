package step

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Input is one thing that decides a step's result, such as a recipe, a tool's version or another step's key.
type Input struct {
	Name string `json:"name"`
	Hash string `json:"hash"` // or the thing itself, where it is short
}

// Step says how to make one thing.
type Step struct {
	Name string  // part of file names
	What string  // what it makes, as people read it: "the tasks file system"
	In   []Input // order doesn't matter
	Room int64   // bytes of disk that making it needs at most, temporary files included
	Make func(context.Context, *Work) error
}

// Work is what a step's Make gets.
type Work struct {
	Dir  string    // what is written here is the result
	Temp string    // scratch on the same disk, removed afterwards
	Log  io.Writer // for the output of tools
	say  func(string)
}

// Say tells what is being done now and how far it is.
func (w *Work) Say(format string, a ...any) { w.say(fmt.Sprintf(format, a...)) }

// Key is the name that a step's result is kept under.
func (s Step) Key() string {
	in := slices.Clone(s.In)
	slices.SortFunc(in, func(a, b Input) int { return strings.Compare(a.Name, b.Name) })
	b, _ := json.Marshal(struct {
		Name string
		In   []Input
	}{s.Name, in})
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:8])
}

// Made is what made.json holds.
type Made struct {
	Step string        `json:"step"`
	In   []Input       `json:"in"`
	At   time.Time     `json:"at"`
	Took time.Duration `json:"tookNs"`
}

// Failed is a step's error with the file that holds what its tools printed.
type Failed struct {
	What string // what was being made
	Log  string // log file
	Err  error
}

func (f *Failed) Error() string {
	return fmt.Sprintf("making %s: %v (all output: %s)", f.What, f.Err, f.Log)
}
func (f *Failed) Unwrap() error { return f.Err }

// Tail gives the last n lines of the log.
func (f *Failed) Tail(n int) []string {
	b, err := os.ReadFile(f.Log)
	if err != nil {
		return nil
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return lines[max(0, len(lines)-n):]
}

// Store keeps results.
type Store struct {
	dir  string
	show *Show
}

// Open takes dir as a store, making it when it isn't there, and removes what interrupted builds left in it.
func Open(dir string, show *Show) (*Store, error) {
	for _, d := range []string{dir, dir + "/lock", dir + "/log"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, fmt.Errorf("making the cache: %w", err)
		}
	}
	s := &Store{dir: dir, show: show}
	left, _ := filepath.Glob(dir + "/new-*")
	for _, p := range left {
		key, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(p), "new-"), "-")
		unlock, err := s.lock(key, unix.LOCK_EX|unix.LOCK_NB)
		if err != nil {
			continue // being made by another process
		}
		err = os.RemoveAll(p)
		unlock()
		if err != nil {
			return nil, fmt.Errorf("removing what an interrupted build left: %w", err)
		}
	}
	return s, nil
}

func (s *Store) lock(key string, how int) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(s.dir, "lock", key), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), how)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

func (s *Store) path(key string) string { return filepath.Join(s.dir, key) }

func (s *Store) made(key string) (m Made, ok bool) {
	b, err := os.ReadFile(filepath.Join(s.path(key), "made.json"))
	return m, err == nil && json.Unmarshal(b, &m) == nil
}

// Has reports whether the step's result is there.
func (s *Store) Has(st Step) bool { _, ok := s.made(st.Key()); return ok }

// Get returns the folder with the step's result, made now if it isn't there yet.
func (s *Store) Get(ctx context.Context, st Step) (dir string, err error) {
	key := st.Key()
	if !s.Has(st) {
		unlock, err := s.lock(key, unix.LOCK_EX)
		if err != nil {
			return "", fmt.Errorf("locking %s in the cache: %w", st.Name, err)
		}
		defer unlock()
		if !s.Has(st) { // else another process made it while this one waited
			if err := s.make(ctx, st, key); err != nil {
				return "", err
			}
		}
	}
	now := time.Now()
	if err := os.Chtimes(filepath.Join(s.path(key), "made.json"), now, now); err != nil { // pruning goes by the last use
		return "", err
	}
	return s.path(key), nil
}

func (s *Store) make(ctx context.Context, st Step, key string) (err error) {
	if err := s.room(st); err != nil {
		return err
	}
	logName := filepath.Join(s.dir, "log", st.Name)
	log, err := os.Create(logName)
	if err != nil {
		return err
	}
	defer log.Close()
	dir, err := os.MkdirTemp(s.dir, "new-"+key+"-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	temp := filepath.Join(dir, "temp")
	if err := os.Mkdir(temp, 0o755); err != nil {
		return err
	}
	start := time.Now()
	line := s.show.Begin(st.What)
	defer func() { line.End(err) }()
	if err := st.Make(ctx, &Work{Dir: dir, Temp: temp, Log: log, say: line.Say}); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("making %s: %w", st.What, context.Cause(ctx))
		}
		return &Failed{What: st.What, Log: logName, Err: err}
	}
	if err := os.RemoveAll(temp); err != nil {
		return err
	}
	b, _ := json.MarshalIndent(Made{Step: st.Name, In: st.In, At: start.UTC().Truncate(time.Second), Took: time.Since(start)}, "", "\t")
	if err := os.WriteFile(filepath.Join(dir, "made.json"), append(b, '\n'), 0o644); err != nil {
		return err
	}
	if err := syncTree(dir); err != nil {
		return err
	}
	return os.Rename(dir, s.path(key))
}

// syncTree puts a result on the disk before its name says that it is whole.
func syncTree(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return unix.Syncfs(int(d.Fd()))
}

func (s *Store) room(st Step) error {
	var fsys unix.Statfs_t
	if err := unix.Statfs(s.dir, &fsys); err != nil {
		return fmt.Errorf("asking how much room %s has: %w", s.dir, err)
	}
	if free := int64(fsys.Bavail) * fsys.Bsize; free < st.Room {
		return fmt.Errorf("%s needs %s of free disk in %s, which has %s: free some, or set BOX_CACHE to a folder on a larger disk",
			st.What, size(st.Room), s.dir, size(free))
	}
	return nil
}

func size(n int64) string {
	if n < 1e9 {
		return fmt.Sprintf("%d MB", n/1e6)
	}
	return fmt.Sprintf("%.1f GB", float64(n)/1e9)
}

// Why says whether the step would be made anew, and for which reasons. A step whose result is there has none.
func (s *Store) Why(st Step) (reasons []string) {
	if s.Has(st) {
		return nil
	}
	last, ok := s.last(st.Name)
	if !ok {
		return []string{"it was never made here"}
	}
	for _, in := range st.In {
		i := slices.IndexFunc(last.In, func(o Input) bool { return o.Name == in.Name })
		switch {
		case i < 0:
			reasons = append(reasons, in.Name+" is new")
		case last.In[i].Hash != in.Hash && len(in.Hash) < 16 && len(last.In[i].Hash) < 16:
			reasons = append(reasons, fmt.Sprintf("%s was %s and is %s", in.Name, last.In[i].Hash, in.Hash))
		case last.In[i].Hash != in.Hash:
			reasons = append(reasons, in.Name+" changed")
		}
	}
	for _, o := range last.In {
		if !slices.ContainsFunc(st.In, func(in Input) bool { return in.Name == o.Name }) {
			reasons = append(reasons, o.Name+" is gone")
		}
	}
	if reasons == nil {
		reasons = []string{"its result is no longer there"}
	}
	return reasons
}

// last finds the result of the step that was used last, whatever its inputs.
func (s *Store) last(name string) (last Made, ok bool) {
	for _, e := range s.all() {
		if e.Step == name {
			return e.Made, true
		}
	}
	return last, false
}

type entry struct {
	Made
	key  string
	used time.Time
}

// all lists the results, those used last first.
func (s *Store) all() (list []entry) {
	names, _ := filepath.Glob(s.dir + "/*/made.json")
	for _, n := range names {
		key := filepath.Base(filepath.Dir(n))
		st, err := os.Stat(n)
		if m, ok := s.made(key); ok && err == nil && !strings.HasPrefix(key, "new-") {
			list = append(list, entry{m, key, st.ModTime()})
		}
	}
	slices.SortFunc(list, func(a, b entry) int { return b.used.Compare(a.used) })
	return list
}

// Prune removes results that were not used for a while: of each step the newest keep stay, and whatever was used within age.
func (s *Store) Prune(keep int, age time.Duration) error {
	seen := map[string]int{}
	for _, e := range s.all() {
		if seen[e.Step]++; seen[e.Step] <= keep || time.Since(e.used) < age {
			continue
		}
		unlock, err := s.lock(e.key, unix.LOCK_EX|unix.LOCK_NB)
		if err != nil {
			continue
		}
		gone := filepath.Join(s.dir, "new-"+e.key+"-old") // a half removed result must not look whole
		err = os.Rename(s.path(e.key), gone)
		if err == nil {
			err = os.RemoveAll(gone)
		}
		unlock()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing old results from the cache: %w", err)
		}
	}
	return nil
}

// NewWork is for tests of a step's Make: it says nothing.
func NewWork(dir, temp string, log io.Writer) *Work {
	return &Work{Dir: dir, Temp: temp, Log: log, say: func(string) {}}
}
