package layers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// maxDiff is how long the diff of a whole layer or folder may get, in bytes.
const maxDiff = 8 << 20

// Diff writes what the view's layer changes at a path, against what the task
// saw, as git's unified diff; of a folder, or "" for all, what it changes there.
// fs.ErrNotExist means that the layer changes nothing at the path.
func Diff(ctx context.Context, v View, name string) ([]byte, error) {
	p, err := checkPath(name)
	if err != nil {
		return nil, err
	}
	d, err := newDiffer(v)
	if err != nil {
		return nil, err
	}
	defer d.close()
	found := false
	err = eachRecord(ctx, v, func(r record) error {
		if p != "." && r.Path != p && !strings.HasPrefix(r.Path, p+"/") {
			return nil
		}
		found = true
		if d.out.Len() > maxDiff {
			fmt.Fprintf(&d.out, "The diff is longer than %d MB; the rest, from %s on, is left out.\n", maxDiff>>20, quotePath("", r.Path))
			return errEnough
		}
		return wrapPath(r.Path, d.record(r))
	})
	if err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	if !found {
		return nil, notThere(name)
	}
	return d.out.Bytes(), nil
}

// A differ reads the old side from what a sealed layer kept, or, under an open
// layer, from the layers below it.
type differ struct {
	out    bytes.Buffer
	dir    *os.File // the layer's folder
	merged *stack   // with the open layer on top; nil when it is sealed
	upper  *os.File
}

func newDiffer(v View) (*differ, error) {
	dir, m, err := openLayer(v.Layer)
	if err != nil {
		return nil, err
	}
	if m.State == StateDropped {
		dir.Close()
		return nil, fmt.Errorf("layer %s: %w", v.Layer, ErrGone)
	}
	d := &differ{dir: dir}
	if d.upper, err = openDirAt(dir, "upper"); err != nil {
		dir.Close()
		return nil, fmt.Errorf("layer %s: %w", v.Layer, err)
	}
	if m.State == StateOpen {
		if d.merged, err = openStack(v, true); err != nil {
			d.close()
			return nil, err
		}
	}
	return d, nil
}

func (d *differ) close() {
	d.dir.Close()
	d.upper.Close()
	if d.merged != nil {
		d.merged.close()
	}
}

// A side is one side of a diff.
type side struct {
	mode uint32 // 0 for nothing
	text []byte
	note string // why there is no text
}

func (d *differ) record(r record) error {
	old := side{mode: r.OldMode}
	now := side{mode: r.Mode}
	if !textual(old.mode) && !textual(now.mode) {
		return d.folders(r)
	}
	var err error
	if textual(old.mode) {
		if old, err = d.oldSide(r); err != nil {
			return err
		}
	}
	if textual(now.mode) {
		if now, err = d.newSide(r); err != nil {
			return err
		}
	}
	if textual(old.mode) && textual(now.mode) && old.mode&unix.S_IFMT == now.mode&unix.S_IFMT {
		d.section(r.Path, old, now)
		return nil
	}
	// Another kind of thing in its place is one removed and one added.
	if textual(old.mode) {
		d.section(r.Path, old, side{})
	}
	if textual(now.mode) {
		d.section(r.Path, side{}, now)
	}
	return nil
}

func textual(mode uint32) bool {
	return mode&unix.S_IFMT == unix.S_IFREG || mode&unix.S_IFMT == unix.S_IFLNK
}

// folders says in one line what git's form has no words for.
func (d *differ) folders(r record) error {
	switch {
	case r.Hidden:
	case r.Change.Change == Modified:
		fmt.Fprintf(&d.out, "Folder %s: mode %o, was %o\n", quotePath("", r.Path), r.Mode&0o7777, r.OldMode&0o7777)
	default:
		fmt.Fprintf(&d.out, "Folder %s: %s\n", quotePath("", r.Path), r.Change.Change)
	}
	return nil
}

func (d *differ) oldSide(r record) (side, error) {
	s := side{mode: r.OldMode}
	switch {
	case r.OldBin:
		s.note = "binary"
	case d.merged != nil:
		return d.readSide(d.merged.lowers(), r.Path, s)
	case r.OldSize > maxText:
		s.note = fmt.Sprintf("too large to show: %d bytes", r.OldSize)
	case r.Old == nil:
		s.note = "the old text is not kept: the task changed more than is kept of one task"
	default:
		b, err := readBefore(d.dir, r.Old)
		s.text = b
		return s, err
	}
	return s, nil
}

func (d *differ) newSide(r record) (side, error) {
	s := side{mode: r.Mode}
	if r.Binary {
		s.note = "binary"
		return s, nil
	}
	if d.merged != nil {
		return d.readSide(d.merged, r.Path, s)
	}
	return d.readSide(&stack{parts: []*os.File{d.upper}}, r.Path, s)
}

func (d *differ) readSide(from *stack, p string, s side) (side, error) {
	dir, e, ok, err := from.lookup(p)
	if err != nil {
		return s, err
	}
	if !ok {
		return s, fs.ErrNotExist
	}
	defer dir.close()
	if isLink(&e.st) {
		to, err := e.target()
		s.text = []byte(to)
		return s, err
	}
	if e.st.Size > maxText {
		s.note = fmt.Sprintf("too large to show: %d bytes", e.st.Size)
		return s, nil
	}
	f, err := e.open()
	if err != nil {
		return s, err
	}
	defer f.Close()
	s.text, err = io.ReadAll(io.LimitReader(f, maxText))
	return s, err
}

// section writes one file's part.
func (d *differ) section(p string, old, now side) {
	a, b := quotePath("a/", p), quotePath("b/", p)
	fmt.Fprintf(&d.out, "diff --git %s %s\n", a, b)
	switch {
	case old.mode == 0:
		fmt.Fprintf(&d.out, "new file mode %s\n", gitMode(now.mode))
		a = "/dev/null"
	case now.mode == 0:
		fmt.Fprintf(&d.out, "deleted file mode %s\n", gitMode(old.mode))
		b = "/dev/null"
	case old.mode != now.mode:
		fmt.Fprintf(&d.out, "old mode %s\nnew mode %s\n", gitMode(old.mode), gitMode(now.mode))
	}
	if note := errors.Join(noteErr(old), noteErr(now)); note != nil {
		if old.note == "binary" || now.note == "binary" {
			fmt.Fprintf(&d.out, "Binary files %s and %s differ\n", a, b)
		} else {
			fmt.Fprintf(&d.out, "Files %s and %s differ (%s)\n", a, b, strings.ReplaceAll(note.Error(), "\n", "; "))
		}
		return
	}
	if bytes.Equal(old.text, now.text) {
		return
	}
	fmt.Fprintf(&d.out, "--- %s\n+++ %s\n", tabbed(a, p), tabbed(b, p))
	unified(&d.out, old.text, now.text)
}

func noteErr(s side) error {
	if s.note == "" {
		return nil
	}
	return errors.New(s.note)
}

// tabbed ends a name that has a space in it by a tab, as git does, so that patch
// knows where it ends.
func tabbed(name, p string) string {
	if strings.Contains(p, " ") && name != "/dev/null" && !strings.HasPrefix(name, `"`) {
		return name + "\t"
	}
	return name
}

func gitMode(mode uint32) string { return fmt.Sprintf("%06o", mode) }

// quotePath writes a path as git does: in quotes and with octal escapes when it
// holds anything but plain characters.
func quotePath(prefix, p string) string {
	p = path.Join(prefix, p)
	plain := true
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(p) {
		c := p[i]
		switch {
		case c == '"' || c == '\\':
			plain = false
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			plain = false
			b.WriteString(`\n`)
		case c == '\t':
			plain = false
			b.WriteString(`\t`)
		case c < 0x20 || c >= 0x7f:
			plain = false
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	if plain {
		return p
	}
	b.WriteByte('"')
	return b.String()
}
