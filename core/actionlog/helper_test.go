package actionlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"gurtos/core/durable"
	"gurtos/core/durable/powercut"
)

func step(text string) Event { return Event{Type: TypeTaskStep, Task: "t1", Text: text} }

// small opens a log without a reserve, and with room for four records in a round
// of the journal.
func small(o Options) Options {
	o.Reserve, o.journal = -1, 4*journalBlock
	return o
}

// unsynced spares the disk, where no power is cut and many logs are opened.
func unsynced(dir string) Options { return Options{FS: sameRun{powercut.New(dir)}} }

// sameRun is a disk whose power never went.
type sameRun struct{ *powercut.Disk }

func (sameRun) Boot() string { return durable.Disk.Boot() }

func mustOpen(t testing.TB, dir string, o Options) *Log {
	t.Helper()
	l, err := Open(dir, small(o))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func mustAppend(t testing.TB, l *Log, texts ...string) int64 {
	t.Helper()
	var last int64
	for _, text := range texts {
		var err error
		if last, err = l.Append(t.Context(), step(text)); err != nil {
			t.Fatal(err)
		}
	}
	return last
}

func mustClose(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// events are all lines that a reader gets, checked for their order.
func events(t testing.TB, l *Log) []Event {
	t.Helper()
	var all []Event
	err := l.Read(t.Context(), 0, func(_ []byte, ev func() (Event, error)) error {
		e, err := ev()
		if err != nil {
			return err
		}
		if e.Seq != int64(len(all))+1 {
			return fmt.Errorf("line %d has seq %d", len(all)+1, e.Seq)
		}
		all = append(all, e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// texts are the texts of the steps among them.
func texts(all []Event) []string {
	var out []string
	for _, e := range all {
		if e.Type == TypeTaskStep {
			out = append(out, e.Text)
		}
	}
	return out
}

// own are the log's own notes, without line 1.
func own(t testing.TB, all []Event) []note {
	t.Helper()
	var out []note
	for _, e := range all {
		if e.Type != TypeNote || e.Seq == 1 {
			continue
		}
		var n note
		if err := json.Unmarshal(e.Data, &n); err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

func mustVerify(t testing.TB, dir string, known ...Mark) Report {
	t.Helper()
	r, err := Verify(dir, known...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// read is the log's bytes, as its lines with their newlines.
func read(t testing.TB, dir string) [][]byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, logName))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.SplitAfter(b, []byte("\n"))
}

func write(t testing.TB, dir, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// memoryDir is a new folder in memory where there is such a place: for tests that
// open a thousand logs and sync none.
func memoryDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "gurtos-actionlog-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// copyDir copies the files of a folder.
func copyDir(t testing.TB, from string) string {
	t.Helper()
	to := memoryDir(t)
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		write(t, to, e.Name(), b)
	}
	return to
}

// made is a closed log with steps of those texts.
func made(t testing.TB, texts ...string) string {
	t.Helper()
	dir := t.TempDir()
	l := mustOpen(t, dir, Options{})
	mustAppend(t, l, texts...)
	mustClose(t, l)
	return dir
}

// forget removes what is beside the log, so that nothing is remembered.
func forget(t testing.TB, dir string) {
	t.Helper()
	for _, name := range []string{journalName, indexName, checkpointName} {
		if err := durable.Remove(durable.Disk, filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}
