package clock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"gurtos/core/durable"
)

// life is how long after its build a box may still be running.
const life = 30 * 365 * 24 * time.Hour

// Known is what the box knows of the time without asking.
type Known struct {
	Build  time.Time `json:"-"`
	Synced time.Time `json:"synced"` // the last that was confirmed
	Seen   time.Time `json:"seen"`   // the last that the clock showed
}

// Load adds what the file at path says. A file that is missing or damaged says
// nothing.
func (k *Known) Load(path string) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(b, k)
	}
	if err != nil {
		return fmt.Errorf("read the last known time: %w", err)
	}
	return nil
}

// Save writes the file at path.
func (k Known) Save(disk durable.FS, path string) error {
	b, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return durable.Replace(disk, path, append(b, '\n'), 0o600)
}

// Floor is what the time can't be below.
func (k Known) Floor() time.Time {
	if k.Synced.After(k.Build) {
		return k.Synced
	}
	return k.Build
}

// Believable says whether t may be the time.
func (k Known) Believable(t time.Time) bool {
	return !t.Before(k.Floor()) && (k.Build.IsZero() || t.Before(k.Build.Add(life)))
}

// Correct returns what the clock should be set to when it shows now, and where
// that comes from; ok is false when it may be right. What the clock showed last
// counts only when it shows nonsense now.
func (k Known) Correct(now time.Time) (to time.Time, source string, ok bool) {
	if k.Believable(now) {
		return now, "rtc", false
	}
	to, source = k.Build, "build"
	if k.Synced.After(to) {
		to, source = k.Synced, "last-known"
	}
	if k.Seen.After(to) && k.Believable(k.Seen) {
		to, source = k.Seen, "last-known"
	}
	return to, source, true
}
