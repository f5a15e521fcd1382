package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"gurtos/core/workspace"
)

// What a Watch looks at.
const (
	Daily = "daily" // a time of the day
	Every = "every" // a span, again and again
	Files = "files" // what becomes different in a workspace
)

// Watch is one thing that an app has the box watch, as core/contract.ts has it.
type Watch struct {
	Kind      string   `json:"kind"`
	Name      string   `json:"name"`                // the trigger's; what the box remembers its last run by
	At        string   `json:"at,omitempty"`        // daily: HH:MM in the box's time zone
	MS        int64    `json:"ms,omitempty"`        // every: milliseconds, at least 1000
	Weekdays  []string `json:"weekdays,omitempty"`  // daily and every: mon to sun; all when empty
	Workspace string   `json:"workspace,omitempty"` // files
	Paths     []string `json:"paths,omitempty"`     // files: globs; all when empty
}

// Fired is why a watch fires.
type Fired struct {
	At      string   `json:"at"`      // when it was due, or when the last change was seen; UTC
	Late    bool     `json:"late"`    // of a schedule: the box was off or busy when it was due
	Changes []Change `json:"changes"` // of files; never nil
}

// Change is one path of a workspace that is different now.
type Change struct {
	Path   string `json:"path"`
	Change string `json:"change"` // added, modified or deleted
}

// Fire hands what is due to an app and returns once the app is done with it. An
// error that is ErrNotTaken says that the app was not reached: what was due is kept
// for when the watch is added anew. Any other error is the app's own; what was due
// counts as taken then, and the log tells of the failure. ctx ends when the watch does.
type Fire func(ctx context.Context, f Fired) error

// ErrNotTaken is what a Fire wraps when the app was not reached.
var ErrNotTaken = errors.New("the app was not reached")

// Invalid is a watch that can't be: what is wrong with it, in a sentence that names it.
type Invalid struct{ Sentence string }

func (e *Invalid) Error() string { return e.Sentence }

// Limits of watches.
const (
	shortest   = 1000                // milliseconds of a span
	longest    = 31 * 24 * 3_600_000 //
	maxName    = 100                 // characters
	maxWatches = 100                 // of one app
)

// check says what is wrong with a watch, and gives its globs.
func (w Watch) check() (globs, error) {
	wrong := func(form string, args ...any) error {
		return &Invalid{fmt.Sprintf("trigger %q: ", cut(w.Name)) + fmt.Sprintf(form, args...)}
	}
	if n := utf8.RuneCountInString(w.Name); n == 0 || n > maxName || !utf8.ValidString(w.Name) || strings.ContainsFunc(w.Name, unicode.IsControl) {
		return nil, wrong("a name of 1 to %d characters is needed", maxName)
	}
	for i, d := range w.Weekdays {
		if !slices.Contains(weekdays, d) {
			return nil, wrong("%q is no weekday; they are mon, tue, wed, thu, fri, sat, sun", cut(d))
		}
		if slices.Contains(w.Weekdays[:i], d) {
			return nil, wrong("%s is there twice", d)
		}
	}
	switch w.Kind {
	case Daily:
		if _, ok := clockTime(w.At); !ok {
			return nil, wrong("at is %q, and a time from 00:00 to 23:59 such as 08:00 is needed", cut(w.At))
		}
	case Every:
		if w.MS < shortest || w.MS > longest {
			return nil, wrong("a span of %d ms is none that can be: whole milliseconds from %d to %d are", w.MS, shortest, longest)
		}
	case Files:
		if err := workspace.CheckName(w.Workspace); err != nil {
			return nil, wrong("workspace: %v", err)
		}
		gs, err := parseGlobs(w.Paths)
		if err != nil {
			return nil, wrong("%v", err)
		}
		return gs, nil
	default:
		return nil, wrong("the box watches daily, every and files, and not %q", cut(w.Kind))
	}
	return nil, nil
}

// clockTime reads HH:MM.
func clockTime(s string) (time.Duration, bool) {
	t, err := time.Parse("15:04", s)
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, err == nil && len(s) == 5
}

func cut(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return s
}

// same says whether two watches are one and the same.
func (w Watch) same(o Watch) bool {
	return w.Kind == o.Kind && w.Name == o.Name && w.At == o.At && w.MS == o.MS && w.Workspace == o.Workspace &&
		slices.Equal(w.Weekdays, o.Weekdays) && slices.Equal(w.Paths, o.Paths)
}

func (w Watch) span() time.Duration { return time.Duration(w.MS) * time.Millisecond }

// remembered says whether the box knows over a restart when it ran last. A span of
// less than a minute begins anew: the log would hold little else.
func (w Watch) remembered() bool { return w.Kind != Every || w.span() >= time.Minute }
