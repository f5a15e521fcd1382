package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"gurtos/core/actionlog"
)

// How much of what a step printed stands below it.
const (
	mostPrinted = 20  // lines, half of them from its end
	mostWide    = 160 // characters of one
)

// printed is what a step's data say of its outcome and its output, for people. Workers
// are free in what data they give; those that are known are the scripted one's.
func printed(ev actionlog.Event) string {
	var d struct {
		Exit   *int            `json:"exit"`   // of a command
		Output string          `json:"output"` // the last of what it printed
		Text   string          `json:"text"`   // of a file
		Status int             `json:"status"` // of a page
		Body   string          `json:"body"`
		Error  string          `json:"error"` // why there is no page
		Answer json.RawMessage `json:"answer"`
	}
	if ev.Type != actionlog.TypeTaskStep || len(ev.Data) == 0 {
		return ""
	}
	var other *json.UnmarshalTypeError // data of another worker's or tool's own: what has these forms is shown
	if err := json.Unmarshal(ev.Data, &d); err != nil && !errors.As(err, &other) {
		return ""
	}
	var parts []string
	add := func(format string, a ...any) {
		if text := strings.TrimRight(fmt.Sprintf(format, a...), "\n"); text != "" {
			parts = append(parts, text)
		}
	}
	if d.Exit != nil && *d.Exit != 0 {
		add("exit code %d", *d.Exit)
	}
	if d.Status != 0 {
		add("status %d", d.Status)
	}
	if d.Error != "" {
		add("failed: %s", d.Error)
	}
	add("%s", answered(d.Answer))
	add("%s", d.Output)
	add("%s", d.Text)
	add("%s", d.Body)
	return strings.Join(parts, "\n")
}

// answered is the answer to a call.
func answered(raw json.RawMessage) string {
	var a struct {
		OK     bool
		Error  string
		Output json.RawMessage
	}
	switch {
	case len(raw) == 0 || json.Unmarshal(raw, &a) != nil:
		return ""
	case !a.OK:
		return "failed: " + a.Error
	}
	var b bytes.Buffer
	if json.Compact(&b, a.Output) != nil {
		return ""
	}
	return b.String()
}

// showPrinted prints what stands below a step: what tasks print is text, and steers no
// terminal.
func (s *session) showPrinted(ev line) error {
	text := printed(ev.Event)
	if text == "" || s.json {
		return nil
	}
	all := strings.Split(text, "\n")
	for i, l := range all {
		if out := len(all) - mostPrinted; out > 0 && i >= mostPrinted/2 && i < mostPrinted/2+out {
			if i > mostPrinted/2 {
				continue
			}
			l = fmt.Sprintf("… %d lines are left out here: box task log --json %s has them", out, ev.Task)
		}
		if _, err := fmt.Fprintf(s.Out, "%8s%s\n", "", clip(lines(strings.TrimSuffix(l, "\r")), mostWide)); err != nil {
			return err
		}
	}
	return nil
}
