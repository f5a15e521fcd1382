package layers

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// State of a layer. It only goes forward.
type State string

const (
	StateOpen    State = "open"    // takes changes
	StateSealed  State = "sealed"  // on disk and never changed again
	StateApplied State = "applied" // folded into its base
	StateDropped State = "dropped" // to be deleted, or being deleted
)

var (
	ErrInUse     = errors.New("in use")            // another holder has the layer
	ErrNotOpen   = errors.New("takes no changes")  // a sealed layer can't be an upper one
	ErrNotSealed = errors.New("can't be read yet") // an open layer can't be a lower one
	ErrGone      = errors.New("deleted")           // the layer's files are not there any more
)

// formatVersion of meta. A newer one is refused.
const formatVersion = 1

// meta is a layer's meta file, replaced as a whole.
type meta struct {
	Version int    `json:"version"`
	ID      string `json:"id"` // random, for good; never a path, which may move with the disk
	State   State  `json:"state"`

	// Since Seal:
	Bytes  int64    `json:"bytes,omitempty"`  // disk space, before any sharing of blocks
	Inodes int64    `json:"inodes,omitempty"` // files, folders, links and whiteouts
	Saw    []string `json:"saw,omitempty"`    // ids of the layers below, newest first
}

// newID gives 48 random bits as 8 letters.
func newID() string {
	var b [6]byte
	rand.Read(b[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// Create makes an empty open layer at dir, whose parent must exist. A cut leaves
// either the whole layer or nothing but dir+"~new", which the next Create removes.
func Create(dir string) error {
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("layer %s: %w", dir, os.ErrExist)
	}
	tmp := dir + "~new"
	if err := os.RemoveAll(tmp); err != nil {
		return fmt.Errorf("layer %s: removing what a cut left: %w", dir, err)
	}
	if err := fill(tmp); err != nil {
		os.RemoveAll(tmp)
		return fmt.Errorf("layer %s: %w", dir, err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		os.RemoveAll(tmp)
		return fmt.Errorf("layer %s: %w", dir, err)
	}
	return syncPath(filepath.Dir(dir))
}

// fill makes what is in a layer. The journals of XFS and ext4 keep the order of
// what happens to names and owners, so that meta, the last and synced, stands for
// all before it.
func fill(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	for _, d := range []struct {
		name string
		mode os.FileMode
		uid  int
	}{{"upper", 0o755, Canonical}, {"empty", 0o755, Canonical}, {"work", 0o700, 0}} {
		p := filepath.Join(dir, d.name)
		if err := os.Mkdir(p, d.mode); err != nil {
			return err
		}
		if err := os.Chmod(p, d.mode); err != nil { // whatever the umask
			return err
		}
		if err := os.Chown(p, d.uid, d.uid); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "lock"), nil, 0o600); err != nil {
		return err
	}
	d, err := openDir(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	m := meta{Version: formatVersion, ID: newID(), State: StateOpen}
	if err := prepareMeta(d, m, true); err != nil {
		return err
	}
	return unix.Renameat(int(d.Fd()), metaNew, int(d.Fd()), "meta")
}

// openLayer opens a layer's folder and reads its meta, without a lock.
func openLayer(path string) (*os.File, meta, error) {
	dir, err := openDir(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, meta{}, fmt.Errorf("layer %s: %w", path, ErrGone)
	}
	if err != nil {
		return nil, meta{}, fmt.Errorf("layer %s: %w", path, err)
	}
	m, err := readMeta(dir)
	if err != nil {
		dir.Close()
		return nil, m, fmt.Errorf("layer %s: %w", path, err)
	}
	return dir, m, nil
}

// StateOf reads a layer's state. A layer that is not there is ErrGone.
func StateOf(path string) (State, error) {
	dir, m, err := openLayer(path)
	if err != nil {
		return "", err
	}
	dir.Close()
	return m.State, nil
}

func readMeta(dir *os.File) (meta, error) {
	var m meta
	fd, err := unix.Openat(int(dir.Fd()), "meta", unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return m, fmt.Errorf("meta: %w", err)
	}
	f := os.NewFile(uintptr(fd), "meta")
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		return m, fmt.Errorf("meta: %w", err)
	}
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("meta: %w", err)
	}
	if m.Version > formatVersion {
		return m, fmt.Errorf("has format %d, this build knows %d at most; start the newer build", m.Version, formatVersion)
	}
	switch m.State {
	case StateOpen, StateSealed, StateApplied, StateDropped:
		if m.ID == "" {
			return m, errors.New("meta: no id")
		}
		return m, nil
	}
	return m, fmt.Errorf("meta: unknown state %q", m.State)
}

const metaNew = "meta~new"

// writeMeta replaces the file: written aside, synced, renamed, folder synced.
func writeMeta(dir *os.File, m meta) error {
	if err := prepareMeta(dir, m, true); err != nil {
		return err
	}
	return commitMeta(dir)
}

// prepareMeta writes the new meta aside. Without sync the caller syncs it before
// it is committed.
func prepareMeta(dir *os.File, m meta, sync bool) error {
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	f, err := openBeneath(int(dir.Fd()), metaNew, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("writing meta: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	if err == nil && sync {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("writing meta: %w", err)
	}
	return nil
}

// commitMeta puts a prepared meta in place, for good.
func commitMeta(dir *os.File) error {
	err := unix.Renameat(int(dir.Fd()), metaNew, int(dir.Fd()), "meta")
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("writing meta: %w", err)
	}
	return nil
}

// syncDir syncs the entries of a folder, which may be opened with O_PATH.
func syncDir(dir *os.File) error {
	d, err := openDirAt(dir, ".")
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func syncPath(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
