package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"gurtos/core/actionlog"
)

// line is an event of the log, and the line as it stands.
type line struct {
	actionlog.Event
	raw json.RawMessage
}

func followFlags(f *flag.FlagSet) {
	f.Bool("f", false, "go on with new lines as they come")
}

func logFlags(f *flag.FlagSet) {
	followFlags(f)
	f.Int64("after", 0, "begin behind the line of this `number`")
	f.String("task", "", "only lines of the task of this `id`")
	f.Int64("limit", 0, "how `many` at most; all when 0")
}

func showLog(s *session) error {
	after, err := strconv.ParseInt(s.value("after"), 10, 64)
	if err != nil {
		return err
	}
	if id := s.value("task"); id != "" && s.on("f") { // it would wait for ever for a task that is not there
		if _, err := s.get("/api/tasks/"+url.PathEscape(id), nil, nil); err != nil {
			return err
		}
	}
	return s.showLog(after, s.value("task"), s.value("limit"), s.on("f"), false)
}

func taskLog(s *session) error {
	if _, err := s.get("/api/tasks/"+url.PathEscape(s.args[0]), nil, nil); err != nil {
		return err
	}
	return s.showLog(0, s.args[0], "0", s.on("f"), true)
}

// showLog shows lines of the log; of one task with what its steps printed, and until its
// end.
func (s *session) showLog(after int64, id, limit string, follow, task bool) error {
	show := func(ev line) error {
		err := s.showLine(ev)
		if err == nil && task {
			err = s.showPrinted(ev)
		}
		return err
	}
	if follow {
		return s.follow(after, id, func(ev line) (bool, error) {
			if err := show(ev); err != nil {
				return true, err
			}
			return task && ev.Type == actionlog.TypeTaskState && ended(ev.State), nil
		})
	}
	q := url.Values{"after": {strconv.FormatInt(after, 10)}}
	if id != "" {
		q.Set("task", id)
	}
	if limit != "0" {
		q.Set("limit", limit)
	}
	res, err := s.box.send(s.ctx, http.MethodGet, "/api/log", q, "", nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if s.json {
		_, err := io.Copy(s.Out, res.Body)
		return err
	}
	d := json.NewDecoder(bufio.NewReaderSize(res.Body, 64<<10))
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("reading the log: %w", err)
	}
	shown := 0
	for ; d.More(); shown++ {
		var ev line
		if err := d.Decode(&ev.raw); err != nil {
			return fmt.Errorf("the log broke off: %w", err)
		}
		if ev.Event, err = actionlog.Decode(ev.raw); err != nil {
			return fmt.Errorf("reading the log: %w", err)
		}
		if err := show(ev); err != nil {
			return err
		}
	}
	if _, err = d.Token(); err != nil {
		return err
	}
	if shown == 0 && id != "" { // one whose first line was lost has lines all the same, and is no task
		_, err = s.get("/api/tasks/"+url.PathEscape(id), nil, nil)
	}
	return err
}

// errEnd ends a stream that said all that was wanted.
var errEnd = errors.New("end")

// follow reads the live log until fn says that it has enough, and goes on where
// it was when the box was started anew meanwhile.
func (s *session) follow(after int64, id string, fn func(line) (bool, error)) error {
	wait := time.NewTimer(0)
	defer wait.Stop()
	<-wait.C
	for tries := 0; ; tries++ {
		was := after
		err := s.stream(&after, id, fn)
		switch {
		case errors.Is(err, errEnd):
			return nil
		case s.ctx.Err() != nil:
			return s.ctx.Err()
		}
		if after > was {
			tries = 0
		}
		var said *refusal
		if errors.As(err, &said) || tries > 20 || tries == 0 && after == was && err != nil {
			return err
		}
		wait.Reset(time.Second)
		select {
		case <-wait.C:
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

func (s *session) stream(after *int64, id string, fn func(line) (bool, error)) error {
	res, err := s.box.send(s.ctx, http.MethodGet, "/api/events", url.Values{"after": {strconv.FormatInt(*after, 10)}}, "", nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	r := bufio.NewReaderSize(res.Body, 64<<10)
	for {
		text, err := r.ReadString('\n')
		if err != nil {
			return nil // the stream ended: the box was stopped or the network went
		}
		data, ok := strings.CutPrefix(strings.TrimSuffix(text, "\n"), "data: ")
		if !ok {
			continue
		}
		ev := line{raw: json.RawMessage(data)}
		if ev.Event, err = actionlog.Decode(ev.raw); err != nil {
			return fmt.Errorf("reading the log: %w", err)
		}
		*after = ev.Seq
		if id != "" && ev.Task != id {
			continue
		}
		enough, err := fn(ev)
		if err != nil {
			return err
		}
		if enough {
			return errEnd
		}
	}
}

// showLine prints one event for people, or as it stands.
func (s *session) showLine(ev line) error {
	if s.json {
		_, err := fmt.Fprintf(s.Out, "%s\n", ev.raw)
		return err
	}
	at := ev.At
	if t, err := time.Parse(time.RFC3339, ev.At); err == nil {
		at = t.Local().Format("2006-01-02 15:04:05")
	}
	_, err := fmt.Fprintf(s.Out, "%6d  %s  %-14s %s\n", ev.Seq, at, ev.Task, visible(what(ev.Event)))
	return err
}

// what is an event in words.
func what(ev actionlog.Event) string {
	switch ev.Type {
	case actionlog.TypeTaskCreated:
		var spec struct{ Title, Worker, Workspace string }
		if json.Unmarshal(ev.Spec, &spec) == nil {
			return fmt.Sprintf("created: %s (worker %s, workspace %s)", spec.Title, spec.Worker, spec.Workspace)
		}
		return "created"
	case actionlog.TypeTaskState:
		text := ev.State
		if ev.Error != "" {
			text += ": " + ev.Error
		}
		return text
	case actionlog.TypeTaskStep:
		return "step: " + clip(firstLine(ev.Text), 120)
	case actionlog.TypeToolCall:
		return fmt.Sprintf("calls %s %s", ev.Tool, clip(string(ev.Input), 100))
	case actionlog.TypeToolResult:
		if ev.OK != nil && *ev.OK {
			text := "result " + clip(string(ev.Output), 100)
			if ev.Cents != "" {
				text += " for " + cents(ev.Cents.String())
			}
			return text
		}
		return "call failed: " + ev.Error
	case actionlog.TypeApprovalAsked:
		var a struct{ Question string }
		if json.Unmarshal(ev.Approval, &a) == nil {
			return "asks: " + clip(firstLine(a.Question), 120)
		}
		return "asks"
	case actionlog.TypeApprovalAnswered:
		yes := "no"
		if ev.Approved != nil && *ev.Approved {
			yes = "yes"
		}
		text := fmt.Sprintf("%s says %s", ev.By, yes)
		if ev.Reason != "" {
			text += ": " + ev.Reason
		}
		return text
	case actionlog.TypeCost:
		return fmt.Sprintf("cost %s for %s", cents(ev.Cents.String()), ev.What)
	case actionlog.TypeNetBlocked:
		return "blocked " + ev.Host
	case actionlog.TypeNote:
		return clip(note(ev), 160)
	}
	return string(ev.Type)
}

// note is what an app or the box itself says, its parts by name.
func note(ev actionlog.Event) string {
	var data map[string]json.RawMessage
	if json.Unmarshal(ev.Data, &data) != nil {
		return fmt.Sprintf("%s notes %s", ev.Track, ev.Data)
	}
	text := ev.Track + " notes"
	var what string
	if json.Unmarshal(data["what"], &what) == nil && what != "" {
		text += " " + what
		delete(data, "what")
	}
	sep := ": "
	for _, name := range slices.Sorted(maps.Keys(data)) {
		value := string(data[name])
		var plain string
		if json.Unmarshal(data[name], &plain) == nil {
			value = plain
		}
		text, sep = text+sep+name+" "+value, ", "
	}
	return text
}
