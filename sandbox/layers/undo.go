package layers

import (
	"context"
	"fmt"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"
)

// What undo does to a path.
const (
	Removed  = "removed"  // the path goes away
	Restored = "restored" // an older state of it shows again
	Kept     = "kept"     // a later layer decides it, and took nothing from the undone one
	Conflict = "conflict" // a later layer's state of it stays, and holds what the undone one wrote
)

// An UndoPath is one path that the undone layer has to do with. Folders stand
// only where no path in them says as much.
type UndoPath struct {
	Path    string
	Outcome string
	Later   []string // layer folders above the undone one that have the path too, newest first
}

// UndoPreview gives fn what the view becomes without one of its layers, path by path
// as comparePaths orders them. The view is the workspace's of now; all its layers are
// sealed. Of a layer with a million paths it has those of a folder's names in memory
// that it is in. A layer that is in it no more, or not on disk, is ErrGone before anything
// is given.
func UndoPreview(ctx context.Context, now View, layer string, fn func(UndoPath) error) error {
	i := slices.Index(now.Lowers, layer)
	if i < 0 {
		return fmt.Errorf("layer %s is not in the view: %w", layer, ErrGone)
	}
	all, err := openStack(View{Base: now.Base, Lowers: now.Lowers}, false)
	if err != nil {
		return err
	}
	defer all.close()
	u := &undoer{ctx: ctx, lowers: now.Lowers, own: all.parts[i], emit: fn}
	for _, h := range all.holds[:i] {
		u.saw = append(u.saw, slices.Contains(h.known().Saw, all.holds[i].known().ID))
	}
	older := (&stack{parts: all.parts[i+1:]}).root()
	later := make([]over, i)
	for k := range later {
		later[k] = over{dir: all.parts[k]}
	}
	return u.folder(".", u.own, older, later)
}

type undoer struct {
	ctx     context.Context
	lowers  []string
	saw     []bool // of each later layer: was the undone one below it
	own     *os.File
	emit    func(UndoPath) error
	pending []UndoPath // of the folders that it is in, outermost first: what is in them may say as much
}

// tell emits a path, which speaks for the folders that it lies in.
func (u *undoer) tell(p UndoPath) error {
	u.pending = u.pending[:0]
	return u.emit(p)
}

// over is what one later layer has at a folder's path.
type over struct {
	dir  *os.File // the folder, nil when it has none
	hide bool     // it shows nothing of what is below: an opaque folder, or something else in a folder's place
}

// A claim is what one later layer has at a path.
type claim struct {
	k      int // index of the layer
	entry  *entry
	white  bool
	opaque bool
	above  bool // hidden by what it has further up
}

// decides tells whether nothing below the claim shows at the path itself.
func (c claim) decides() bool { return c.white || c.above || c.entry != nil && !isDir(&c.entry.st) }

// folder goes through the names that the undone layer has, or hides, at a path.
// own is its folder there, nil where it only hides what is older.
func (u *undoer) folder(at string, own *os.File, older *folder, later []over) error {
	if err := u.ctx.Err(); err != nil {
		return err
	}
	var all []string
	hides := own == nil
	if own != nil {
		var err error
		if all, err = names(own); err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		if at != "." {
			if hides, err = isOpaque(int(own.Fd()), "."); err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
		}
	}
	if hides && older != nil {
		olds, err := older.all()
		if err != nil {
			return err
		}
		for _, o := range olds {
			all = append(all, o.name)
		}
		slices.Sort(all)
		all = slices.Compact(all)
	}
	for _, n := range all {
		if err := u.name(path.Join(at, n), n, own, older, later); err != nil {
			return err
		}
	}
	return nil
}

func (u *undoer) name(at, name string, own *os.File, older *folder, later []over) error {
	var mine, old *entry // what the undone layer has, and what shows without it
	if own != nil {
		st, err := lstatAt(int(own.Fd()), name)
		if err != nil && err != unix.ENOENT {
			return fmt.Errorf("%s: %w", at, err)
		}
		if err == nil && !isWhiteout(&st) {
			mine = &entry{name, part{own, 0}, st}
		}
	}
	if older != nil {
		e, ok, err := older.find(name)
		if err != nil {
			return err
		}
		if ok {
			old = &e
		}
	}
	if mine == nil && old == nil {
		return nil // it removed what is not there any more
	}
	claims, err := u.claims(name, later)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	out, err := u.outcome(mine, old, claims)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	p := UndoPath{Path: at, Outcome: out}
	for _, c := range claims {
		p.Later = append(p.Later, u.lowers[c.k])
	}
	plain := (mine == nil || isDir(&mine.st)) && (old == nil || isDir(&old.st)) // a folder and nothing else
	waits := out != "" && plain && out != Conflict
	if waits {
		u.pending = append(u.pending, p)
	} else if out != "" {
		if err := u.tell(p); err != nil {
			return err
		}
	}
	depth := len(u.pending)
	if mine != nil && isDir(&mine.st) || old != nil && isDir(&old.st) {
		if err := u.within(at, name, mine, own, older, later, claims); err != nil {
			return err
		}
	}
	if waits && len(u.pending) == depth { // nothing in it was told of
		return u.tell(p)
	}
	return nil
}

// within goes into the folder of a name.
func (u *undoer) within(at, name string, mine *entry, own *os.File, older *folder, later []over, claims []claim) error {
	var sub *os.File
	if mine != nil && isDir(&mine.st) {
		f, err := openFolder(int(own.Fd()), name)
		if err != nil {
			return fmt.Errorf("%s: %w", at, err)
		}
		defer f.Close()
		sub = f
	}
	var olds *folder
	if older != nil {
		f, err := older.enter(name)
		if err != nil {
			return err
		}
		defer f.close()
		olds = f
	}
	next := make([]over, len(later))
	for _, c := range claims {
		o := over{hide: c.decides() || c.opaque}
		if c.entry != nil && isDir(&c.entry.st) {
			f, err := openFolder(int(later[c.k].dir.Fd()), name)
			if err != nil {
				return fmt.Errorf("%s: %w", at, err)
			}
			defer f.Close()
			o.dir = f
		}
		next[c.k] = o
	}
	return u.folder(at, sub, olds, next)
}

// claims lists the later layers that have a say at a name, newest first, up to
// the first one that hides the rest.
func (u *undoer) claims(name string, later []over) ([]claim, error) {
	var out []claim
	for k, o := range later {
		c := claim{k: k}
		if o.dir != nil {
			st, err := lstatAt(int(o.dir.Fd()), name)
			switch {
			case err == nil && isWhiteout(&st):
				c.white = true
			case err == nil:
				c.entry = &entry{name, part{o.dir, 0}, st}
				if isDir(&st) {
					sub, err := openFolder(int(o.dir.Fd()), name)
					if err != nil {
						return nil, err
					}
					c.opaque, err = isOpaque(int(sub.Fd()), ".")
					sub.Close()
					if err != nil {
						return nil, err
					}
				}
			case err != unix.ENOENT:
				return nil, err
			}
		}
		if c.entry == nil && !c.white {
			if !o.hide {
				continue
			}
			c.above = true
		}
		out = append(out, c)
		if o.hide || c.decides() {
			break
		}
	}
	return out, nil
}

// outcome decides for one path. "" is for what undo leaves as it is without
// anyone's doing.
func (u *undoer) outcome(mine, old *entry, claims []claim) (string, error) {
	if len(claims) == 0 {
		switch {
		case old == nil:
			return Removed, nil
		case mine == nil:
			return Restored, nil
		}
		same, err := sameEntry(mine, old)
		if err != nil || same {
			return "", err
		}
		return Restored, nil
	}
	// The newest claim is what shows, before and after.
	top := claims[0]
	if mine != nil && isDir(&mine.st) && old != nil && isDir(&old.st) && mine.st.Mode == old.st.Mode {
		return "", nil // a folder that was there and stays
	}
	if top.entry == nil || mine == nil || !u.saw[top.k] {
		return Kept, nil
	}
	carries, err := carries(mine, old, top.entry)
	if err != nil {
		return "", err
	}
	if carries {
		return Conflict, nil
	}
	return Kept, nil
}
