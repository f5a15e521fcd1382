package actionlog

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gurtos/core/durable/powercut"
)

// FuzzRecover spoils a log with whatever bytes at whatever place, with and without
// what is remembered. Open repairs or refuses; whatever it does, no line is taken
// for another, Quarantine gives a log that Verify finds whole and that goes on, and
// a refused file is not touched.
func FuzzRecover(f *testing.F) {
	f.Add(uint16(0), uint16(0), []byte{}, true)
	f.Add(uint16(700), uint16(65535), []byte{}, true)        // cut in a line
	f.Add(uint16(700), uint16(65535), []byte{}, false)       //
	f.Add(uint16(400), uint16(1), []byte("x"), true)         // a byte
	f.Add(uint16(400), uint16(1), []byte("x"), false)        //
	f.Add(uint16(310), uint16(40), []byte{}, false)          // fused lines
	f.Add(uint16(400), uint16(0), []byte("\u2028"), false)   // U+2028 as it is
	f.Add(uint16(400), uint16(0), []byte("\n"), true)        // split
	f.Add(uint16(400), uint16(8), make([]byte, 8), false)    // zeros
	f.Add(uint16(65535), uint16(0), []byte(`{"seq":`), true) // begun
	f.Add(uint16(65535), uint16(0), []byte("{}\n"), true)
	f.Add(uint16(0), uint16(400), []byte(`{"seq":1,"prev":""}`+"\n"), false)
	from := f.TempDir()
	l, err := Open(from, small(Options{}))
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{"a", "b \u2028", "c", "d", "e"} {
		if _, err := l.Append(f.Context(), step(text)); err != nil {
			f.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		f.Fatal(err)
	}
	whole := bytes.Join(read(f, from), nil)
	remembered, err := os.ReadFile(filepath.Join(from, journalName))
	if err != nil {
		f.Fatal(err)
	}
	genuine := map[string]bool{}
	for line := range bytes.Lines(whole) {
		genuine[string(line)] = true
	}
	f.Fuzz(func(t *testing.T, at, length uint16, put []byte, remembers bool) {
		a := min(int(at), len(whole))
		b := min(a+int(length), len(whole))
		spoiled := append(append(bytes.Clone(whole[:a]), put...), whole[b:]...)
		dir := memoryDir(t)
		write(t, dir, logName, spoiled)
		if remembers {
			write(t, dir, journalName, remembered)
		}
		before, verr := Verify(dir)
		l, err := Open(dir, small(Options{FS: sameRun{powercut.New(dir)}}))
		if err != nil {
			if verr == nil && before.OK() {
				t.Fatalf("verify says %s and open %v", before, err)
			}
			if now, err := os.ReadFile(filepath.Join(dir, logName)); err != nil || !bytes.Equal(now, spoiled) {
				t.Fatal("a refused log was changed")
			}
			if l, err = Open(dir, small(Options{FS: sameRun{powercut.New(dir)}, Quarantine: true})); err != nil {
				if strings.Contains(err.Error(), "format") {
					return
				}
				t.Fatalf("quarantine: %v", err)
			}
		}
		check(t, l, genuine, remembers)
		mustAppend(t, l, "after")
		mustClose(t, l)
		if r, err := Verify(dir); err != nil || !r.OK() {
			t.Fatalf("afterwards: %s %v", r, err)
		}
		again, err := Open(dir, small(Options{FS: sameRun{powercut.New(dir)}}))
		if err != nil {
			t.Fatalf("opened again: %v", err)
		}
		if c := again.Recovered(); c.Cut != nil || len(c.Gaps) > 0 {
			t.Fatalf("recovered again: %+v", c)
		}
		mustClose(t, again)
	})
}

// check holds that a line is one that was written, or a note of what wasn't.
func check(t *testing.T, l *Log, genuine map[string]bool, remembers bool) {
	t.Helper()
	next := int64(0)
	err := l.Read(t.Context(), 0, func(line []byte, ev func() (Event, error)) error {
		e, err := ev()
		if next++; err != nil || e.Seq != next {
			return fmt.Errorf("line %d as %d: %.300q: %w", e.Seq, next, line, err)
		}
		// What is forged so well that it fits, without anything that remembers better,
		// can't be told from the truth.
		if genuine[string(line)+"\n"] || bytes.Contains(line, []byte(`"what":"log.`)) || !remembers {
			return nil
		}
		t.Fatalf("not a line that was written: %s", line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
