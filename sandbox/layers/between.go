package layers

import (
	"context"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Between lists the files and symlinks whose content differs between two views without
// an open layer, sorted by path, of those that keep takes. Folders, modes, times and
// owners are no content. What the same layers make is not looked into.
func Between(ctx context.Context, was, is View, keep func(path string) bool) ([]Change, error) {
	olds, err := openStack(View{Base: was.Base, Lowers: was.Lowers}, false)
	if err != nil {
		return nil, err
	}
	defer olds.close()
	news, err := openStack(View{Base: is.Base, Lowers: is.Lowers}, false)
	if err != nil {
		return nil, err
	}
	defer news.close()
	b := &between{ctx: ctx, keep: keep}
	if err := b.folder(olds.root(), news.root()); err != nil {
		return nil, err
	}
	slices.SortFunc(b.out, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return b.out, nil
}

type between struct {
	ctx  context.Context
	keep func(path string) bool
	out  []Change
}

// folder compares a folder of both views; either may be nil.
func (b *between) folder(was, is *folder) error {
	if err := b.ctx.Err(); err != nil {
		return err
	}
	at := "."
	var olds, news []entry
	var err error
	if was != nil {
		at = was.path
		if olds, err = was.list(); err != nil {
			return err
		}
	}
	if is != nil {
		at = is.path
		if news, err = is.list(); err != nil {
			return err
		}
	}
	for len(olds) > 0 || len(news) > 0 {
		var o, n *entry
		switch {
		case len(olds) == 0 || len(news) > 0 && news[0].name < olds[0].name:
			n, news = &news[0], news[1:]
		case len(news) == 0 || olds[0].name < news[0].name:
			o, olds = &olds[0], olds[1:]
		default:
			o, n, olds, news = &olds[0], &news[0], olds[1:], news[1:]
		}
		if err := b.pair(at, was, is, o, n); err != nil {
			return err
		}
	}
	return nil
}

// pair compares one name; o or n is nil when one side lacks it.
func (b *between) pair(at string, was, is *folder, o, n *entry) error {
	name := ""
	for _, e := range []*entry{o, n} {
		if e != nil {
			name = e.name
		}
	}
	full := path.Join(at, name)
	if oldFile, newFile := o != nil && !isDir(&o.st), n != nil && !isDir(&n.st); (oldFile || newFile) && b.keep(full) {
		c := Change{Path: full, Change: Modified}
		switch {
		case !oldFile:
			c.Change = Added
		case !newFile:
			c.Change = Deleted
		default:
			same, err := sameContent(o, n)
			if err != nil {
				return wrapPath(full, err)
			}
			if same {
				c.Change = ""
			}
		}
		if c.Change != "" {
			which := n
			if !newFile {
				which = o
			}
			c.Kind, c.Size = kindWord(&which.st), sizeOf(&which.st)
			b.out = append(b.out, c)
		}
	}
	var olds, news *folder
	var err error
	if o != nil && isDir(&o.st) {
		if olds, err = was.enter(name); err != nil {
			return err
		}
		defer olds.close()
	}
	if n != nil && isDir(&n.st) {
		if news, err = is.enter(name); err != nil {
			return err
		}
		defer news.close()
	}
	if olds == nil && news == nil {
		return nil
	}
	if olds != nil && news != nil {
		if same, err := sameParts(olds, news); err != nil || same {
			return wrapPath(full, err)
		}
	}
	return b.folder(olds, news)
}

// sameContent is sameEntry whatever the modes.
func sameContent(a, b *entry) (bool, error) {
	x, y := *a, *b
	const perm = ^uint32(unix.S_IFMT)
	x.st.Mode &^= perm
	y.st.Mode &^= perm
	return sameEntry(&x, &y)
}

// sameParts says whether two merged folders are made of the same folders of the same
// layers: then all in them is the same.
func sameParts(a, b *folder) (bool, error) {
	if len(a.parts) != len(b.parts) {
		return false, nil
	}
	for i := range a.parts {
		var x, y unix.Stat_t
		if err := unix.Fstat(int(a.parts[i].dir.Fd()), &x); err != nil {
			return false, err
		}
		if err := unix.Fstat(int(b.parts[i].dir.Fd()), &y); err != nil {
			return false, err
		}
		if x.Dev != y.Dev || x.Ino != y.Ino {
			return false, nil
		}
	}
	return true, nil
}
