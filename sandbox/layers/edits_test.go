package layers

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

var oddNames = []string{"a", "b", "c", "d", "e", "a b", "-rf", "new\nline", "\xff\xfe", "ü", "\"q\"", "~old.x", "back\\slash", ".hidden", strings.Repeat("n", 255), "*", "~deep0"}

func (w *world) pick(view map[string]*thing, ok func(p string, x *thing) bool) (string, bool) {
	var c []string
	for p, x := range view {
		if ok(p, x) {
			c = append(c, p)
		}
	}
	if len(c) == 0 {
		return "", false
	}
	slices.Sort(c)
	return c[w.r.IntN(len(c))], true
}

// newPath is a path in a folder of the view that nothing has yet.
func (w *world) newPath(view map[string]*thing) string {
	for {
		dir, ok := w.pick(view, func(p string, x *thing) bool { return x.kind == "folder" && strings.Count(p, "/") < 4 })
		if !ok || w.r.IntN(4) == 0 {
			dir = "."
		}
		p := path.Join(dir, oddNames[w.r.IntN(len(oddNames))])
		if w.r.IntN(3) == 0 {
			w.clock++
			p = path.Join(dir, fmt.Sprint("f", w.clock))
		}
		if view[p] == nil {
			return p
		}
	}
}

func (w *world) content() []byte {
	switch w.r.IntN(8) {
	case 0:
		return nil
	case 1: // sparse and large
		b := make([]byte, 1<<20+w.r.IntN(1<<20))
		copy(b[w.r.IntN(len(b)):], "in the middle")
		return b
	case 2:
		b := make([]byte, w.r.IntN(100000))
		for i := range b {
			b[i] = byte(w.r.Uint32())
		}
		return b
	}
	var b bytes.Buffer
	for range w.r.IntN(20) {
		fmt.Fprintf(&b, "line %d\n", w.r.IntN(1000))
	}
	return b.Bytes()
}

func (w *world) stamp(p string) (int64, error) {
	w.clock++
	at := time.Date(2021, 1, 1, 0, 0, int(w.clock), w.r.IntN(1e9), time.UTC).UnixNano()
	ts := unix.NsecToTimespec(at)
	return at, unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
}

// one makes one edit. It gives what it did, for the message.
func (w *world) one(m *modelTask) (did string, err error) {
	view := m.view()
	isFile := func(p string, x *thing) bool { return x.kind == "file" }
	any := func(p string, x *thing) bool { return true }
	write := func(p string, b []byte) error {
		f, err := os.OpenFile(p, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		if len(b) > 1<<20 { // leave the holes
			f.Truncate(int64(len(b)))
			i := bytes.Index(b, []byte("in the mid"))
			_, err = f.WriteAt(b[i:min(len(b), i+13)], int64(i))
			return err
		}
		_, err = f.Write(b)
		return err
	}
	switch w.r.IntN(14) {
	case 0, 1: // a new file
		p, b := w.newPath(view), w.content()
		if len(b) > 1<<20 && !bytes.Contains(b, []byte("in the mid")) {
			b = []byte("short")
		}
		did = fmt.Sprintf("create %q", p)
		if err := write(p, b); err != nil {
			return did, err
		}
		x := thing{kind: "file", sum: sum(b), mode: 0o644}
		x.mtime, err = w.stamp(p)
		m.put(p, x)
	case 2, 3: // change a file
		p, ok := w.pick(view, isFile)
		if !ok {
			return
		}
		b := []byte(fmt.Sprint("changed ", w.r.IntN(1e6), "\n"))
		did = fmt.Sprintf("overwrite %q", p)
		os.Chmod(p, 0o644)
		if err := write(p, b); err != nil {
			return did, err
		}
		x := m.touch(p)
		x.sum, x.mode = sum(b), 0o644
		x.mtime, err = w.stamp(p)
		w.sync(m, p, x)
	case 4: // append: what is there is carried along
		p, ok := w.pick(view, isFile)
		if !ok {
			return
		}
		did = fmt.Sprintf("append %q", p)
		os.Chmod(p, 0o600)
		f, err := os.OpenFile(p, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return did, err
		}
		fmt.Fprintln(f, "more", w.clock)
		f.Close()
		b, err := os.ReadFile(p)
		if err != nil {
			return did, err
		}
		x := m.touch(p)
		x.sum, x.mode = sum(b), 0o600
		x.mtime, err = w.stamp(p)
		w.sync(m, p, x)
		return did, err
	case 5:
		p := w.newPath(view)
		did = fmt.Sprintf("mkdir %q", p)
		err = unix.Mkdir(p, 0o755)
		m.put(p, thing{kind: "folder", mode: 0o755})
	case 6, 7: // delete
		p, ok := w.pick(view, any)
		if !ok {
			return
		}
		did = fmt.Sprintf("delete %q", p)
		err = os.RemoveAll(p)
		m.remove(p)
	case 8, 9: // move to a new place
		p, ok := w.pick(view, any)
		if !ok {
			return
		}
		to := w.newPath(view)
		if to == p || strings.HasPrefix(to, p+"/") {
			return
		}
		did = fmt.Sprintf("move %q to %q", p, to)
		err = unix.Rename(p, to)
		m.move(p, to)
	case 10: // a symlink, often dangling or outward
		p := w.newPath(view)
		to := []string{"/etc/passwd", "..", "a", "nowhere", "../../../../tmp"}[w.r.IntN(5)]
		did = fmt.Sprintf("symlink %q", p)
		err = unix.Symlink(to, p)
		x := thing{kind: "symlink", target: to, mode: 0o777}
		if err == nil {
			x.mtime, err = w.stamp(p)
		}
		m.put(p, x)
	case 11: // mode or attribute
		p, ok := w.pick(view, func(p string, x *thing) bool { return x.kind != "symlink" })
		if !ok {
			return
		}
		if view[p].kind == "file" && w.r.IntN(2) == 0 {
			did = fmt.Sprintf("setxattr %q", p)
			os.Chmod(p, 0o644)
			v := fmt.Sprint("v", w.r.IntN(100))
			err = unix.Setxattr(p, "user.note", []byte(v), 0)
			x := m.touch(p)
			x.attr, x.mode = v, 0o644
			w.sync(m, p, x)
			return did, err
		}
		mode := []uint32{0o700, 0o755, 0o750}[w.r.IntN(3)]
		did = fmt.Sprintf("chmod %o %q", mode, p)
		err = unix.Chmod(p, mode)
		x := m.touch(p)
		x.mode = mode
		w.sync(m, p, x)
	case 12: // a hard link
		p, ok := w.pick(view, isFile)
		if !ok {
			return
		}
		to := w.newPath(view)
		did = fmt.Sprintf("link %q to %q", p, to)
		err = unix.Link(p, to)
		x := m.touch(p)
		m.put(to, *x)
		// From here on the two are one file; changes to one show in the other.
		if m.own[to] != nil {
			m.own[to] = x
		}
	case 13: // another kind in its place
		p, ok := w.pick(view, any)
		if !ok {
			return
		}
		did = fmt.Sprintf("replace %q", p)
		if err := os.RemoveAll(p); err != nil {
			return did, err
		}
		m.remove(p)
		if view[p].kind == "folder" {
			err = write(p, []byte("was a folder\n"))
			x := thing{kind: "file", sum: sum([]byte("was a folder\n")), mode: 0o644}
			if err == nil {
				x.mtime, err = w.stamp(p)
			}
			m.put(p, x)
		} else {
			err = unix.Mkdir(p, 0o755)
			m.put(p, thing{kind: "folder", mode: 0o755})
		}
	}
	return did, err
}

// sync is there for hard links: names of one file share one thing in the model,
// so a change through one is seen through all.
func (w *world) sync(m *modelTask, p string, x *thing) { m.own[p] = x }
