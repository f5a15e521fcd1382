package task

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/durable"
	"gurtos/netpolicy"
	"gurtos/netpolicy/meter"
)

// keptCall is a model call that is out, as a file of its own in BOX_HOME/model-calls has
// it: from before its question is passed on until what it used is booked. A boxd that was
// killed meanwhile can't know what the answer used, and the service was asked all the same,
// so the next start books what it may have used as an estimate. It is no line of the log:
// what a service refuses costs nothing, and a program could have it refused without end.
type keptCall struct {
	Version int    `json:"version"`
	Task    string `json:"task"`
	Model   string `json:"model,omitempty"`
	Input   int64  `json:"input"`  // tokens
	Output  int64  `json:"output"` // tokens at most
	At      int64  `json:"at"`     // milliseconds since 1970
	Seq     int64  `json:"seq"`    // of the log's last line then: what books it stands behind
}

const keptVersion = 1

func (t *Tasks) callsDir() string { return filepath.Join(t.opt.Home, "model-calls") }

// keepCall returns once the call is on disk.
func (t *Tasks) keepCall(name, task string, most meter.Usage) error {
	t.mu.Lock()
	seq := t.fold.Seq
	t.mu.Unlock()
	b, err := json.Marshal(keptCall{keptVersion, task, most.Model, most.Input, most.Output, t.opt.Now().UnixMilli(), seq})
	if err != nil {
		return err
	}
	file := filepath.Join(t.callsDir(), name)
	err = durable.Replace(t.opt.Disk, file, b, 0o600)
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := durable.MkdirAll(t.opt.Disk, t.callsDir(), 0o700); err != nil { // the first of all
		return err
	}
	return durable.Replace(t.opt.Disk, file, b, 0o600)
}

// forgetCall takes away a call that is over. A power cut may bring one back that is booked:
// the next start finds it in the log. One that was free stands nowhere, and is gone for good
// when this returns.
func (t *Tasks) forgetCall(name string, booked bool) {
	file := filepath.Join(t.callsDir(), name)
	remove := durable.Remove
	if booked {
		remove = durable.FS.Remove
	}
	if err := remove(t.opt.Disk, file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.opt.Slog.Warn("a model call that is over is still kept", "call", name, "why", err)
	}
}

// bookKept books the calls that were out when the last boxd was killed.
func (t *Tasks) bookKept(ctx context.Context) error {
	kept, err := t.keptCalls()
	if err != nil || len(kept) == 0 {
		return err
	}
	booked, err := t.bookedOf(ctx, kept)
	if err != nil {
		return err
	}
	for name, k := range kept {
		if !booked[name] {
			u := meter.Usage{Model: k.Model, Input: k.Input, Output: k.Output, Estimate: true}
			if went := t.opt.Now().UnixMilli() - k.At; went >= 0 { // else the clock was stepped, and nobody knows
				u.Output = min(u.Output, netpolicy.Written(time.Duration(went)*time.Millisecond))
			}
			if err := t.Metered(ctx, k.Task, name, u); err != nil {
				t.opt.Slog.Error("a model call that a crash broke off was not booked", "task", k.Task, "why", err)
				continue
			}
		}
		t.forgetCall(name, true)
	}
	return nil
}

// keptCalls reads what is kept. What can't be read is left alone.
func (t *Tasks) keptCalls() (map[string]keptCall, error) {
	names, err := os.ReadDir(t.callsDir())
	if err == nil { // a kill may have come between the folder's making and the sync of the one above
		err = t.opt.Disk.SyncDir(t.opt.Home)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the model calls that were out: %w", err)
	}
	all := map[string]keptCall{}
	for _, n := range names {
		if strings.HasSuffix(n.Name(), ".new") { // its call was never made
			t.forgetCall(n.Name(), true)
			continue
		}
		var k keptCall
		b, err := durable.ReadFile(t.opt.Disk, filepath.Join(t.callsDir(), n.Name()))
		if err == nil {
			err = json.Unmarshal(b, &k)
		}
		if err == nil && k.Version != keptVersion {
			err = fmt.Errorf("it is of version %d, which this boxd doesn't know", k.Version)
		}
		if err != nil {
			t.opt.Slog.Error("a model call that was out is left alone, and not booked", "file", n.Name(), "why", err)
			continue
		}
		all[n.Name()] = k
	}
	return all, nil
}

// bookedOf says which of the calls the log has.
func (t *Tasks) bookedOf(ctx context.Context, kept map[string]keptCall) (map[string]bool, error) {
	from := int64(1<<63 - 1)
	for _, k := range kept {
		from = min(from, k.Seq)
	}
	booked := map[string]bool{}
	err := t.opt.Log.Read(ctx, from, func(_ []byte, event func() (actionlog.Event, error)) error {
		ev, err := event()
		if err == nil && ev.Type == actionlog.TypeCost {
			booked[extraText(&ev, fieldCall)] = true
		}
		return err
	})
	return booked, err
}
