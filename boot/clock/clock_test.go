package clock

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gurtos/core/durable"
)

var build = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func day(n int) time.Time { return build.AddDate(0, 0, n) }

// What a box sets its clock to when it starts.
func TestCorrect(t *testing.T) {
	for _, c := range []struct {
		name         string
		synced, seen time.Time
		now, want    time.Time
		source       string // "" when the clock is left alone
	}{
		{name: "a right clock", now: day(3)},
		{name: "1970", now: time.Unix(0, 0), want: build, source: "build"},
		{name: "2011", now: time.Date(2011, 1, 1, 0, 0, 0, 0, time.UTC), want: build, source: "build"},
		{name: "1970, synced before", synced: day(30), now: time.Unix(0, 0), want: day(30), source: "last-known"},
		{name: "1970, seen later than synced", synced: day(30), seen: day(40), now: time.Unix(0, 0), want: day(40), source: "last-known"},
		{name: "behind the last sync", synced: day(30), now: day(29), want: day(30), source: "last-known"},
		{name: "behind what was only seen", synced: day(30), seen: day(3000), now: day(31)}, // that clock may have been the wrong one
		{name: "2200", now: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC), want: build, source: "build"},
		{name: "2200, seen 2300", seen: time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC), now: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC), want: build, source: "build"},
	} {
		k := Known{Build: build, Synced: c.synced, Seen: c.seen}
		to, source, ok := k.Correct(c.now)
		if ok != (c.source != "") || ok && (!to.Equal(c.want) || source != c.source) {
			t.Errorf("%s: %v, %s, %v; want %v, %s", c.name, to, source, ok, c.want, c.source)
		}
	}
}

func TestKnownFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "time")
	k := Known{Build: build}
	if err := k.Load(path); err != nil || !k.Synced.IsZero() {
		t.Errorf("a missing file: %+v, %v", k, err)
	}
	k.Synced, k.Seen = day(1), day(2)
	if err := k.Save(durable.Disk, path); err != nil {
		t.Fatal(err)
	}
	got := Known{Build: build}
	if err := got.Load(path); err != nil || got != k {
		t.Errorf("read back %+v, %v; want %+v", got, err, k)
	}
	if err := os.WriteFile(path, []byte(`{"synced": "yest`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := got.Load(path); err == nil {
		t.Error("a damaged file is no error")
	}
}

// fakeServer is an NTP server whose clock is off by offset; it changes each
// answer by twist.
func fakeServer(t *testing.T, offset time.Duration, twist func(answer []byte)) string {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	stamp := func(b []byte, at time.Time) {
		const era = 2_208_988_800 // seconds from 1900 to 1970
		s := at.Sub(time.Unix(0, 0))
		binary.BigEndian.PutUint32(b, uint32(int64(s/time.Second)+era))
		binary.BigEndian.PutUint32(b[4:], uint32((int64(s%time.Second)<<32)/int64(time.Second)))
	}
	go func() {
		buf := make([]byte, 512)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			if n < 48 {
				continue
			}
			now := time.Now().Add(offset)
			a := make([]byte, 48)
			a[0], a[1], a[2], a[3] = 4<<3|4, 2, 6, 0xec // version 4, server; stratum 2
			copy(a[12:], "TEST")
			stamp(a[16:], now.Add(-time.Second))
			copy(a[24:32], buf[40:48])
			stamp(a[32:], now)
			stamp(a[40:], now)
			if twist != nil {
				twist(a)
			}
			_, _ = conn.WriteTo(a, from)
		}
	}()
	return conn.LocalAddr().String()
}

func TestQuery(t *testing.T) {
	got, err := Query(fakeServer(t, 90*time.Minute, nil))
	if err != nil || (got-90*time.Minute).Abs() > time.Second {
		t.Errorf("offset %v, %v; want an hour and a half", got, err)
	}
	for name, twist := range map[string]func([]byte){
		"not synchronised": func(a []byte) { a[0] |= 3 << 6 },
		"kiss of death":    func(a []byte) { a[1] = 0; copy(a[12:], "RATE") },
		"stratum 16":       func(a []byte) { a[1] = 16 },
		"another's answer": func(a []byte) { a[24]++ },
	} {
		if got, err := Query(fakeServer(t, 0, twist)); err == nil {
			t.Errorf("%s was believed: %v", name, got)
		}
	}
}

func TestRound(t *testing.T) {
	now := time.Now()
	known := Known{Build: now.AddDate(-1, 0, 0), Synced: now.AddDate(0, 0, -1)}
	for _, c := range []struct {
		name    string
		offsets []any // of the servers: a Duration or an error
		want    time.Duration
		says    string
	}{
		{"one", []any{3 * time.Second}, 3 * time.Second, ""},
		{"the middle of three", []any{100 * time.Millisecond, 0 * time.Second, 200 * time.Millisecond}, 100 * time.Millisecond, ""},
		{"one lies", []any{10 * time.Millisecond, 90 * time.Minute, 20 * time.Millisecond}, 20 * time.Millisecond, ""},
		{"two disagree", []any{0 * time.Second, time.Hour}, 0, "disagree"},
		{"all disagree", []any{0 * time.Second, time.Hour, 2 * time.Hour, 3 * time.Hour}, 0, "disagree"},
		{"1900", []any{-120 * 365 * 24 * time.Hour}, 0, "can't be"},
		{"below the last known time", []any{-48 * time.Hour}, 0, "can't be"},
		{"beyond a box's life", []any{40 * 365 * 24 * time.Hour}, 0, "can't be"},
		{"silent ones are left out", []any{errors.New("time-out"), 2 * time.Second, errors.New("refused")}, 2 * time.Second, ""},
		{"all silent", []any{errors.New("time-out"), errors.New("refused")}, 0, "no time server answered usefully: s0: time-out; s1: refused"},
		{"none", nil, 0, "no time server is known"},
	} {
		var servers []string
		for i := range c.offsets {
			servers = append(servers, fmt.Sprintf("s%d", i))
		}
		s := &Syncer{
			Servers: func() []string { return servers },
			Known:   func() Known { return known },
			Query: func(server string) (time.Duration, error) {
				switch o := c.offsets[server[1]-'0'].(type) {
				case error:
					return 0, o
				default:
					return o.(time.Duration), nil
				}
			},
		}
		got, err := s.round()
		if c.says == "" && (err != nil || got.Offset != c.want) {
			t.Errorf("%s: %+v, %v; want %v", c.name, got, err, c.want)
		}
		if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %+v, %v; want an error with %q", c.name, got, err, c.says)
		}
	}
}

// The servers are asked more and more slowly while nothing comes, at once when
// the network changes, and every half hour when all is well. Nobody waits.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		wake := make(chan struct{}, 1)
		var mu sync.Mutex
		asked, set, works := 0, 0, false
		s := &Syncer{
			Log:     log.New(io.Discard, "", 0),
			Servers: func() []string { return []string{"s"} },
			Known:   func() Known { return Known{} },
			Wake:    wake,
			Synced:  func(Sync) {},
			Query: func(string) (time.Duration, error) {
				mu.Lock()
				defer mu.Unlock()
				asked++
				if !works {
					return 0, errors.New("no network")
				}
				return time.Second, nil
			},
			Set: func(time.Duration) error {
				mu.Lock()
				defer mu.Unlock()
				set++
				return nil
			},
		}
		// after lets time pass on synctest's clock, and counts.
		after := func(d time.Duration) (a, b int) {
			<-time.After(d)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			a, b = asked, set
			asked, set, works = 0, 0, true
			return a, b
		}
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx) }()
		if n, _ := after(10 * time.Minute); n < 10 || n > 20 {
			t.Errorf("asked %d times in ten minutes without a network", n)
		}
		wake <- struct{}{}
		if a, b := after(time.Millisecond); a != 1 || b != 1 {
			t.Errorf("after the network came: asked %d times, set %d times", a, b)
		}
		if _, n := after(2 * time.Hour); n < 3 || n > 4 {
			t.Errorf("set %d times in two hours", n)
		}
		cancel()
		<-done
	})
}
