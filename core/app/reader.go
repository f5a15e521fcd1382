package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/durable"
)

// retryTime is after how long a reader gets a line again that it failed at.
const retryTime = 5 * time.Second

// feed hands a log reader every line from its place on, until the app's life ends.
func (a *app) feed(l *life, name string) {
	place, err := openCursor(filepath.Join(a.r.opt.Home, "cursors", a.name+"."+name))
	if err != nil {
		a.trouble("the log reader %s can't begin: %v", name, err)
		return
	}
	defer place.close()
	if head, _ := a.r.opt.Events.Head(); place.at > head {
		place.at = head // the end of a log can be lost: what comes in its place is new
	}
	err = a.r.opt.Events.Follow(l.ctx, place.at, func(line []byte, _ func() (actionlog.Event, error)) error {
		if err := a.take(l, name, bytes.TrimSpace(line)); err != nil {
			return err
		}
		return place.to(place.at + 1)
	})
	if err != nil && l.ctx.Err() == nil {
		a.trouble("the log reader %s gets nothing any more: %v", name, err)
	}
}

// take hands a reader one line until it takes it. Only the end of the app's life ends
// that.
func (a *app) take(l *life, name string, line json.RawMessage) error {
	told := ""
	for {
		h, err := a.ready(l.ctx)
		if err == nil {
			c := &call{what: "the log reader " + name, limit: a.r.opt.RouteTime}
			err = h.run(l.ctx, c, "read", map[string]any{"reader": name, "event": line}, nil)
			if err == nil {
				return nil
			}
		}
		if l.ctx.Err() != nil {
			return context.Cause(l.ctx)
		}
		var late *slow
		// The same trouble again and again is said once for a line.
		if !errors.Is(err, errGone) && !errors.As(err, &late) && err.Error() != told && h != nil {
			told = err.Error()
			a.trouble("the log reader %s: %v", name, err)
		}
		if err := sleep(l.ctx, retryTime); err != nil {
			return err
		}
	}
}

// cursor is a reader's place in the log, as a file of one line: the number of the last
// line that it was done with.
type cursor struct {
	file *os.File
	at   int64
}

// cursorForm is as wide as any number of a line, so that writing it never leaves a part
// of another one.
const cursorForm = "%019d\n"

func openCursor(path string) (*cursor, error) {
	if err := durable.MkdirAll(durable.Disk, filepath.Dir(path), 0o711); err != nil {
		return nil, err
	}
	c := &cursor{}
	b, err := os.ReadFile(path)
	if err == nil {
		c.at, err = strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	}
	if err != nil || c.at < 0 || len(b) != len(fmt.Sprintf(cursorForm, 0)) {
		// There is none, or it is in no state to be read: from the first line on, since
		// twice is better than never.
		c.at = max(c.at, 0)
		if err := durable.Replace(durable.Disk, path, fmt.Appendf(nil, cursorForm, c.at), 0o600); err != nil {
			return nil, err
		}
	}
	c.file, err = os.OpenFile(path, os.O_WRONLY, 0)
	return c, err
}

// to moves the place. It is in the file at once, and on disk a little later: after a
// power cut a reader may get some lines again.
func (c *cursor) to(seq int64) error {
	c.at = seq
	_, err := c.file.WriteAt(fmt.Appendf(nil, cursorForm, seq), 0)
	return err
}

func (c *cursor) close() {
	c.file.Sync() //nolint:errcheck // a place that is behind only makes for lines that come again
	c.file.Close()
}
