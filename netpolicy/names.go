package netpolicy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"sync"

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

// names is the map of names and their synthetic addresses. An address given out
// stands for its name for the namespace's whole life, and over restarts of the
// daemon, because programs cache answers.
type names struct {
	path string // file that holds the map; "" keeps it in memory

	mu     sync.Mutex
	list   []string       // by index - firstName
	byName map[string]int // index into list
}

// namesFile is the map on disk.
type namesFile struct {
	Version int      `json:"version"`
	Names   []string `json:"names"`
}

// openNames reads the map that an earlier daemon left.
func openNames(path string) (*names, error) {
	n := &names{path: path, byName: map[string]int{}}
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
	for i, name := range f.Names {
		n.byName[name] = i
	}
	return n, nil
}

// errManyNames is what a name beyond MaxNames gets.
var errManyNames = fmt.Errorf("a task may look up at most %d names", MaxNames)

// addrs gives a name's two addresses, on disk before they are answered.
func (n *names) addrs(name string) (v4, v6 netip.Addr, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	i, known := n.byName[name]
	if !known {
		if len(n.list) >= MaxNames {
			return v4, v6, errManyNames
		}
		if err := n.save(append(n.list, name)); err != nil {
			return v4, v6, err
		}
		i = len(n.list)
		n.list = append(n.list, name)
		n.byName[name] = i
	}
	i += firstName
	a4 := rules.Synthetic4.Addr().As4()
	a4[1] += byte(i >> 16)
	a4[2], a4[3] = byte(i>>8), byte(i)
	a6 := rules.Synthetic6.Addr().As16()
	a6[13], a6[14], a6[15] = byte(i>>16), byte(i>>8), byte(i)
	return netip.AddrFrom4(a4), netip.AddrFrom16(a6), nil
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
	if i -= firstName; i < 0 || i >= len(n.list) {
		return "", false
	}
	return n.list[i], true
}

// save replaces the file by an atomic rename, synced, with n.mu held.
func (n *names) save(list []string) error {
	if n.path == "" {
		return nil
	}
	b, err := json.Marshal(namesFile{Version: 1, Names: list})
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
