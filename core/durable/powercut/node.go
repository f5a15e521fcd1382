package powercut

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
)

// sector is what a disk writes whole or not at all.
const sector = 512

// node is a file or folder, in its synced state and with what came since.
type node struct {
	dir    bool
	loaded bool
	perm   fs.FileMode

	// A folder's.
	now, synced map[string]*node
	changes     [][]entry // since the last sync; each is whole or not there

	// A file's.
	data    []byte   // synced
	pending []change // since
	permNow *fs.FileMode
}

// entry sets a name of a folder; nil takes it away.
type entry struct {
	name string
	node *node
}

// change is a write, or a truncation to off.
type change struct {
	truncate bool
	off      int64
	data     []byte
}

// load reads what is at path as the synced state, once.
func (n *node) load(path string) error {
	if n.loaded {
		return nil
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	n.loaded, n.perm = true, info.Mode().Perm()
	if !n.dir {
		if !info.Mode().IsRegular() {
			return nil
		}
		n.data, err = os.ReadFile(path)
		return err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	n.now, n.synced = map[string]*node{}, map[string]*node{}
	for _, e := range entries {
		child := &node{dir: e.IsDir()}
		n.now[e.Name()], n.synced[e.Name()] = child, child
	}
	return nil
}

// loadAll loads a folder with all that is in it, because its path will change.
func (n *node) loadAll(path string) error {
	if err := n.load(path); err != nil {
		return err
	}
	for name, child := range n.now {
		if err := child.loadAll(filepath.Join(path, name)); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) change(entries ...entry) {
	set(n.now, entries)
	n.changes = append(n.changes, entries)
}

func set(m map[string]*node, entries []entry) {
	for _, e := range entries {
		if e.node == nil {
			delete(m, e.name)
		} else {
			m[e.name] = e.node
		}
	}
}

// apply makes the first k changes of a folder durable.
func (n *node) apply(k int) {
	for _, entries := range n.changes[:k] {
		set(n.synced, entries)
	}
	n.changes = n.changes[k:]
}

// flush makes all of a file's contents durable.
func (n *node) flush() {
	for _, c := range n.pending {
		n.data = c.on(n.data)
	}
	n.pending = nil
}

func (c change) on(data []byte) []byte {
	end := c.off + int64(len(c.data))
	if c.truncate && int64(len(data)) > end {
		return data[:end:end]
	}
	if grow := end - int64(len(data)); grow > 0 {
		data = append(data, make([]byte, grow)...)
	}
	copy(data[c.off:end], c.data)
	return data
}

// Cut turns the power off and leaves in the folder what the disk holds. With seed
// 0 that is what was synced. Any other seed adds a random part of the rest, the
// same for the same seed: some sectors of unsynced writes, sizes that grew with
// or without the bytes, the first few of a folder's changes.
func (d *Disk) Cut(seed uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = true
	for h := range d.handle {
		h.File.Close()
	}
	d.handle = nil
	var luck *rand.Rand
	if seed != 0 {
		luck = rand.New(rand.NewPCG(seed, 0))
	}
	if err := d.top.restore(d.root, luck); err != nil {
		return fmt.Errorf("cut power of %s: %w", d.root, err)
	}
	return nil
}

// restore makes path what the disk holds of n.
func (n *node) restore(path string, luck *rand.Rand) error {
	if !n.loaded {
		return nil
	}
	if !n.dir {
		if luck != nil {
			n.settle(luck)
		}
		if err := os.WriteFile(path, n.data, n.perm); err != nil {
			return err
		}
		return os.Chmod(path, n.perm)
	}
	if err := os.Mkdir(path, n.perm); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if luck != nil && len(n.changes) > 0 {
		n.apply(luck.IntN(len(n.changes) + 1))
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		// What is loaded is written anew; the rest was never touched.
		if keep := n.synced[e.Name()]; keep == nil || keep.loaded && !keep.dir {
			if err := os.RemoveAll(filepath.Join(path, e.Name())); err != nil {
				return err
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(n.synced)) {
		if err := n.synced[name].restore(filepath.Join(path, name), luck); err != nil {
			return err
		}
	}
	return nil
}

// settle lets some of a file's unsynced changes reach the disk.
func (n *node) settle(luck *rand.Rand) {
	chance := luck.Float64()
	size := len(n.data)
	for _, c := range n.pending {
		if c.truncate {
			if luck.Float64() < chance {
				n.data = c.on(n.data)
			}
			continue
		}
		for at := int64(0); at < int64(len(c.data)); {
			next := min(int64(len(c.data)), at+sector-(c.off+at)%sector)
			if luck.Float64() < chance {
				n.data = change{off: c.off + at, data: c.data[at:next]}.on(n.data)
			}
			at = next
		}
	}
	// The size is metadata of its own: it may lag behind the bytes or be ahead.
	switch end := n.size(size); luck.IntN(3) {
	case 0:
		if len(n.data) > size {
			n.data = n.data[:size+luck.IntN(len(n.data)-size)]
		}
	case 1:
		if end > len(n.data) {
			n.data = append(n.data, make([]byte, end-len(n.data))...)
		}
	}
	n.pending = nil
}

// size is how long the file was for who had it open.
func (n *node) size(synced int) int {
	for _, c := range n.pending {
		end := int(c.off) + len(c.data)
		if c.truncate || end > synced {
			synced = end
		}
	}
	return synced
}
