package layers

import (
	"cmp"
	"context"
	"errors"
	"iter"
)

// A follower reads a sealed layer's list beside another layer's, in step with it.
type follower struct {
	layer string
	next  func() (record, error, bool)
	stop  func()
	at    record // the newest that was read
	begun bool
	ended bool
}

// follow is to be stopped.
func follow(ctx context.Context, layer string) *follower {
	f := &follower{layer: layer}
	f.next, f.stop = iter.Pull2(func(yield func(record, error) bool) {
		err := eachRecord(ctx, View{Layer: layer}, func(r record) error {
			if !yield(r, nil) {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			yield(record{}, err)
		}
	})
	return f
}

var errEnough = errors.New("no more is wanted")

// reaches reads on to the path, and tells whether the layer changes it. Each path that
// is asked for comes after the one before. A layer that is gone changes nothing.
func (f *follower) reaches(path string) (bool, error) {
	for !f.ended {
		if f.begun {
			if c := comparePaths(f.at.Path, path); c >= 0 {
				return c == 0, nil
			}
		}
		r, err, more := f.next()
		switch {
		case !more || errors.Is(err, ErrGone):
			f.ended = true
		case err != nil:
			return false, err
		}
		f.at, f.begun = r, true
	}
	return false, nil
}

// comparePaths orders paths as a walk meets them that goes through each folder by the
// bytes of names and enters it at once: a, a/b, a-b.
func comparePaths(a, b string) int {
	for i := range min(len(a), len(b)) {
		switch {
		case a[i] == b[i]:
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		default:
			return cmp.Compare(a[i], b[i])
		}
	}
	return cmp.Compare(len(a), len(b))
}
