package netpolicy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"gurtos/netpolicy/rules"
)

// MaxNames is the most names that one namespace's map holds (specification 6).
const MaxNames = 4096

// firstName is the index of the first name in the synthetic ranges; the ones
// below stay free for the box itself (NameServer).
const firstName = 16

// NameServer is the address that a sandbox's resolv.conf names. Any address
// would do, as port 53 is redirected; this one stands for no name.
var NameServer = rules.Synthetic4.Addr().Next()

// forgetAfter is how long a name must have been of no use to make room for another one.
// Programs that live as long as an app does meet more than MaxNames, and a loop that
// looks up new ones all the time drives out none that is used.
const forgetAfter = time.Hour

// allNames is how many names the synthetic ranges have addresses for.
const allNames = 1<<17 - firstName

// names is the map of names and their synthetic addresses. An address given out
// stands for its name for the namespace's whole life, and over restarts of the
// daemon, because programs cache answers. A name that was forgotten gives its address
// to no other one, until all others were given out too.
type names struct {
	path string                 // file that holds the map; "" keeps it in memory
	open func() map[string]bool // names that connections lead to; may be nil

	mu     sync.Mutex
	list   []string          // by index - firstName; "" where one was forgotten
	byName map[string]*named // those that are not
	freed  []int             // indexes into list of those that are, the oldest first
}

// named is what is known of a name.
type named struct {
	at   int       // index into list
	used time.Time // when it was last asked for or connected to
}

// namesFile is the map on disk. A name's place says its addresses.
type namesFile struct {
	Version int      `json:"version"`
	Names   []string `json:"names"`           // "" where one was forgotten
	Freed   []int    `json:"freed,omitempty"` // the places of those, the oldest first
}

// openNames reads the map that an earlier daemon left.
func openNames(path string) (*names, error) {
	n := &names{path: path, byName: map[string]*named{}}
	if path == "" {
		return n, nil
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return n, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the names of a network: %w", err)
	}
	var f namesFile
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("read the names of a network in %s: %w", path, err)
	}
	if f.Version != 1 {
		return nil, fmt.Errorf("%s has version %d, and this build reads version 1: it was written by a newer one", path, f.Version)
	}
	n.list = f.Names
	now := time.Now()
	known := map[int]bool{}
	for _, i := range f.Freed {
		if i >= 0 && i < len(f.Names) && f.Names[i] == "" && !known[i] {
			n.freed = append(n.freed, i)
			known[i] = true
		}
	}
	for i, name := range f.Names {
		switch {
		case name != "":
			n.byName[name] = &named{i, now}
		case !known[i]: // an older build kept no order
			n.freed = append(n.freed, i)
		}
	}
	return n, nil
}

// errManyNames is what a name beyond MaxNames gets.
var errManyNames = fmt.Errorf("a task may have at most %d names in use", MaxNames)

// addrs gives a name's two addresses, on disk before they are answered.
func (n *names) addrs(name string) (v4, v6 netip.Addr, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.byName[name]
	if known == nil {
		if known, err = n.add(name); err != nil {
			return v4, v6, err
		}
	}
	known.used = time.Now()
	i := known.at + firstName
	a4 := rules.Synthetic4.Addr().As4()
	a4[1] += byte(i >> 16)
	a4[2], a4[3] = byte(i>>8), byte(i)
	a6 := rules.Synthetic6.Addr().As16()
	a6[13], a6[14], a6[15] = byte(i>>16), byte(i>>8), byte(i)
	return netip.AddrFrom4(a4), netip.AddrFrom16(a6), nil
}

// add gives a new name the next address, with n.mu held.
func (n *names) add(name string) (*named, error) {
	list, freed := slices.Clone(n.list), n.freed
	old := ""
	if len(n.byName) >= MaxNames {
		if old = n.useless(); old == "" {
			return nil, errManyNames
		}
		at := n.byName[old].at
		list[at] = ""
		freed = append(slices.Clip(freed), at)
	}
	at := len(list)
	if at < allNames {
		list = append(list, name)
	} else {
		at, freed = freed[0], freed[1:]
		list[at] = name
	}
	if err := n.save(list, freed); err != nil {
		return nil, err
	}
	delete(n.byName, old)
	n.list, n.freed = list, freed
	n.byName[name] = &named{at: at}
	return n.byName[name], nil
}

// useless is the name that was of no use for the longest time, "" where each was of some
// within forgetAfter; n.mu is held.
func (n *names) useless() (name string) {
	var open map[string]bool
	if n.open != nil {
		open = n.open()
	}
	at := time.Now().Add(-forgetAfter)
	for s, k := range n.byName {
		if !k.used.After(at) && !open[s] {
			name, at = s, k.used
		}
	}
	return name
}

// name says which name an address stands for.
func (n *names) name(a netip.Addr) (string, bool) {
	var i int
	switch {
	case rules.Synthetic4.Contains(a):
		b := a.As4()
		i = int(b[1]&1)<<16 | int(b[2])<<8 | int(b[3])
	case rules.Synthetic6.Contains(a):
		b := a.As16()
		if [5]byte(b[8:13]) != [5]byte{} {
			return "", false
		}
		i = int(b[13])<<16 | int(b[14])<<8 | int(b[15])
	default:
		return "", false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if i -= firstName; i < 0 || i >= len(n.list) || n.list[i] == "" {
		return "", false
	}
	n.byName[n.list[i]].used = time.Now()
	return n.list[i], true
}

// save replaces the file by an atomic rename, synced, with n.mu held.
func (n *names) save(list []string, freed []int) error {
	if n.path == "" {
		return nil
	}
	b, err := json.Marshal(namesFile{Version: 1, Names: list, Freed: freed})
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(n.path), ".names-*")
	if err != nil {
		return fmt.Errorf("keep the names of a network: %w", err)
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), n.path)
	}
	if err == nil {
		err = syncDir(filepath.Dir(n.path))
	}
	if err != nil {
		return fmt.Errorf("keep the names of a network: %w", err)
	}
	return nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
