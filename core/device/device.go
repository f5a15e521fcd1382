package device

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"gurtos/core/durable"
)

// Role says what a device was paired as.
type Role string

// The roles.
const (
	Owner  Role = "owner"
	Member Role = "device"
)

// Device is one that was paired.
type Device struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Role     Role   `json:"role"`
	PairedAt string `json:"pairedAt"`
	LastSeen string `json:"lastSeen"`
}

// Invalid is something in a request to pair that was refused.
type Invalid struct{ Field, Sentence string }

func (e *Invalid) Error() string { return e.Field + ": " + e.Sentence }

// Errors that callers tell apart.
var (
	ErrToken   = errors.New("this token is not known to the box, or its device was removed: pair the device again")
	ErrMissing = errors.New("there is no paired device of this id")
)

const (
	version    = 1
	timeForm   = "2006-01-02T15:04:05.000Z"
	maxDevices = 200
	maxName    = 60              // characters
	seenEvery  = 5 * time.Minute // how often lastSeen goes to disk
)

// Devices is all that are paired and the codes that are out.
type Devices struct {
	path string
	disk durable.FS
	now  func() time.Time

	mu     sync.Mutex
	list   []paired             // guarded by mu; in the order of pairing
	byHash map[[32]byte]*paired // guarded by mu; points into list
	saved  time.Time            // guarded by mu; when lastSeen went to disk last

	codes codes
}

type paired struct {
	Device
	Token string        `json:"token"`
	gone  chan struct{} // closed when it is removed
}

type file struct {
	Version int      `json:"version"`
	Devices []paired `json:"devices"`
}

// Open reads devices.json, which may be missing on a new box.
func Open(disk durable.FS, path string) (*Devices, error) {
	d := &Devices{path: path, disk: disk, now: time.Now, codes: codes{now: time.Now}}
	b, err := durable.ReadFile(disk, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.adopt(nil)
		return d, nil
	case err != nil:
		return nil, fmt.Errorf("reading the paired devices: %w", err)
	}
	var f file
	if err := json.Unmarshal(b, &f); err != nil {
		return nil, fmt.Errorf("%s is damaged: %v. Mend it, or move it away and pair every device again", path, err)
	}
	if f.Version > version {
		return nil, fmt.Errorf("%s is of version %d and this build knows up to %d: a newer GurtOS wrote it, and this one leaves it as it is. Install the newer one again", path, f.Version, version)
	}
	for i, p := range f.Devices {
		sum, err := hex.DecodeString(p.Token)
		if f.Version < 1 || err != nil || len(sum) != 32 || p.ID == "" || p.Role != Owner && p.Role != Member {
			return nil, fmt.Errorf("%s is damaged at device %d. Mend it, or move it away and pair every device again", path, i+1)
		}
		f.Devices[i].gone = make(chan struct{})
	}
	d.adopt(f.Devices)
	return d, nil
}

// adopt takes a list over; d.mu is held, or nobody else knows d yet.
func (d *Devices) adopt(list []paired) {
	d.list, d.byHash = list, map[[32]byte]*paired{}
	for i := range list {
		var h [32]byte
		hex.Decode(h[:], []byte(list[i].Token)) // its form was checked when it was read or made
		d.byHash[h] = &list[i]
	}
}

// save writes a list and takes it over once it is on disk; d.mu is held.
func (d *Devices) save(list []paired) error {
	b, err := json.MarshalIndent(file{version, list}, "", "  ")
	if err != nil {
		return err
	}
	if err := durable.Replace(d.disk, d.path, append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the paired devices: %w", err)
	}
	d.adopt(list)
	d.saved = d.now()
	return nil
}

// Code makes a code that pairs one device as role within CodeLife.
func (d *Devices) Code(role Role) (Code, error) {
	if role != Owner && role != Member {
		return Code{}, &Invalid{"role", "owner or device is needed"}
	}
	return d.codes.issue(role), nil
}

// Pair takes a code from an address and gives the new device and its token. A
// wrong code is a *Wrong, too many tries a *Slow.
func (d *Devices) Pair(code, name, addr string) (Device, string, error) {
	name = strings.TrimSpace(name)
	if err := checkName(name); err != nil {
		return Device{}, "", err
	}
	role, err := d.codes.redeem(code, addr)
	if err != nil {
		return Device{}, "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.list) >= maxDevices {
		return Device{}, "", &Invalid{"name", fmt.Sprintf("the box has %d paired devices, which is the most it takes. Remove one first", maxDevices)}
	}
	token := newToken()
	sum := sha256.Sum256([]byte(token))
	at := d.now().UTC().Format(timeForm)
	p := paired{
		Device: Device{ID: newID(), Name: d.free(name), Role: role, PairedAt: at, LastSeen: at},
		Token:  hex.EncodeToString(sum[:]),
		gone:   make(chan struct{}),
	}
	if err := d.save(append(slices.Clone(d.list), p)); err != nil {
		return Device{}, "", err
	}
	return p.Device, token, nil
}

// free gives a name that no other device has, so that the one who answered an
// approval can be told by it; d.mu is held.
func (d *Devices) free(name string) string {
	for n, try := 2, name; ; n++ {
		if !slices.ContainsFunc(d.list, func(p paired) bool { return strings.EqualFold(p.Name, try) }) {
			return try
		}
		try = fmt.Sprintf("%s %d", name, n)
	}
}

// Check finds the device of a token and notes that it was seen. The channel is
// closed when the device is removed.
func (d *Devices) Check(token string) (Device, <-chan struct{}, error) {
	sum := sha256.Sum256([]byte(token))
	d.mu.Lock()
	defer d.mu.Unlock()
	p, ok := d.byHash[sum]
	if !ok {
		return Device{}, nil, ErrToken
	}
	p.LastSeen = d.now().UTC().Format(timeForm)
	if d.now().Sub(d.saved) > seenEvery {
		// Only for people's eyes: a failed write must not lock a device out.
		_ = d.save(slices.Clone(d.list))
	}
	return p.Device, p.gone, nil
}

// List is all devices in the order in which they were paired.
func (d *Devices) List() []Device {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]Device, len(d.list))
	for i, p := range d.list {
		list[i] = p.Device
	}
	return list
}

// Remove ends a device's token at once and for good.
func (d *Devices) Remove(id string) (Device, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.list, func(p paired) bool { return p.ID == id })
	if i < 0 {
		return Device{}, ErrMissing
	}
	gone := d.list[i]
	if err := d.save(slices.Delete(slices.Clone(d.list), i, i+1)); err != nil {
		return Device{}, err
	}
	close(gone.gone)
	return gone.Device, nil
}

// reserved are names by which the log tells who answered when it was no device.
var reserved = []string{"box screen", "screen", "undo", "task ended", "asi1", "box", "owner"}

func checkName(name string) error {
	switch n := utf8.RuneCountInString(name); {
	case n == 0:
		return &Invalid{"name", "a name for the device is needed"}
	case n > maxName:
		return &Invalid{"name", fmt.Sprintf("at most %d characters", maxName)}
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return &Invalid{"name", "only letters, digits, spaces and signs that can be seen"}
	case slices.Contains(reserved, strings.ToLower(name)) || strings.HasPrefix(strings.ToLower(name), "jira:"):
		return &Invalid{"name", fmt.Sprintf("the box itself answers as %q: give the device another name", name)}
	}
	return nil
}

// newToken begins with d: tokens of windows begin with w.
func newToken() string {
	b := make([]byte, 32)
	rand.Read(b)
	return "d" + base64.RawURLEncoding.EncodeToString(b)
}

func newID() string { return strings.ToLower(rand.Text()[:12]) }
