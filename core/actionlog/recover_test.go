package actionlog

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gurtos/core/durable"
	"gurtos/core/durable/powercut"
)

// TestCutAtEveryByte: whatever a power cut leaves of the last lines, the whole ones
// stay, the rest is kept aside and noted, and the log goes on.
func TestCutAtEveryByte(t *testing.T) {
	from := made(t, "one", "two \u2028 \U0001f642", "three")
	whole := bytes.Join(read(t, from), nil)
	for n := range len(whole) + 1 {
		dir := memoryDir(t)
		write(t, dir, logName, whole[:n])
		before := mustVerify(t, dir)
		kept := bytes.Count(whole[:n], []byte("\n"))
		rest := whole[bytes.LastIndexByte(whole[:n], '\n')+1 : n]
		if !before.OK() || before.Lines != int64(kept) || before.Unfinished != int64(len(rest)) {
			t.Fatalf("cut at %d: verify before the start: %+v", n, before)
		}
		l := mustOpen(t, dir, unsynced(dir))
		all := events(t, l)
		want := max(kept, 1)
		if len(rest) > 0 && kept > 0 {
			want++ // the note
		}
		if len(all) != want {
			t.Fatalf("cut at %d: %d lines, want %d", n, len(all), want)
		}
		if cut := l.Recovered().Cut; len(rest) > 0 {
			aside, err := os.ReadFile(filepath.Join(dir, cut.File))
			if err != nil || !bytes.Equal(aside, rest) || cut.SHA256 != hash(rest) || cut.Lost != 0 || cut.Line != int64(kept)+1 {
				t.Fatalf("cut at %d: %+v, kept %q (%v), want %q", n, cut, aside, err, rest)
			}
			if notes := own(t, all); kept > 0 && (len(notes) != 1 || notes[0].What != noteCut || *notes[0].Cut != *cut) {
				t.Fatalf("cut at %d: notes %+v", n, notes)
			}
		} else if cut != nil {
			t.Fatalf("cut at %d: %+v", n, cut)
		}
		mustAppend(t, l, "after")
		mustClose(t, l)
		if r := mustVerify(t, dir); !r.OK() || r.Unfinished != 0 {
			t.Fatalf("cut at %d: verify: %s", n, r)
		}
		again := mustOpen(t, dir, unsynced(dir))
		if again.Recovered().Cut != nil {
			t.Fatalf("cut at %d: cut again: %+v", n, again.Recovered())
		}
		if got := texts(events(t, again)); got[len(got)-1] != "after" {
			t.Fatalf("cut at %d: after the second start: %q", n, got)
		}
		mustClose(t, again)
	}
}

// TestCutOff: the same of lines that log.commit remembers. Verify misses them before
// and after, and the note counts them.
func TestCutOff(t *testing.T) {
	from := made(t, "one", "two", "three")
	whole := bytes.Join(read(t, from), nil)
	for n := range len(whole) {
		dir := copyDir(t, from)
		write(t, dir, logName, whole[:n])
		kept := int64(bytes.Count(whole[:n], []byte("\n")))
		before := mustVerify(t, dir)
		if before.OK() || before.Kinds[0] != CutOff || before.Faults[0].First != kept+1 || before.Faults[0].Last != 4 {
			t.Fatalf("cut at %d: verify before the start: %s", n, before)
		}
		l, err := Open(dir, small(unsynced(dir)))
		if kept == 0 {
			if err == nil || !strings.Contains(err.Error(), "remembers 4 lines") {
				t.Fatalf("cut at %d: all is gone, and Open says %v", n, err)
			}
			if damaged := new(DamageError); !errors.As(err, &damaged) {
				t.Fatalf("cut at %d: %v is no damage", n, err)
			}
			o := unsynced(dir)
			o.Quarantine = true
			anew := mustOpen(t, dir, o)
			if cut := anew.Recovered().Cut; cut == nil || cut.Lost != 4 {
				t.Fatalf("cut at %d: begun anew: %+v", n, cut)
			}
			mustAppend(t, anew, "after")
			mustClose(t, anew)
			if r := mustVerify(t, dir); !r.OK() || len(r.Cuts) != 1 || r.Cuts[0].Lost != 4 {
				t.Fatalf("cut at %d: begun anew: verify: %s", n, r)
			}
			continue
		}
		if err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if cut := l.Recovered().Cut; cut == nil || cut.Lost != 4-kept || cut.Line != kept+1 || cut.Head.Seq != 4 {
			t.Fatalf("cut at %d: %+v", n, cut)
		}
		mustAppend(t, l, "a", "b", "c", "d")
		mustClose(t, l)
		if r := mustVerify(t, dir); !r.OK() || len(r.Cuts) != 1 || r.Cuts[0].Lost != 4-kept {
			t.Fatalf("cut at %d: verify: %s", n, r)
		}
		mustClose(t, mustOpen(t, dir, unsynced(dir)))
	}
}

// TestCutOffAndNoNoteYet: a crash between the note about lost lines and the
// remembering of it makes no second one.
func TestCutOffAndNoNoteYet(t *testing.T) {
	dir := made(t, "one", "two", "three")
	remembered, err := os.ReadFile(filepath.Join(dir, journalName))
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, logName, bytes.Join(read(t, dir)[:2], nil))
	mustClose(t, mustOpen(t, dir, Options{}))
	// The note reached the disk, what is remembered didn't.
	write(t, dir, journalName, remembered)
	l := mustOpen(t, dir, Options{})
	if l.Recovered().Cut != nil {
		t.Errorf("cut twice: %+v", l.Recovered().Cut)
	}
	if notes := own(t, events(t, l)); len(notes) != 1 {
		t.Errorf("notes %+v", notes)
	}
}

// forge is a line that fits behind prev.
func forge(seq int64, prev, text string) []byte {
	e := step(text)
	e.Seq, e.At, e.Prev = seq, "2026-01-01T00:00:00.000Z", prev
	line, err := Encode(&e)
	if err != nil {
		panic(err)
	}
	return append(line, '\n')
}

// damages are ways to spoil a log of the lines 1 to 8: line 1 and steps a to g.
var damages = []struct {
	name  string
	spoil func(lines [][]byte) [][]byte
	kind  Kind
	first int64
	last  int64
	says  string // what Open says
	left  string // the steps that quarantine leaves
	gaps  int    // that quarantine makes, when not 1
	head  bool   // found by the remembered head alone
}{
	{name: "a byte of line 4", kind: Changed, first: 4, last: 4, says: "line 4 of log.jsonl is changed", left: "abdefg",
		spoil: func(l [][]byte) [][]byte { l[3] = bytes.Replace(l[3], []byte(`"c"`), []byte(`"C"`), 1); return l }},
	{name: "a quote of line 4", kind: Changed, first: 4, last: 4, says: "line 4 of", left: "abdefg",
		spoil: func(l [][]byte) [][]byte { l[3] = bytes.Replace(l[3], []byte(`"c"`), []byte(`c"`), 1); return l }},
	{name: "the seq of line 4", kind: Changed, first: 4, last: 4, says: "line 4 of", left: "abdefg",
		spoil: func(l [][]byte) [][]byte {
			l[3] = bytes.Replace(l[3], []byte(`"seq":4`), []byte(`"seq":9`), 1)
			return l
		}},
	{name: "zeros in line 4", kind: Changed, first: 4, last: 4, says: "line 4 of", left: "abdefg",
		spoil: func(l [][]byte) [][]byte { copy(l[3], make([]byte, 40)); return l }},
	{name: "line 4 gone", kind: Removed, first: 4, last: 4, says: "line 4 of log.jsonl was removed", left: "abdefg",
		spoil: func(l [][]byte) [][]byte { return slices.Delete(l, 3, 4) }},
	{name: "lines 3 to 6 gone", kind: Removed, first: 3, last: 6, says: "lines 3 to 6 of log.jsonl were removed", left: "afg",
		spoil: func(l [][]byte) [][]byte { return slices.Delete(l, 2, 6) }},
	{name: "lines 4 and 5 swapped", kind: Reordered, first: 4, last: 5, says: "line 4 of log.jsonl is reordered", left: "abcefg", gaps: 2,
		spoil: func(l [][]byte) [][]byte { l[3], l[4] = l[4], l[3]; return l }},
	{name: "line 4 behind line 6", kind: Reordered, first: 4, last: 6, says: "line 4 of log.jsonl is reordered", left: "abdefg", gaps: 2,
		spoil: func(l [][]byte) [][]byte { c := l[3]; return slices.Insert(slices.Delete(l, 3, 4), 5, c) }},
	{name: "lines 3 to 6 turned round", kind: Reordered, first: 3, last: 6, says: "line 3 of log.jsonl is reordered", left: "abfg", gaps: 2,
		spoil: func(l [][]byte) [][]byte { slices.Reverse(l[2:6]); return l }},
	{name: "line 4 twice", kind: Inserted, first: 5, last: 4, says: "inserted before line 5", left: "abcdefg",
		spoil: func(l [][]byte) [][]byte { return slices.Insert(l, 4, l[3]) }},
	{name: "a line of nothing", kind: Inserted, first: 4, last: 3, says: "inserted before line 4", left: "abcdefg",
		spoil: func(l [][]byte) [][]byte { return slices.Insert(l, 3, []byte("\n")) }},
	{name: "lines 4 and 5 fused", kind: Garbled, first: 4, last: 5, says: "lines 4 to 5 of log.jsonl are damaged", left: "abefg",
		spoil: func(l [][]byte) [][]byte { l[3] = l[3][:len(l[3])-1]; return l }},
	{name: "line 4 split", kind: Garbled, first: 4, last: 4, says: "line 4 of log.jsonl is damaged", left: "abdefg",
		spoil: func(l [][]byte) [][]byte { l[3][30] = '\n'; return l }},
	{name: "line 4 put another in its place", kind: Changed, first: 4, last: 4, says: "line 4 of log.jsonl is changed", left: "abdefg",
		spoil: func(l [][]byte) [][]byte {
			_, prev, _ := frame(l[3][:len(l[3])-1])
			l[3] = forge(4, string(prev), "evil")
			return l
		}},
	{name: "lines 4 and 5 written anew", kind: Changed, first: 5, last: 5, says: "line 5 of log.jsonl is changed", left: "abxefg",
		spoil: func(l [][]byte) [][]byte {
			_, prev, _ := frame(l[3][:len(l[3])-1])
			l[3] = forge(4, string(prev), "x")
			l[4] = forge(5, hash(l[3][:len(l[3])-1]), "y")
			return l
		}},
	{name: "line 1 changed", kind: Changed, first: 1, last: 1, says: "line 1 of log.jsonl is changed", left: "abcdefg",
		spoil: func(l [][]byte) [][]byte {
			l[0] = bytes.Replace(l[0], []byte(`"id":"`), []byte(`"id":"f`), 1)
			return l
		}},
	{name: "line 1 without its format", kind: Changed, first: 1, last: 1, says: "line 1 of log.jsonl is changed", left: "abcdefg",
		spoil: func(l [][]byte) [][]byte {
			l[0] = bytes.Replace(l[0], []byte(`"format":`), []byte(`"fermat":`), 1)
			return l
		}},
	{name: "line 1 gone", kind: Removed, first: 1, last: 1, says: "line 1 of log.jsonl was removed", left: "abcdefg",
		spoil: func(l [][]byte) [][]byte { return l[1:] }},
	{name: "the last line changed", kind: Changed, first: 8, last: 8, says: "line 8 of log.jsonl is changed", left: "abcdef", head: true,
		spoil: func(l [][]byte) [][]byte { l[7] = bytes.Replace(l[7], []byte(`"g"`), []byte(`"G"`), 1); return l }},
	{name: "the last line garbled", kind: Garbled, first: 8, last: 8, says: "line 8 of log.jsonl is damaged", left: "abcdef", head: true,
		spoil: func(l [][]byte) [][]byte { l[7] = []byte("garbage\n"); return l }},
	{name: "a line longer than any can be", kind: Changed, first: 4, last: 4, says: "line 4 of", left: "abdefg",
		spoil: func(l [][]byte) [][]byte {
			l[3] = append(bytes.Repeat([]byte("x"), maxLine+maxLine/2), '\n')
			return l
		}},
}

// TestDamage: each is found by Verify and stops Open with the line's number; with
// Quarantine it is cut out, kept and known, and every other line is where it was.
func TestDamage(t *testing.T) {
	from := made(t, "a", "b", "c", "d", "e", "f", "g")
	for _, c := range damages {
		for _, remembers := range []bool{true, false} {
			if c.head && !remembers {
				continue
			}
			t.Run(fmt.Sprintf("%s, head %v", c.name, remembers), func(t *testing.T) {
				dir := copyDir(t, from)
				lines := read(t, dir)
				spoiled := bytes.Join(c.spoil(slices.Clone(lines[:8])), nil)
				write(t, dir, logName, spoiled)
				if !remembers {
					forget(t, dir)
				}
				r := mustVerify(t, dir)
				if len(r.Faults) != 1 || r.Kinds[0] != c.kind || r.Faults[0].First != c.first || r.Faults[0].Last != c.last {
					t.Errorf("verify: %+v %v\n%s", r.Faults, r.Kinds, r)
				}
				_, err := Open(dir, small(Options{}))
				var damage *DamageError
				if !errors.As(err, &damage) || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("open says %v, want %q", err, c.says)
				}
				if now, _ := os.ReadFile(filepath.Join(dir, logName)); !bytes.Equal(now, spoiled) {
					t.Fatal("a refused log was changed")
				}
				quarantined(t, dir, c.left, max(c.gaps, 1), spoiled)
			})
		}
	}
}

// A second quarantine may cut out the line that vouched for the gaps of the first: the new
// one vouches for them then.
func TestVouchedAgain(t *testing.T) {
	dir := made(t, "a", "b", "c", "d")
	for _, word := range []string{`"text":"b"`, `"what":"log.quarantine"`, `"what":"log.quarantine"`} {
		all := bytes.Join(read(t, dir), nil)
		i := bytes.LastIndex(all, []byte(word)) + len(word) - 2
		all[i] ^= 1
		write(t, dir, logName, all)
		forget(t, dir)
		l := mustOpen(t, dir, Options{Quarantine: true})
		if n := len(l.Recovered().Gaps); n != 1 {
			t.Fatalf("%d gaps are told", n)
		}
		mustAppend(t, l, "z")
		mustClose(t, l)
		r := mustVerify(t, dir)
		if !r.OK() || !slices.ContainsFunc(r.Known, func(g Gap) bool { return g.First == 3 && g.Last == 3 }) {
			t.Fatalf("after %s is damaged: %s", word, r)
		}
	}
}

// On a full disk the log is written anew on its reserve; without one it stays as it is.
func TestQuarantineOnAFullDisk(t *testing.T) {
	for _, reserve := range []int64{1 << 20, -1} {
		dir := made(t, "a", "b", "c")
		all := bytes.Replace(bytes.Join(read(t, dir), nil), []byte(`"b"`), []byte(`"B"`), 1)
		write(t, dir, logName, all)
		forget(t, dir)
		disk := powercut.New(dir)
		disk.Fail(func(op powercut.Op) error {
			if _, err := os.Stat(filepath.Join(dir, reserveName)); op.Kind == powercut.Write && op.Path == logName+".new" && (err == nil || reserve < 0) {
				return syscall.ENOSPC
			}
			return nil
		})
		l, err := Open(dir, Options{FS: disk, Quarantine: true, Reserve: reserve, journal: 4 * journalBlock})
		if reserve < 0 {
			if now, _ := os.ReadFile(filepath.Join(dir, logName)); !errors.Is(err, syscall.ENOSPC) || !bytes.Equal(now, all) {
				t.Fatalf("without a reserve: %v, and the log is %q", err, now)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := texts(events(t, l)); len(got) != 2 || len(l.Recovered().Gaps) != 1 {
			t.Errorf("left are %q, %+v", got, l.Recovered())
		}
		mustClose(t, l)
	}
}

// quarantined opens a damaged log with Quarantine and holds what is left.
func quarantined(t *testing.T, dir, left string, gaps int, spoiled []byte) {
	t.Helper()
	l, err := Open(dir, small(Options{Quarantine: true}))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	all := events(t, l)
	if got := strings.Join(texts(all), ""); got != left {
		t.Errorf("steps %s, want %s", got, left)
	}
	for _, e := range all {
		if e.Type == TypeTaskStep && e.Text != "x" && e.Seq != int64(e.Text[0]-'a')+2 {
			t.Errorf("step %s is line %d now", e.Text, e.Seq)
		}
	}
	for _, g := range l.Recovered().Gaps {
		if g.Bytes == 0 {
			continue
		}
		kept, err := os.ReadFile(filepath.Join(dir, g.File))
		if err != nil || hash(kept) != g.SHA256 || !bytes.Contains(spoiled, kept) {
			t.Errorf("gap %+v: kept %d bytes (%v)", g, len(kept), err)
		}
	}
	mustAppend(t, l, "z")
	mustClose(t, l)
	r := mustVerify(t, dir)
	if !r.OK() || len(r.Known)+len(r.Cuts) != gaps {
		t.Errorf("verify after quarantine:\n%s", r)
	}
	// It is a log like any other now, with its caches and without.
	for range 2 {
		again := mustOpen(t, dir, Options{})
		if again.Recovered().Cut != nil || again.Recovered().Gaps != nil {
			t.Errorf("recovered again: %+v", again.Recovered())
		}
		if got := strings.Join(texts(events(t, again)), ""); got != left+"z" {
			t.Errorf("steps %s after another start", got)
		}
		mustClose(t, again)
		forget(t, dir)
	}
}

// TestUnproven: a line that only claims to stand for a known gap is a fault.
func TestUnproven(t *testing.T) {
	dir := made(t, "a", "b", "c")
	lines := read(t, dir)
	_, next, _ := frame(bytes.TrimSuffix(lines[3], []byte("\n")))
	_, prev, _ := frame(bytes.TrimSuffix(lines[2], []byte("\n")))
	ev := note{What: noteQuarantined, Gap: &Gap{First: 3, Last: 3, Hash: string(next)}}.event()
	ev.Seq, ev.At, ev.Prev = 3, "2026-01-01T00:00:00.000Z", string(prev)
	line, err := Encode(&ev)
	if err != nil {
		t.Fatal(err)
	}
	lines[2] = append(line, '\n')
	write(t, dir, logName, bytes.Join(lines, nil))
	if r := mustVerify(t, dir); len(r.Kinds) != 1 || r.Kinds[0] != Unproven || r.Faults[0].First != 3 {
		t.Errorf("verify:\n%s", r)
	}
}

// TestKnownHead: somebody who wrote the head down finds a log that was written
// anew from end to end, with all that is beside it.
func TestKnownHead(t *testing.T) {
	dir := made(t, "a", "b", "c")
	head := mustVerify(t, dir).Head
	if r := mustVerify(t, dir, head); !r.OK() {
		t.Errorf("the head it has:\n%s", r)
	}
	other := made(t, "a", "b", "c")
	if r := mustVerify(t, other, head); r.OK() || r.Kinds[0] != Changed {
		t.Errorf("another log:\n%s", r)
	}
	longer := made(t, "a", "b", "c", "d")
	if r := mustVerify(t, longer, head); r.OK() || r.Kinds[0] != Rewritten {
		t.Errorf("another, longer log:\n%s", r)
	}
	shorter := made(t, "a")
	if r := mustVerify(t, shorter, head); r.OK() || r.Kinds[0] != CutOff {
		t.Errorf("another, shorter log:\n%s", r)
	}
	// The same without anybody's note, by log.commit.
	write(t, dir, logName, bytes.Join(read(t, longer), nil))
	if r := mustVerify(t, dir); r.OK() {
		t.Errorf("another log beside this head:\n%s", r)
	}
	if _, err := Open(dir, small(Options{})); err == nil || !strings.Contains(err.Error(), "line 4 ") {
		t.Errorf("open another log beside this head: %v", err)
	}
}

// TestTornInTheMiddle: of the last write the beginning can be missing and the end
// there. It is no damage behind the remembered head, and is all cut.
func TestTornInTheMiddle(t *testing.T) {
	dir := made(t, "a", "b", "c")
	whole := read(t, dir)
	l := mustOpen(t, dir, Options{})
	evs := []Event{step("d"), step("e"), step("f"), step("g")}
	if _, err := l.Append(t.Context(), evs...); err != nil {
		t.Fatal(err)
	}
	mustClose(t, l)
	after := read(t, dir)
	remembered, _ := os.ReadFile(filepath.Join(dir, journalName))
	for i := 4; i < 8; i++ {
		dir := t.TempDir()
		torn := slices.Clone(after)
		torn[i] = append(make([]byte, len(torn[i])-1), '\n')
		write(t, dir, logName, bytes.Join(torn, nil))

		// log.commit as it was before that write: torn.
		m := Mark{Seq: 4, Hash: hash(bytes.TrimSuffix(whole[3], []byte("\n"))), End: int64(len(bytes.Join(whole[:4], nil)))}
		old, err := openJournal(durable.Disk, dir, journalSize, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(old.turn(m), old.file.Close()); err != nil {
			t.Fatal(err)
		}
		l := mustOpen(t, dir, Options{})
		if got, want := strings.Join(texts(events(t, l)), ""), "abcdefg"[:i-1]; got != want {
			t.Errorf("line %d torn: steps %s, want %s", i+1, got, want)
		}
		mustClose(t, l)
		if r := mustVerify(t, dir); !r.OK() {
			t.Errorf("line %d torn: %s", i+1, r)
		}

		// log.commit from after it: damage.
		write(t, dir, logName, bytes.Join(torn, nil))
		write(t, dir, journalName, remembered)
		if _, err := Open(dir, small(Options{})); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("line %d ", i+1)) {
			t.Errorf("line %d damaged: open says %v", i+1, err)
		}
	}
}

func TestNewerFormat(t *testing.T) {
	dir := made(t, "a")
	lines := read(t, dir)
	lines[0] = bytes.Replace(lines[0], []byte(`"format":1`), []byte(`"format":2`), 1)
	b := bytes.Join(lines, nil)
	write(t, dir, logName, b)
	const says = "the log has format 2, this build knows 1; a newer GurtOS wrote it"
	for _, o := range []Options{{}, {Quarantine: true}} {
		if _, err := Open(dir, small(o)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("open: %v", err)
		}
	}
	if _, err := Verify(dir); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("verify: %v", err)
	}
	if now := bytes.Join(read(t, dir), nil); !bytes.Equal(now, b) {
		t.Error("a newer log was changed")
	}
	write(t, dir, logName, forge(1, "", "x"))
	forget(t, dir)
	if _, err := Open(dir, small(Options{})); err == nil || !strings.Contains(err.Error(), "no log of GurtOS") {
		t.Errorf("another program's file: %v", err)
	}
}
