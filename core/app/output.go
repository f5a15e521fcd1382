package app

import (
	"bytes"
	"context"
	"strings"
)

// maxLine is how many bytes of a line are held until its end comes.
const maxLine = 16 << 10

// Printed hands out what an app printed, from the last 64 KB of it on, whole lines
// without the vault's values; with follow it goes on until ctx ends. An error of write
// ends it and is given back.
func (r *Registry) Printed(ctx context.Context, name string, follow bool, write func([]byte) error) error {
	r.mu.Lock()
	a := r.apps[name]
	r.mu.Unlock()
	if a == nil {
		return nil
	}
	var rest []byte
	for at := int64(0); ; {
		text, next, more := a.printed.since(at)
		at, rest = next, append(rest, text...)
		end := bytes.LastIndexByte(rest, '\n') + 1
		if !follow || len(rest)-end > maxLine {
			end = len(rest)
		}
		if end > 0 {
			out := r.opt.Vault.Redact(strings.ToValidUTF8(string(rest[:end]), "\uFFFD"))
			if err := write([]byte(out)); err != nil {
				return err
			}
			rest = append(rest[:0], rest[end:]...)
		}
		if !follow {
			return nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return ctx.Err()
		case <-r.ctx.Done():
			return nil
		}
	}
}

// since gives what was printed behind a place, the place behind it, and a channel that
// is closed once there is more. What is not kept any more is left out.
func (o *ring) since(at int64) (text []byte, next int64, more <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.more == nil {
		o.more = make(chan struct{})
	}
	kept := o.text[max(0, len(o.text)-maxPrinted):]
	from := max(int64(len(kept))-(o.total-at), 0)
	return bytes.Clone(kept[from:]), o.total, o.more
}
