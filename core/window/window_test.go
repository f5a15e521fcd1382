package window

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// device is an opener whose right can end.
type device struct {
	name string
	gone chan struct{}
}

func open(t testing.TB) (*Windows[device], device) {
	t.Helper()
	return New(func(d device) <-chan struct{} { return d.gone }), device{"phone", make(chan struct{})}
}

func TestOpenAndCheck(t *testing.T) {
	w, phone := open(t)
	token, win := w.Open("hello", phone)
	if !strings.HasPrefix(token, "w") || len(token) < 40 {
		t.Errorf("the token is %q", token)
	}
	got, err := w.Check(token)
	if err != nil || got.App != "hello" || got.By.name != "phone" || !got.Expires.Equal(win.Expires) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, wrong := range []string{"", "w", token[:len(token)-1], token + "x", strings.ToUpper(token), "d" + token[1:]} {
		if _, err := w.Check(wrong); err != ErrExpired {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if fmt.Sprintf("%+v", w) == "" || strings.Contains(fmt.Sprintf("%+v %+v", w.byHash, win), token) {
		t.Error("the token is kept")
	}
	if again, _ := w.Open("hello", phone); again == token {
		t.Error("two windows have one token")
	}
}

func TestLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, phone := open(t)
		token, win := w.Open("hello", phone)
		if d := win.Expires.Sub(time.Now()); d != 12*time.Hour {
			t.Errorf("it lasts %v", d)
		}
		time.Sleep(12*time.Hour - 1) // the bubble's clock alone
		if _, err := w.Check(token); err != nil {
			t.Error(err)
		}
		time.Sleep(1)
		if _, err := w.Check(token); err != ErrExpired {
			t.Errorf("after 12 hours: %v", err)
		}
		if len(w.byHash) != 0 || w.order.Len() != 0 {
			t.Error("an ended window is kept")
		}
	})
}

// A window lasts by the clock that runs on, whatever is done to the one on the wall.
func TestClockSteps(t *testing.T) {
	w, phone := open(t)
	_, win := w.Open("hello", phone)
	if win.Expires.Round(0) == win.Expires {
		t.Error("the end of a window is held by the wall clock alone")
	}
}

func TestEndsWithItsDevice(t *testing.T) {
	w, phone := open(t)
	other := device{"other", make(chan struct{})}
	one, _ := w.Open("hello", phone)
	two, _ := w.Open("hello", other)
	close(phone.gone)
	if _, err := w.Check(one); err != ErrExpired {
		t.Errorf("of the removed device: %v", err)
	}
	if _, err := w.Check(two); err != nil {
		t.Errorf("of the other: %v", err)
	}
	if err := ErrExpired.Error(); err != "this window has expired: close it and open the app again" {
		t.Error(err)
	}
}

// The screen's own right never ends.
func TestOpenerWithoutEnd(t *testing.T) {
	w := New(func(device) <-chan struct{} { return nil })
	token, _ := w.Open("hello", device{})
	if _, err := w.Check(token); err != nil {
		t.Error(err)
	}
}

func TestOldestGoes(t *testing.T) {
	w, phone := open(t)
	away := device{"away", make(chan struct{})}
	oldest, _ := w.Open("hello", phone)
	gone, _ := w.Open("hello", away)
	tokens := []string{oldest}
	for range Most - 2 {
		token, _ := w.Open("hello", phone)
		tokens = append(tokens, token)
	}
	close(away.gone)
	token, _ := w.Open("hello", phone) // takes the place of the one that has ended
	tokens = append(tokens, token)
	if _, err := w.Check(gone); err == nil {
		t.Error("the removed device's window lives")
	}
	for i, token := range tokens {
		if _, err := w.Check(token); err != nil {
			t.Fatalf("window %d of %d: %v", i, Most, err)
		}
	}
	w.Open("hello", phone)
	if _, err := w.Check(tokens[0]); err != ErrExpired {
		t.Errorf("the oldest of %d: %v", Most+1, err)
	}
	for i, token := range tokens[1:] {
		if _, err := w.Check(token); err != nil {
			t.Fatalf("window %d: %v", i+1, err)
		}
	}
	if n := w.order.Len(); n != Most || len(w.byHash) != n {
		t.Errorf("%d windows are kept, %d hashes", n, len(w.byHash))
	}
}

// Only what could have been a window's token is told that its window has ended.
func TestFormed(t *testing.T) {
	token, _ := New(func(device) <-chan struct{} { return nil }).Open("hello", device{})
	for text, formed := range map[string]bool{
		token: true, "": false, "w": false, "wrong": false, "wabc": false, token + "x": false, token[1:]: false, "d" + token[1:]: false, token[:43] + "!": false,
	} {
		if Formed(text) != formed {
			t.Errorf("%q: %v", text, !formed)
		}
	}
}
