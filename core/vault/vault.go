package vault

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"gurtos/core/durable"
	"gurtos/core/leak"
)

// Limits of a key.
const (
	MinValue = 8        // characters; a shorter value can't be told from ordinary text
	MaxValue = 16 << 10 // bytes
	maxFile  = 4 << 20  // bytes
	maxName  = 100      // characters
	timeForm = "2006-01-02T15:04:05.000Z"
)

var nameForm = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)

// Invalid is a name or value that was refused; Sentence never holds the value.
type Invalid struct{ Field, Sentence string }

func (e *Invalid) Error() string { return e.Field + ": " + e.Sentence }

// ErrMissing says that there is no key of this name.
var ErrMissing = errors.New("the vault has no key of this name")

// Key is what may be shown of a key.
type Key struct {
	Name  string `json:"name"`
	SetAt string `json:"setAt"`
}

// Vault is the keys and their file.
type Vault struct {
	path string
	disk durable.FS

	change sync.Mutex // one Set or Delete at a time, over its sync; taken before mu

	mu    sync.RWMutex     // never held over a sync: every result of a tool is read through it
	keys  map[string]entry // guarded by mu; written with change held too
	finds *leak.Set        // guarded by mu; the values of all keys
}

type entry struct{ value, setAt string }

// times says when each key was set, and by its hash of which value that is told: the two
// files are not replaced at once.
type times struct {
	Version int               `json:"version"`
	SetAt   map[string]string `json:"setAt"`
	Sums    map[string]string `json:"sums,omitempty"` // hex SHA-256 of the values, for root alone as they are
}

func sumOf(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:])
}

// Open reads the vault. It refuses, in a sentence that names the file and the
// mode or line but no text of it, a file that others may have read or written
// and one that it can't read to the end.
func Open(disk durable.FS, path string) (*Vault, error) {
	v := &Vault{path: path, disk: disk}
	info, err := guard(path)
	if err != nil {
		return nil, err
	}
	b, err := durable.ReadFile(disk, path)
	if err != nil {
		return nil, fmt.Errorf("the vault can't be read: %w", err)
	}
	values, err := parse(path, b)
	if err != nil {
		return nil, err
	}
	when := v.readTimes()
	v.keys = map[string]entry{}
	for name, value := range values {
		at, ok := when.SetAt[name]
		if sum, told := when.Sums[name]; !ok || told && sum != sumOf(value) {
			at = after(info.ModTime(), at)
		}
		v.keys[name] = entry{value, at}
	}
	v.finds = search(v.keys)
	return v, nil
}

// Create makes an empty vault where there is none.
func Create(disk durable.FS, path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.Replace(disk, path, nil, 0o600)
}

// guard holds the file and its folder to root alone.
func guard(path string) (fs.FileInfo, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return nil, fmt.Errorf("the vault %s can't be read: %w. Make an empty one with: install -m 600 -o root /dev/null %s", path, err, path)
	}
	mode := st.Mode & 0o7777
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, fmt.Errorf("the vault %s is not a plain file. Put the file itself there, not a link or folder", path)
	case st.Uid != 0:
		return nil, fmt.Errorf("the vault %s belongs to user %d and not to root. Run: chown root:root %s && chmod 600 %s", path, st.Uid, path, path)
	case mode&0o077 != 0:
		return nil, fmt.Errorf("the vault %s has mode %04o, so others than root may use it. Run: chmod 600 %s", path, mode, path)
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return nil, fmt.Errorf("the vault's folder can't be read: %w", err)
	}
	var dir unix.Stat_t
	if err := unix.Stat(folder, &dir); err != nil {
		return nil, fmt.Errorf("the vault's folder %s can't be read: %w", folder, err)
	}
	if dir.Mode&unix.S_ISVTX != 0 && dir.Mode&0o022 != 0 {
		return nil, fmt.Errorf("the vault's folder %s is everybody's, so others than root may put another vault there. Move the vault to a folder of root's own", folder)
	}
	if dir.Uid != 0 || dir.Mode&0o022 != 0 {
		return nil, fmt.Errorf("the vault's folder %s belongs to user %d with mode %04o, so others than root may put another vault there. Run: chown root:root %s && chmod go-w %s", folder, dir.Uid, dir.Mode&0o7777, folder, folder)
	}
	return os.Lstat(path)
}

// parse reads the lines. An error names the line by its number alone.
func parse(path string, b []byte) (map[string]string, error) {
	if len(b) > maxFile {
		return nil, fmt.Errorf("the vault %s is larger than %d MB", path, maxFile>>20)
	}
	values := map[string]string{}
	n := 0
	for line := range bytes.Lines(b) {
		n++
		text := strings.TrimRight(string(line), "\r\n")
		if strings.TrimSpace(text) == "" {
			continue
		}
		name, value, ok := strings.Cut(text, "=")
		switch {
		case !ok || !nameForm.MatchString(name) || len(name) > maxName:
			return nil, fmt.Errorf("the vault %s: line %d is no KEY=value. A key is capital letters, digits and _, and begins with a letter", path, n)
		case values[name] != "":
			return nil, fmt.Errorf("the vault %s: line %d sets a key that an earlier line sets already", path, n)
		case value == "":
			return nil, fmt.Errorf("the vault %s: line %d has a key without a value. Give it one or take the line out", path, n)
		case !printable(value):
			return nil, fmt.Errorf("the vault %s: line %d has a value with control characters or invalid UTF-8", path, n)
		case len(value) > MaxValue:
			return nil, fmt.Errorf("the vault %s: line %d has a value of more than %d KB", path, n, MaxValue>>10)
		}
		values[name] = value
	}
	return values, nil
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// Get is a key's value.
func (v *Vault) Get(name string) (string, bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	e, ok := v.keys[name]
	return e.value, ok
}

// Use gives a key's value as it is now, and a writer that takes it, and every other
// value, out of what is written and passes the rest on to w: the two belong together,
// though the key is changed meanwhile. The writer is given where there is no such key too.
func (v *Vault) Use(name string) (value string, clean func(w io.Writer) io.WriteCloser, ok bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	e, ok := v.keys[name]
	return e.value, v.finds.Writer, ok
}

// Redact takes every value out of a text, however it is spelled there.
func (v *Vault) Redact(text string) string { return v.set().Replace(text) }

// RedactJSON takes every value out of a JSON text and gives JSON back.
func (v *Vault) RedactJSON(raw json.RawMessage) json.RawMessage { return v.set().ReplaceJSON(raw) }

func (v *Vault) set() *leak.Set {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.finds
}

func search(keys map[string]entry) *leak.Set {
	var secrets []leak.Secret
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		secrets = append(secrets, leak.Secret{Name: name, Value: keys[name].value})
	}
	return leak.NewSet(secrets...)
}

// List is the names and when each was set, by name.
func (v *Vault) List() []Key {
	v.mu.RLock()
	defer v.mu.RUnlock()
	list := make([]Key, 0, len(v.keys))
	for _, name := range slices.Sorted(maps.Keys(v.keys)) {
		list = append(list, Key{name, v.keys[name].setAt})
	}
	return list
}

// Set puts a key in; it is on disk and in effect when Set returns.
func (v *Vault) Set(name, value string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	switch {
	case utf8.RuneCountInString(value) < MinValue:
		return &Invalid{name, fmt.Sprintf("a value of at least %d characters is needed: a shorter one can't be told from ordinary text where the box takes secrets out of results", MinValue)}
	case len(value) > MaxValue:
		return &Invalid{name, fmt.Sprintf("the value is larger than %d KB", MaxValue>>10)}
	case !printable(value):
		return &Invalid{name, "the value has a line break, another control character or invalid UTF-8"}
	}
	v.change.Lock()
	defer v.change.Unlock()
	next := maps.Clone(v.keys)
	next[name] = entry{value, after(time.Now(), next[name].setAt)}
	return v.replace(next)
}

// after is a time as text, unlike the one that the key had before: by it the box sees that
// a key is another one, though two changes come within a millisecond.
func after(t time.Time, before string) string {
	at := t.UTC().Format(timeForm)
	if at == before {
		at = t.UTC().Add(time.Millisecond).Format(timeForm)
	}
	return at
}

// Delete takes a key out; it is gone from disk and out of effect when Delete returns.
func (v *Vault) Delete(name string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	v.change.Lock()
	defer v.change.Unlock()
	if _, ok := v.keys[name]; !ok {
		return ErrMissing
	}
	next := maps.Clone(v.keys)
	delete(next, name)
	return v.replace(next)
}

// CheckName holds a name to the form that a vault line has.
func CheckName(name string) error {
	if !nameForm.MatchString(name) || len(name) > maxName {
		return &Invalid{"name", fmt.Sprintf("capital letters, digits and _ are needed, a letter first, at most %d characters", maxName)}
	}
	return nil
}

// replace writes the keys and takes them over; v.change is held. The times come
// second: after a cut between the two a key has the file's own time.
func (v *Vault) replace(next map[string]entry) error {
	var b bytes.Buffer
	when := times{Version: 1, SetAt: map[string]string{}, Sums: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(next)) {
		fmt.Fprintf(&b, "%s=%s\n", name, next[name].value)
		when.SetAt[name], when.Sums[name] = next[name].setAt, sumOf(next[name].value)
	}
	if b.Len() > maxFile {
		return &Invalid{"value", fmt.Sprintf("the vault would be larger than %d MB", maxFile>>20)}
	}
	if err := durable.Replace(v.disk, v.path, b.Bytes(), 0o600); err != nil {
		return fmt.Errorf("writing the vault: %w", err)
	}
	finds := search(next)
	v.mu.Lock()
	v.keys, v.finds = next, finds
	v.mu.Unlock()
	t, err := json.Marshal(when)
	if err != nil {
		return err
	}
	// A cache: the key is set, and without it a start takes the file's own time.
	_ = durable.Replace(v.disk, v.timesPath(), append(t, '\n'), 0o600)
	return nil
}

func (v *Vault) timesPath() string { return v.path + ".times" }

// readTimes gives what is known; a missing or damaged file is no reason not to
// start, since it is a cache.
func (v *Vault) readTimes() times {
	var t times
	b, err := durable.ReadFile(v.disk, v.timesPath())
	if err != nil || json.Unmarshal(b, &t) != nil {
		return times{}
	}
	return t
}
