package firstboot

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"gurtos/boot/disk"
	"gurtos/core/durable"
	"gurtos/core/workspace"
	"gurtos/image/layout"
)

// Names below the data partition's root.
const (
	Home     = "box"           // BOX_HOME
	Etc      = "etc"           // what /etc/box links to
	Vault    = "etc/vault.env" // the vault
	BoxID    = "etc/box-id"    // one line, a UUID
	HostName = "etc/hostname"  // one line
	Init     = "init"          // the init's own: last known time, mark of a running box
	doneFile = "etc/firstboot" // there once all steps were gone through
)

// A Setup makes a disk the box's.
type Setup struct {
	Log  *log.Logger
	MkFS func(ctx context.Context, p disk.Part, options ...string) error // mkfs.xfs, and the partition synced

	// Done is told the name of every step that was gone through, once it is
	// durable. Tests cut the power there; it may be nil.
	Done func(step string)
}

func (s *Setup) done(step string) {
	s.Log.Printf("%s done", step)
	if s.Done != nil {
		s.Done(step)
	}
}

// step is one of the list. Each is safe to repeat.
type step struct {
	name string
	run  func() error
}

func (s *Setup) steps(steps []step) error {
	for _, st := range steps {
		if err := st.run(); err != nil {
			return fmt.Errorf("first boot, step %s: %w", st.name, err)
		}
		s.done(st.name)
	}
	return nil
}

// Disk goes through the raw steps: after it d.Part holds an XFS file system of
// ours. d must come from Find; nothing else may be writing to the disk.
func (s *Setup) Disk(ctx context.Context, d *Data) error {
	if !d.Fresh() {
		return nil
	}
	return s.steps([]step{
		{"claim", func() error { return d.exclusive(d.takeClaim) }},
		{"table", func() error { return d.exclusive(d.makeTable) }},
		{"format", func() error { return s.format(ctx, d) }},
	})
}

// exclusive opens the disk for fn. The kernel refuses (EBUSY) when anything on
// it is mounted or otherwise held. It must be closed again before mkfs, which
// asks for the same of the partition.
func (d *Data) exclusive(fn func(*os.File) error) error {
	f, err := os.OpenFile(d.Disk.Path, os.O_RDWR|unix.O_EXCL, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", d.Disk, err)
	}
	return errors.Join(fn(f), f.Close())
}

// takeClaim is the point of no return for a blank disk. It looks again, right
// before it writes: between Find and now somebody may have.
func (d *Data) takeClaim(f *os.File) error {
	if d.claim.State == claimed {
		d.claim.Size = d.Disk.Size
		return d.claim.write(f, d.Disk)
	}
	holds, err := what(f, d.Disk.Size)
	if err != nil {
		return err
	}
	if holds != "" {
		return fmt.Errorf("%s holds %s now", d.Disk, holds)
	}
	d.claim = claim{Disk: uuid.NewString(), Part: uuid.NewString(), Size: d.Disk.Size, State: claimed}
	d.Blank = false
	return d.claim.write(f, d.Disk)
}

func (d *Data) makeTable(f *os.File) error {
	if err := d.claim.writeTable(f, d.Disk); err != nil {
		return err
	}
	parts, _, err := d.Disk.Parts()
	if err != nil {
		return err
	}
	if d.Part = ofType(parts, d.claim.Part); d.Part.Index == 0 {
		return fmt.Errorf("%s: the partition that was just made is not there", d.Disk)
	}
	return nil
}

// format makes the file system. Its UUID is the partition's, by which a disk
// with a damaged table is known again.
func (s *Setup) format(ctx context.Context, d *Data) error {
	if err := s.MkFS(ctx, d.Part, "-q", "-f", "-L", layout.LabelData, "-m", "crc=1,reflink=1,bigtime=1,uuid="+d.Part.GUID); err != nil {
		return err
	}
	f, err := os.OpenFile(d.Disk.Path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	d.claim.State = formatted
	return errors.Join(d.claim.write(f, d.Disk), f.Close())
}

// Grow makes table and partition as large as the disk has become, and mends a
// table that a power cut or a bad block damaged. A table into which somebody put
// more than our partition, or moved that, is never written to. It returns whether the file
// system has room to grow into; that is for when it is mounted.
func (s *Setup) Grow(d *Data) (room bool, err error) {
	if d.claim.State != formatted || d.Disk.ReadOnly {
		return false, nil
	}
	parts, recovered, tableErr := d.Disk.Parts()
	grown := d.Disk.Size-d.claim.Size >= layout.Align
	if tableErr == nil && !recovered && !grown && d.Part.Index != 0 {
		return d.room()
	}
	if tableErr == nil && (len(parts) != 1 || parts[0].Start != layout.Align) {
		s.Log.Printf("the partition table of %s is no longer only the box's: it is left as it is", d.Disk)
		return d.room()
	}
	if grown {
		s.Log.Printf("%s has grown from %s", d.Disk, disk.Bytes(d.claim.Size))
		d.claim.Size = d.Disk.Size
	} else {
		s.Log.Printf("mending the partition table of %s", d.Disk)
	}
	if err := d.exclusive(func(f *os.File) error {
		if err := d.makeTable(f); err != nil {
			return err
		}
		return d.claim.write(f, d.Disk)
	}); err != nil {
		return false, fmt.Errorf("mend the partition table: %w", err)
	}
	return d.room()
}

// room says whether the partition has an allocation group's worth more than
// the file system uses.
func (d *Data) room() (bool, error) {
	f, err := os.Open(d.Disk.Path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	sb, err := readSuperblock(f, d.Part.Start)
	if err != nil {
		return false, nil // the mount will say what is wrong with it
	}
	return d.Part.Size-sb.size >= 64<<20, nil
}

// A Box is what first boot made, read back.
type Box struct {
	ID       string
	HostName string
	Fresh    bool // made just now
}

// Files goes through the steps in the mounted file system, unless they were
// all gone through before, and returns what they made.
func (s *Setup) Files(disk durable.FS, data string, now time.Time) (Box, error) {
	path := func(name string) string { return filepath.Join(data, name) }
	box := Box{}
	if _, err := os.Stat(path(doneFile)); errors.Is(err, fs.ErrNotExist) {
		box.Fresh = true
		folder := func(name string) step {
			return step{filepath.Base(name), func() error { return private(disk, path(name)) }}
		}
		once := func(name, file string, perm fs.FileMode, content func() (string, error)) step {
			return step{name, func() error { return writeOnce(disk, path(file), perm, content) }}
		}
		if err := s.steps([]step{
			folder(Home),
			folder(Etc),
			folder(Init),
			once("vault", Vault, 0o600, func() (string, error) { return "", nil }),
			once("id", BoxID, 0o644, func() (string, error) { return uuid.NewString() + "\n", nil }),
			once("name", HostName, 0o644, newName),
			{"workspace", func() error { return makeWorkspace(disk, path(Home)) }},
			{"done", func() error { return writeDone(disk, path(doneFile), now) }},
		}); err != nil {
			return box, err
		}
	} else if err != nil {
		return box, err
	}
	var err error
	if box.ID, err = line(path(BoxID)); err != nil {
		return box, fmt.Errorf("read the box's id: %w", err)
	}
	if box.HostName, err = line(path(HostName)); err != nil {
		return box, fmt.Errorf("read the box's name: %w", err)
	}
	return box, nil
}

func line(path string) (string, error) {
	b, err := os.ReadFile(path)
	return strings.TrimSpace(string(b)), err
}

// private makes a folder that only root enters. The folder above is the data
// partition's root: nothing higher may be synced, it is another file system.
func private(disk durable.FS, path string) error {
	if err := disk.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := os.Chmod(path, 0o700); err != nil { // whatever the umask
		return err
	}
	return disk.SyncDir(filepath.Dir(path))
}

// writeOnce writes a file unless it is there: what an earlier try wrote stays,
// a new id would be another box.
func writeOnce(disk durable.FS, path string, perm fs.FileMode, content func() (string, error)) error {
	if _, err := os.Lstat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text, err := content()
	if err != nil {
		return err
	}
	return durable.Replace(disk, path, []byte(text), perm)
}

// newName is gurtos- and four characters that are not taken for one another
// when they are read from a screen.
func newName() (string, error) {
	const letters = "abcdefghjkmnpqrstuvwxyz23456789"
	b := make([]byte, 4)
	if _, err := rand.Read(b); err != nil {
		return "", err
	}
	for i := range b {
		b[i] = letters[int(b[i])%len(letters)]
	}
	return "gurtos-" + string(b) + "\n", nil
}

func makeWorkspace(disk durable.FS, home string) error {
	all, err := workspace.Open(disk, filepath.Join(home, "workspaces"))
	if err != nil {
		return err
	}
	if _, err := all.Make("home"); err != nil && !errors.Is(err, workspace.ErrExists) {
		return err
	}
	return nil
}

func writeDone(disk durable.FS, path string, now time.Time) error {
	b, err := json.Marshal(map[string]any{"version": 1, "at": now.UTC().Format(time.RFC3339)})
	if err != nil {
		return err
	}
	return durable.Replace(disk, path, append(b, '\n'), 0o644)
}
