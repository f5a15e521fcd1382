package bench

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	_ "modernc.org/sqlite"

	"gurtos/core/actionlog"
)

// appender stores an event durably: it returns once a power cut can't take it.
type appender interface {
	append(text string) error
	Close() error
}

// appenders are the box's log and its peers, each as it is meant to be used for
// this: SQLite with a write-ahead log that is synced at each commit, bbolt with its
// own group commit where there are many writers.
var appenders = []struct {
	name string
	open func(dir string, writers int) (appender, error)
}{
	{"gurtos", openLog},
	{"sqlite", openSQLite},
	{"bbolt", openBolt},
}

// BenchmarkAppends is durable appends per second, with some writers at once that
// each wait for their own.
func BenchmarkAppends(b *testing.B) {
	text := strings.Repeat("compiled package core/actionlog; ", 6)
	for _, writers := range []int{1, 8, 64} {
		for _, peer := range appenders {
			b.Run(fmt.Sprintf("writers=%d/%s", writers, peer.name), func(b *testing.B) {
				a, err := peer.open(benchDir(b), writers)
				if err != nil {
					b.Fatal(err)
				}
				var left atomic.Int64
				left.Store(int64(b.N))
				b.ResetTimer()
				var wg sync.WaitGroup
				for range writers {
					wg.Go(func() {
						for left.Add(-1) >= 0 {
							if err := a.append(text); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				wg.Wait()
				b.StopTimer()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "appends/s")
				if err := a.Close(); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}

// BenchmarkAppendsInTurn is one writer that goes from peer to peer, so that whatever
// else the disk does falls on all alike: the median of each.
func BenchmarkAppendsInTurn(b *testing.B) {
	text := strings.Repeat("compiled package core/actionlog; ", 6)
	open := make([]appender, len(appenders))
	took := make([][]time.Duration, len(appenders))
	for i, peer := range appenders {
		a, err := peer.open(benchDir(b), 1)
		if err != nil {
			b.Fatal(err)
		}
		defer a.Close()
		open[i] = a
	}
	for b.Loop() {
		for i, a := range open {
			start := time.Now()
			if err := a.append(text); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(start))
		}
	}
	for i, peer := range appenders {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2].Microseconds()), peer.name+"-µs")
	}
}

// benchDir is a new folder on the disk that BENCH_DIR names, or that of the
// repository: /tmp may be in memory.
func benchDir(b testing.TB) string {
	b.Helper()
	up := os.Getenv("BENCH_DIR")
	if up == "" {
		up = "."
	}
	dir, err := os.MkdirTemp(up, ".bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func bigStep(text string) actionlog.Event {
	return actionlog.Event{Type: actionlog.TypeTaskStep, Task: "t0123456789", Text: text, Data: json.RawMessage(`{"line":12}`)}
}

type logAppender struct{ *actionlog.Log }

func openLog(dir string, _ int) (appender, error) {
	l, err := actionlog.Open(dir, actionlog.Options{})
	return logAppender{l}, err
}

func (a logAppender) append(text string) error {
	_, err := a.Append(context.Background(), bigStep(text))
	return err
}

// line is what the peers store: the same event, ready for them.
func line(text string) []byte {
	ev := bigStep(text)
	ev.At = time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	b, err := actionlog.Encode(&ev)
	if err != nil {
		panic(err)
	}
	return b
}

type sqliteAppender struct {
	db     *sql.DB
	insert *sql.Stmt
}

func openSQLite(dir string, _ int) (appender, error) {
	db, err := sql.Open("sqlite", filepath.Join(dir, "log.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(60000)")
	if err != nil {
		return nil, err
	}
	// One connection: SQLite has one writer, and more would only wait in turns.
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("CREATE TABLE log (seq INTEGER PRIMARY KEY, line TEXT NOT NULL)"); err != nil {
		return nil, err
	}
	insert, err := db.Prepare("INSERT INTO log (line) VALUES (?)")
	return &sqliteAppender{db, insert}, err
}

func (a *sqliteAppender) append(text string) error {
	_, err := a.insert.Exec(string(line(text)))
	return err
}

func (a *sqliteAppender) Close() error { return a.db.Close() }

type boltAppender struct {
	db     *bolt.DB
	change func(func(*bolt.Tx) error) error
}

func openBolt(dir string, writers int) (appender, error) {
	db, err := bolt.Open(filepath.Join(dir, "log.bolt"), 0o600, nil)
	if err != nil {
		return nil, err
	}
	a := &boltAppender{db, db.Update}
	if writers > 1 {
		// Without this a batch waits 10 ms for more than there are.
		db.MaxBatchSize = writers
		a.change = db.Batch
	}
	return a, db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket([]byte("log"))
		return err
	})
}

func (a *boltAppender) append(text string) error {
	value := line(text)
	return a.change(func(tx *bolt.Tx) error {
		bucket := tx.Bucket([]byte("log"))
		seq, err := bucket.NextSequence()
		if err != nil {
			return err
		}
		return bucket.Put(fmt.Appendf(nil, "%016x", seq), value)
	})
}

func (a *boltAppender) Close() error { return a.db.Close() }

const million = 1_000_000

// BenchmarkMillion is what a log of a million events costs: to start with, to keep
// open, to read at its end and whole, and to verify.
func BenchmarkMillion(b *testing.B) {
	dir := benchDir(b)
	if err := fillLog(dir, million); err != nil {
		b.Fatal(err)
	}
	b.Run("start", func(b *testing.B) { benchStart(b, dir, func() {}) })
	b.Run("start/no-index", func(b *testing.B) {
		benchStart(b, dir, func() { os.Remove(filepath.Join(dir, "log.index")) })
	})
	b.Run("read/last-10", func(b *testing.B) { benchRead(b, dir, 10) })
	b.Run("read/all", func(b *testing.B) { benchRead(b, dir, million) })
	b.Run("verify", func(b *testing.B) {
		for b.Loop() {
			if r, err := actionlog.Verify(dir); err != nil || !r.OK() {
				b.Fatalf("%s %v", r, err)
			}
		}
	})
}

// fillLog makes a log of n events, a thousand at once.
func fillLog(dir string, n int) error {
	l, err := actionlog.Open(dir, actionlog.Options{})
	if err != nil {
		return err
	}
	evs := make([]actionlog.Event, 1000)
	for range n / len(evs) {
		for i := range evs {
			evs[i] = bigStep(strings.Repeat("step ", 20))
		}
		if _, err := l.Append(context.Background(), evs...); err != nil {
			return errors.Join(err, l.Close())
		}
	}
	return l.Close()
}

func benchStart(b *testing.B, dir string, prepare func()) {
	var before, after runtime.MemStats
	for b.Loop() {
		b.StopTimer()
		prepare()
		runtime.GC()
		runtime.ReadMemStats(&before)
		b.StartTimer()
		l, err := actionlog.Open(dir, actionlog.Options{})
		b.StopTimer()
		if err != nil {
			b.Fatal(err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/1024, "KB-kept")
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(maxRSS())/1024, "MB-rss")
}

func benchRead(b *testing.B, dir string, want int) {
	l, err := actionlog.Open(dir, actionlog.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	head, _ := l.Head()
	for b.Loop() {
		n := 0
		err := l.Read(b.Context(), head-int64(want), func([]byte, func() (actionlog.Event, error)) error {
			n++
			return nil
		})
		if err != nil || n != want {
			b.Fatalf("%d lines, %v", n, err)
		}
	}
	b.ReportMetric(float64(maxRSS())/1024, "MB-rss")
}

// maxRSS is the most memory that the process had, in KB.
func maxRSS() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Maxrss
}
