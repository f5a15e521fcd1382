package window

import (
	"container/list"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strings"
	"sync"
	"time"
)

// Prefix is what every window's token begins with; a device's begins with d.
const Prefix = "w"

// Limits.
const (
	Life = 12 * time.Hour
	Most = 1000 // windows at a time; one more ends the oldest
)

// ErrExpired is what is said of a token that stands for no window any more.
var ErrExpired = errors.New("this window has expired: close it and open the app again")

// Formed says whether a token has the form of those that Open gives. What has not was
// never a window's.
func Formed(token string) bool {
	secret, ok := strings.CutPrefix(token, Prefix)
	b, err := base64.RawURLEncoding.DecodeString(secret)
	return ok && err == nil && len(b) == 32
}

// Window is one that is open. O is what the box knows of its opener.
type Window[O any] struct {
	App     string
	By      O
	Expires time.Time // carries the monotonic clock, by which it is held
}

// Windows is all that are open.
type Windows[O any] struct {
	gone func(O) <-chan struct{}
	now  func() time.Time

	mu     sync.Mutex
	byHash map[[32]byte]*list.Element // guarded by mu
	order  list.List                  // guarded by mu; of entry[O], the oldest in front
}

type entry[O any] struct {
	hash [32]byte
	win  Window[O]
}

// New makes an empty set. gone gives a channel that is closed when an opener's own right
// ends, nil for one whose right doesn't.
func New[O any](gone func(O) <-chan struct{}) *Windows[O] {
	return &Windows[O]{gone: gone, now: time.Now, byHash: map[[32]byte]*list.Element{}}
}

// Open opens a window on an app and gives its token, which the box keeps nowhere.
func (w *Windows[O]) Open(app string, by O) (token string, win Window[O]) {
	b := make([]byte, 32)
	rand.Read(b)
	token = Prefix + base64.RawURLEncoding.EncodeToString(b)
	w.mu.Lock()
	defer w.mu.Unlock()
	win = Window[O]{App: app, By: by, Expires: w.now().Add(Life)}
	w.sweep()
	for w.order.Len() >= Most {
		w.drop(w.order.Front())
	}
	hash := sha256.Sum256([]byte(token))
	w.byHash[hash] = w.order.PushBack(entry[O]{hash, win})
	return token, win
}

// Check finds the window of a token, or says ErrExpired.
func (w *Windows[O]) Check(token string) (Window[O], error) {
	hash := sha256.Sum256([]byte(token))
	w.mu.Lock()
	defer w.mu.Unlock()
	el, ok := w.byHash[hash]
	if !ok {
		return Window[O]{}, ErrExpired
	}
	win := el.Value.(entry[O]).win
	if w.over(win) {
		w.drop(el)
		return Window[O]{}, ErrExpired
	}
	return win, nil
}

// over says whether a window has ended.
func (w *Windows[O]) over(win Window[O]) bool {
	select {
	case <-w.gone(win.By):
		return true
	default:
		return !w.now().Before(win.Expires)
	}
}

// sweep drops the windows that have ended, so that they take no live one's place; w.mu
// is held.
func (w *Windows[O]) sweep() {
	for el := w.order.Front(); el != nil; {
		next := el.Next()
		if w.over(el.Value.(entry[O]).win) {
			w.drop(el)
		}
		el = next
	}
}

// drop takes a window out; w.mu is held.
func (w *Windows[O]) drop(el *list.Element) {
	delete(w.byHash, el.Value.(entry[O]).hash)
	w.order.Remove(el)
}
