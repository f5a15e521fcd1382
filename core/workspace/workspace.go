package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/core/durable"
	"gurtos/sandbox/layers"
)

// Errors that callers tell apart.
var (
	ErrExists  = errors.New("there is a workspace of this name already")
	ErrMissing = errors.New("there is no workspace of this name")
	ErrName    = errors.New("a name of 1 to 100 letters, digits, _, . and - is needed, and not . or ..")
)

const timeForm = "2006-01-02T15:04:05.000Z"

// making is the ending of a folder that is not ready; no name may hold it.
const making = "~new"

var nameForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,100}$`)

// Workspace is one folder.
type Workspace struct {
	Name      string `json:"name"`
	CreatedAt string `json:"createdAt"`
}

// Workspaces is all of them.
type Workspaces struct {
	dir  string
	disk durable.FS

	making sync.Mutex // one Make at a time
}

// Open takes the folder that holds them, and makes it when there is none.
func Open(disk durable.FS, dir string) (*Workspaces, error) {
	if err := durable.MkdirAll(disk, dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of workspaces: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"+making))
	if err != nil {
		return nil, err
	}
	for _, d := range left { // a cut in Fill leaves what it put in so far
		if err := os.RemoveAll(d); err != nil {
			return nil, fmt.Errorf("clearing what a power cut left: %w", err)
		}
	}
	return &Workspaces{dir: dir, disk: disk}, nil
}

// CheckName is ErrName unless a workspace may have the name.
func CheckName(name string) error {
	if !nameForm.MatchString(name) || name == "." || name == ".." {
		return ErrName
	}
	return nil
}

// Make makes an empty workspace.
func (w *Workspaces) Make(name string) (Workspace, error) {
	return w.Fill(name, func(string) error { return nil })
}

// Fill makes a workspace of what fill puts into dir, each file owned by
// layers.Canonical and on disk when fill returns. An error of fill leaves none.
func (w *Workspaces) Fill(name string, fill func(dir string) error) (_ Workspace, err error) {
	if err := CheckName(name); err != nil {
		return Workspace{}, err
	}
	w.making.Lock()
	defer w.making.Unlock()
	path := filepath.Join(w.dir, name)
	if _, err := os.Lstat(path); err == nil {
		return Workspace{}, ErrExists
	}
	// Its owner must be right from the moment it is seen: rename comes last.
	if err := w.disk.Mkdir(path+making, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return Workspace{}, fmt.Errorf("making workspace %s: %w", name, err)
	}
	if err := os.Chmod(path+making, 0o755); err != nil { // whatever the umask
		return Workspace{}, fmt.Errorf("making workspace %s: %w", name, err)
	}
	if err := os.Chown(path+making, layers.Canonical, layers.Canonical); err != nil {
		return Workspace{}, fmt.Errorf("making workspace %s: %w", name, err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(path + making)
		}
	}()
	if err := fill(path + making); err != nil {
		return Workspace{}, fmt.Errorf("making workspace %s: %w", name, err)
	}
	if err := w.disk.SyncDir(path + making); err != nil {
		return Workspace{}, fmt.Errorf("making workspace %s: %w", name, err)
	}
	if err := w.disk.Rename(path+making, path); err != nil {
		return Workspace{}, fmt.Errorf("making workspace %s: %w", name, err)
	}
	if err := w.disk.SyncDir(w.dir); err != nil {
		return Workspace{}, fmt.Errorf("making workspace %s: %w", name, err)
	}
	return w.Get(name)
}

// Get is one workspace, or ErrMissing.
func (w *Workspaces) Get(name string) (Workspace, error) {
	if err := CheckName(name); err != nil {
		return Workspace{}, err
	}
	// A link with the name of a workspace would lead out of BOX_HOME.
	dir, err := unix.Open(w.dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Workspace{}, fmt.Errorf("opening the folder of workspaces: %w", err)
	}
	defer unix.Close(dir)
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		return Workspace{}, ErrMissing
	case err != nil:
		return Workspace{}, fmt.Errorf("opening workspace %s: %w", name, err)
	}
	defer unix.Close(fd)
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BTIME|unix.STATX_CTIME, &st); err != nil {
		return Workspace{}, fmt.Errorf("reading workspace %s: %w", name, err)
	}
	born := st.Btime
	if st.Mask&unix.STATX_BTIME == 0 {
		born = st.Ctime
	}
	return Workspace{name, time.Unix(born.Sec, int64(born.Nsec)).UTC().Format(timeForm)}, nil
}

// List is all workspaces by name.
func (w *Workspaces) List() ([]Workspace, error) {
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		return nil, fmt.Errorf("reading the workspaces: %w", err)
	}
	list := []Workspace{}
	for _, e := range entries {
		if !e.IsDir() || CheckName(e.Name()) != nil {
			continue
		}
		one, err := w.Get(e.Name())
		if errors.Is(err, ErrMissing) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b Workspace) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return list, nil
}
