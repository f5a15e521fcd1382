package facts

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"
)

// Facts are the file's content.
type Facts struct {
	Slot     string    `json:"slot"`    // a or b
	Version  string    `json:"version"` // of the system
	Commit   string    `json:"commit"`
	Debug    bool      `json:"debug,omitempty"`
	Kernel   string    `json:"kernel"`
	BoxID    string    `json:"boxId,omitempty"`
	Previous string    `json:"previous"` // how the box last ended: clean, unclean or none (first boot)
	FirstRun bool      `json:"firstRun"` // this boot made the data disk
	Clock    Clock     `json:"clock"`
	Data     Data      `json:"data"`
	Stages   Stages    `json:"stages"`
	Reasons  []string  `json:"reasons"` // why the box is not as it should be
	At       time.Time `json:"at"`      // when this was written
}

// Clock says where the time comes from.
type Clock struct {
	Source string `json:"source"` // rtc, build, last-known or ntp
	Synced bool   `json:"synced"` // a time server agreed
	Server string `json:"server,omitempty"`
}

// Data is the data disk.
type Data struct {
	State string `json:"state"` // ready, read-only, missing or damaged
	Disk  string `json:"disk,omitempty"`
	Size  int64  `json:"size,omitempty"` // bytes of the file system
	Free  int64  `json:"free,omitempty"`
	Fixed bool   `json:"repaired,omitempty"` // xfs_repair ran
	Grown bool   `json:"grown,omitempty"`
}

// Stages are milliseconds since the kernel started.
type Stages struct {
	Stage1 int64 `json:"stage1"` // the initramfs' init began
	Stage2 int64 `json:"stage2"` // the system's init began
	Data   int64 `json:"data"`   // the data disk was mounted
}

// A File keeps facts and their file.
type File struct {
	path string

	mu    sync.Mutex
	facts Facts
}

// New makes a file that is not yet written.
func New(path string, f Facts) *File { return &File{path: path, facts: f} }

// Update changes the facts and writes them.
func (f *File) Update(change func(*Facts)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.facts)
	f.facts.At = time.Now().UTC()
	if f.facts.Reasons == nil {
		f.facts.Reasons = []string{}
	}
	b, err := json.MarshalIndent(f.facts, "", "\t")
	if err != nil {
		return err
	}
	// On a tmpfs: whole or not at all for a reader, nothing to sync.
	if err := os.WriteFile(f.path+".new", append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the facts of this boot: %w", err)
	}
	if err := os.Rename(f.path+".new", f.path); err != nil {
		return fmt.Errorf("write the facts of this boot: %w", err)
	}
	return nil
}
