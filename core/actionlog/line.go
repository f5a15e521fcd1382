package actionlog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strconv"
)

// hash is the hex SHA-256 of a line without its newline.
func hash(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

// frame reads the two fields that bind a line into the log from the places where
// Encode puts them.
func frame(line []byte) (seq int64, prev []byte, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"seq":`))
	if !ok {
		return 0, nil, false
	}
	digits := bytes.IndexByte(rest, ',')
	if digits < 1 || digits > 18 || rest[0] == '0' {
		return 0, nil, false
	}
	for _, c := range rest[:digits] {
		if c < '0' || c > '9' {
			return 0, nil, false
		}
		seq = seq*10 + int64(c-'0')
	}
	rest, ok = bytes.CutSuffix(rest[digits:], []byte(`"}`))
	if !ok {
		return 0, nil, false
	}
	const name = `,"prev":"`
	if seq == 1 {
		return seq, nil, bytes.HasSuffix(rest, []byte(name))
	}
	at := len(rest) - sha256.Size*2
	if at < len(name) || !bytes.HasSuffix(rest[:at], []byte(name)) {
		return 0, nil, false
	}
	return seq, rest[at:], true
}

// lines reads whole lines one after another, whatever their number, with a buffer
// that grows to the longest.
type lines struct {
	r   io.ReaderAt
	off int64 // behind the last line read
	end int64 // reading stops here

	buf  []byte
	from int // buf[from:have] lies at off in r
	have int
}

func newLines(r io.ReaderAt, from, end int64) *lines {
	return &lines{r: r, off: from, end: end, buf: make([]byte, 64<<10)}
}

// next is the next line without its newline, valid until the next call, and io.EOF
// when no whole one is left; then off is where the unfinished rest begins. A line
// that is too long to be one comes out empty.
func (s *lines) next() ([]byte, error) {
	searched := s.from
	for {
		if n := bytes.IndexByte(s.buf[searched:s.have], '\n'); n >= 0 {
			line := s.buf[s.from : searched+n]
			s.from = searched + n + 1
			s.off += int64(len(line)) + 1
			return line, nil
		}
		if s.from > 0 {
			s.have = copy(s.buf, s.buf[s.from:s.have])
			s.from = 0
		}
		searched = s.have
		if s.have == len(s.buf) {
			if s.have > maxLine {
				return s.skip()
			}
			s.buf = append(s.buf, make([]byte, len(s.buf))...)
		}
		if err := s.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads on behind buf[:have].
func (s *lines) fill() error {
	at := s.off + int64(s.have-s.from)
	want := s.buf[s.have:]
	if left := s.end - at; left <= 0 {
		return io.EOF
	} else if int64(len(want)) > left {
		want = want[:left]
	}
	n, err := s.r.ReadAt(want, at)
	s.have += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// skip passes over what has no newline for too long.
func (s *lines) skip() ([]byte, error) {
	start := s.off
	for {
		s.off += int64(s.have)
		s.from, s.have = 0, 0
		if err := s.fill(); err != nil {
			s.off = start // an unfinished rest, however long
			return nil, err
		}
		if n := bytes.IndexByte(s.buf[:s.have], '\n'); n >= 0 {
			s.off += int64(n) + 1
			s.from = n + 1
			return s.buf[:0], nil
		}
	}
}

// NoteQuarantined is the what of a note in the place of a line that was cut out: who folds
// the log may lack what that line began.
const NoteQuarantined = "log.quarantined"

// The notes that the log writes about itself, by the what of their data.
const (
	noteFormat      = "log.format"     // line 1
	noteCut         = "log.cut"        // a tail was cut at start
	noteQuarantined = NoteQuarantined  // stands in the place of a line that was cut out
	noteQuarantine  = "log.quarantine" // at the end: what was cut out
)

// format is the version of the log that this build writes and reads.
const format = 1

// note is the data of the log's own notes.
type note struct {
	What   string `json:"what"`
	Format int    `json:"format,omitempty"` // line 1 only
	ID     string `json:"id,omitempty"`     // line 1 only: random, so that no two logs are alike

	Gap  *Gap  `json:"gap,omitempty"`  // log.quarantined
	Gaps []Gap `json:"gaps,omitempty"` // log.quarantine
	Cut  *Cut  `json:"cut,omitempty"`  // log.cut
}

// Gap is a place where lines are not what was written and were cut out.
type Gap struct {
	First  int64  `json:"first"`          // the first line of it
	Last   int64  `json:"last"`           // the last; First-1 where something was put between two lines
	Bytes  int64  `json:"bytes"`          // what was cut out
	SHA256 string `json:"sha256"`         // of that
	File   string `json:"file,omitempty"` // where it was kept, beside the log
	Hash   string `json:"hash,omitempty"` // of the line that was Last once, as the line behind has it
}

// Cut is what was taken off the end of the log at a start.
type Cut struct {
	Line   int64  `json:"line"`           // the first line that is gone
	Bytes  int64  `json:"bytes"`          // what was cut off
	SHA256 string `json:"sha256"`         // of that
	File   string `json:"file,omitempty"` // where it was kept, beside the log
	Lost   int64  `json:"lost,omitempty"` // lines that had been on the disk and are gone
	// Head is the end of the log as it had been remembered.
	Head Mark `json:"head,omitzero"`
}

// readNote is the data of a line that is one of the log's own notes.
func readNote(line []byte) (note, error) {
	var n note
	ev, err := Decode(line)
	if err != nil {
		return n, err
	}
	if ev.Type != TypeNote || ev.Track != "box" {
		return n, errors.New("not a note of the box")
	}
	return n, json.Unmarshal(ev.Data, &n)
}

// event is the line for a note of the log.
func (n note) event() Event {
	data, err := json.Marshal(n)
	if err != nil {
		panic("action log: note: " + err.Error()) // strings and numbers only
	}
	return Event{Type: TypeNote, Track: "box", Data: data}
}

// isNote says cheaply whether a line may be the log's own note of that kind.
func isNote(line []byte, what string) bool {
	return bytes.Contains(line, []byte(`"track":"box","data":{"what":`+strconv.Quote(what)))
}
