package box

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"gurtos/core/actionlog"
)

// Lines reads the log as it stands in the file, one line each.
func (a *API) Lines() []string {
	a.t.Helper()
	var text []byte
	a.Get("/api/log", (*rawJSON)(&text))
	body := strings.TrimSpace(string(text))
	body = strings.TrimSuffix(strings.TrimPrefix(body, "["), "]")
	if body == "" {
		return nil
	}
	lines := strings.Split(body, ",\n") // JSON on one line has no newline inside
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return lines
}

// standsFor is the hash of the line that was cut out, of a note in its place.
func standsFor(e actionlog.Event) string {
	var d struct {
		What string
		Gap  struct{ Hash string }
	}
	if e.Track != "box" || json.Unmarshal(e.Data, &d) != nil || d.What != actionlog.NoteQuarantined {
		return ""
	}
	return d.Gap.Hash
}

// rawJSON keeps an answer's bytes.
type rawJSON []byte

func (r *rawJSON) UnmarshalJSON(p []byte) error {
	*r = append((*r)[:0], p...)
	return nil
}

// CheckChain fails the test unless the log is whole: line numbers from 1 on
// without a gap, each line with the hash of the one before, or of the one for which that
// stands. It gives the events.
func (a *API) CheckChain() []actionlog.Event {
	a.t.Helper()
	var events []actionlog.Event
	prev := ""
	for i, line := range a.Lines() {
		var e actionlog.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			a.t.Fatalf("line %d of the log is no event: %v: %.200s", i+1, err, line)
		}
		if e.Seq != int64(i+1) {
			a.t.Fatalf("line %d of the log has seq %d", i+1, e.Seq)
		}
		if e.Prev != prev && (i == 0 || e.Prev != standsFor(events[i-1])) {
			a.t.Fatalf("line %d of the log has prev %q, the line before hashes to %q", i+1, e.Prev, prev)
		}
		sum := sha256.Sum256([]byte(line))
		prev = hex.EncodeToString(sum[:])
		events = append(events, e)
	}
	return events
}
