package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"rsc.io/qr"
)

func status(s *session) error {
	var b boxAnswer
	raw, err := s.get("/api/box", nil, &b)
	if err != nil {
		return err
	}
	var h healthAnswer
	if _, err := s.get("/api/health", nil, &h); err != nil {
		return err
	}
	var asked []approvalAnswer
	if _, err := s.get("/api/approvals", url.Values{"state": {"pending"}}, &asked); err != nil {
		return err
	}
	return s.print(raw, func() error {
		state := "working"
		switch {
		case h.Error != "":
			state = h.Error
		case h.State != "":
			state = h.State
		}
		clock := "not held to a time server"
		if b.TimeSynced {
			clock = "in step"
		}
		rows := [][]string{
			{"box", b.Name}, {"address", b.URL}, {"state", state}, {"version", strings.TrimSpace(b.Version + " " + b.Slot)}, {"up", seconds(b.Uptime)},
			{"disk", fmt.Sprintf("%s used, %s free", bytesText(b.Disk.Used), bytesText(b.Disk.Free))},
			{"memory", fmt.Sprintf("%s of %s free", bytesText(b.Memory.Available), bytesText(b.Memory.Total))},
			{"clock", clock}, {"log", fmt.Sprintf("line %d, %s", b.LogHead.Seq, b.LogHead.Hash)},
			{"waiting", fmt.Sprintf("%d questions", len(asked))},
		}
		for _, w := range b.Weaker {
			rows = append(rows, []string{"weaker", w})
		}
		return s.columns(rows)
	})
}

func seconds(n int64) string {
	switch {
	case n >= 48*3600:
		return fmt.Sprintf("%d days", n/86400)
	case n >= 3600:
		return fmt.Sprintf("%d h %d min", n/3600, n%3600/60)
	case n >= 60:
		return fmt.Sprintf("%d min", n/60)
	}
	return fmt.Sprintf("%d s", n)
}

func approvalsFlags(f *flag.FlagSet) {
	f.Bool("all", false, "show the answered ones too")
}

func approvals(s *session) error {
	q := url.Values{"state": {"pending"}}
	if s.on("all") {
		q = nil
	}
	var list []approvalAnswer
	raw, err := s.get("/api/approvals", q, &list)
	if err != nil {
		return err
	}
	return s.print(raw, func() error {
		if len(list) == 0 {
			_, err := fmt.Fprintln(s.Out, "no question waits")
			return err
		}
		rows := [][]string{{"ID", "STATE", "BY", "COST", "QUESTION"}}
		for _, a := range list {
			rows = append(rows, []string{a.ID, a.State, a.By, cents(a.CostCents.String()), clip(firstLine(a.Question), 80)})
		}
		return s.columns(rows)
	})
}

func reasonFlags(f *flag.FlagSet) {
	f.String("reason", "", "`why`; it goes into the log and to the task")
}

func approve(s *session) error { return answer(s, true) }
func deny(s *session) error    { return answer(s, false) }

func answer(s *session, yes bool) error {
	in := map[string]any{"approved": yes}
	if s.given("reason") {
		in["reason"] = s.value("reason")
	}
	var a approvalAnswer
	raw, err := s.ask(http.MethodPost, "/api/approvals/"+url.PathEscape(s.args[0]), nil, in, &a)
	if err != nil {
		return err
	}
	err = s.print(raw, func() error {
		_, err := fmt.Fprintf(s.Out, "%s %s by %s\n", visible(a.ID), a.State, visible(a.By))
		return err
	})
	if err == nil && (a.State == "approved") != yes {
		err = &lateError{fmt.Sprintf("your answer does not stand: %s had answered before, and the first answer holds", visible(a.By))}
	}
	return err
}

func pairFlags(f *flag.FlagSet) {
	f.String("role", "owner", "owner, or device for one that may not see keys and settings")
	f.String("with", "", "pair this computer with a `code` that the box shows")
	f.String("name", "", "`name` for this computer, with --with")
}

func pair(s *session) error {
	switch {
	case s.given("with") && s.given("role"):
		return &usageError{"--role belongs to the box that makes the code: leave it out with --with"}
	case s.given("with"):
		return pairWith(s)
	case s.given("name"):
		return &usageError{"--name is the new device's own: give it there, with --with CODE"}
	}
	var c codeAnswer
	raw, err := s.ask(http.MethodPost, "/api/pair/code", nil, map[string]string{"role": s.value("role")}, &c)
	if err != nil {
		return err
	}
	return s.print(raw, func() error {
		code, err := qr.Encode(c.URL, qr.L)
		if err != nil {
			return fmt.Errorf("drawing the QR code: %w", err)
		}
		fmt.Fprint(s.Out, blocks(code))
		_, err = fmt.Fprintf(s.Out, "\n  Code  %s %s   (once, until %s)\n  At    %s\n", c.Code[:4], c.Code[4:], c.ExpiresAt, c.URL)
		return err
	})
}

func pairWith(s *session) error {
	name := s.value("name")
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			return &usageError{"--name is needed"}
		}
		name = host
	}
	var p pairedAnswer
	raw, err := s.ask(http.MethodPost, "/api/pair", nil, map[string]string{"code": s.value("with"), "name": name}, &p)
	if err != nil {
		return err
	}
	return s.print(raw, func() error {
		_, err := fmt.Fprintf(s.Out, "export BOX_TOKEN=%s\n", p.Token)
		fmt.Fprintf(s.Err, "Paired as %s. The box shows this token only now.\n", visible(p.Device.Name))
		return err
	})
}

// blocks draws a QR code with two rows a line, dark on light whatever the
// terminal's colours.
func blocks(c *qr.Code) string {
	var b strings.Builder
	for y := -2; y < c.Size+2; y += 2 {
		b.WriteString("  \x1b[30;107m")
		for x := -2; x < c.Size+2; x++ {
			switch up, down := c.Black(x, y), c.Black(x, y+1); {
			case up && down:
				b.WriteRune('█')
			case up:
				b.WriteRune('▀')
			case down:
				b.WriteRune('▄')
			default:
				b.WriteByte(' ')
			}
		}
		b.WriteString("\x1b[0m\n")
	}
	return b.String()
}

func devices(s *session) error {
	var list []struct{ ID, Name, Role, PairedAt, LastSeen string }
	raw, err := s.get("/api/devices", nil, &list)
	if err != nil {
		return err
	}
	return s.print(raw, func() error {
		if len(list) == 0 {
			_, err := fmt.Fprintln(s.Out, "no device is paired; `box pair` makes a code")
			return err
		}
		rows := [][]string{{"ID", "NAME", "ROLE", "PAIRED", "SEEN"}}
		for _, d := range list {
			rows = append(rows, []string{d.ID, d.Name, d.Role, age(d.PairedAt), age(d.LastSeen)})
		}
		return s.columns(rows)
	})
}

func deviceRemove(s *session) error {
	raw, err := s.ask(http.MethodDelete, "/api/devices/"+url.PathEscape(s.args[0]), nil, nil, nil)
	if err != nil {
		return err
	}
	return s.print(raw, func() error { return s.say("%s is removed", s.args[0]) })
}

func (s *session) say(format string, a ...any) error {
	_, err := fmt.Fprintln(s.Out, visible(fmt.Sprintf(format, a...)))
	return err
}

func vaultList(s *session) error {
	var list []struct{ Name, SetAt string }
	raw, err := s.get("/api/vault", nil, &list)
	if err != nil {
		return err
	}
	return s.print(raw, func() error {
		rows := [][]string{{"NAME", "SET"}}
		for _, k := range list {
			rows = append(rows, []string{k.Name, age(k.SetAt)})
		}
		return s.columns(rows)
	})
}

func vaultSet(s *session) error {
	value, err := secret(s)
	if err != nil {
		return err
	}
	raw, err := s.ask(http.MethodPut, "/api/vault/"+url.PathEscape(s.args[0]), nil, map[string]string{"value": value}, nil)
	if err != nil {
		return err
	}
	return s.print(raw, func() error { return s.say("%s is set", s.args[0]) })
}

// secret reads a value from standard input; on a terminal it asks and doesn't
// show what is typed.
func secret(s *session) (string, error) {
	f, ok := s.In.(*os.File)
	if !ok || !isTerminal(s.In) {
		b, err := io.ReadAll(io.LimitReader(s.In, 1<<20))
		if err != nil {
			return "", fmt.Errorf("reading the value: %w", err)
		}
		return strings.TrimRight(string(b), "\r\n"), nil
	}
	fmt.Fprintf(s.Err, "Value of %s: ", visible(s.args[0]))
	fd := int(f.Fd())
	was, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return "", fmt.Errorf("hiding what is typed: %w", err)
	}
	hidden := *was
	hidden.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(fd, unix.TCSETS, &hidden); err != nil {
		return "", fmt.Errorf("hiding what is typed: %w", err)
	}
	text, err := bufio.NewReader(f).ReadString('\n')
	fmt.Fprintln(s.Err)
	err = errors.Join(err, unix.IoctlSetTermios(fd, unix.TCSETS, was))
	if err != nil {
		return "", fmt.Errorf("reading the value: %w", err)
	}
	return strings.TrimRight(text, "\r\n"), nil
}

func isTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

func vaultDelete(s *session) error {
	raw, err := s.ask(http.MethodDelete, "/api/vault/"+url.PathEscape(s.args[0]), nil, nil, nil)
	if err != nil {
		return err
	}
	return s.print(raw, func() error { return s.say("%s is removed", s.args[0]) })
}

func showSettings(s *session) error {
	var all map[string]json.RawMessage
	var raw json.RawMessage
	var err error
	if len(s.args) == 0 {
		raw, err = s.get("/api/settings", nil, &all)
	} else {
		to := map[string]json.RawMessage{}
		for _, a := range s.args {
			name, text, ok := strings.Cut(a, "=")
			if !ok {
				return &usageError{fmt.Sprintf("%q is no NAME=VALUE", a)}
			}
			if _, twice := to[name]; twice {
				return &usageError{name + " is there twice"}
			}
			to[name] = settingValue(text)
		}
		raw, err = s.ask(http.MethodPut, "/api/settings", nil, to, &all)
	}
	if err != nil {
		return err
	}
	return s.print(raw, func() error {
		var names []string
		for n := range all {
			names = append(names, n)
		}
		slices.Sort(names)
		var rows [][]string
		for _, n := range names {
			rows = append(rows, []string{n, string(all[n])})
		}
		return s.columns(rows)
	})
}

// settingValue takes JSON as it is, and all else as a string.
func settingValue(text string) json.RawMessage {
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string
	}
	return b
}

func setPause(s *session, on bool) error {
	raw, err := s.ask(http.MethodPost, "/api/pause", nil, map[string]bool{"paused": on}, nil)
	if err != nil {
		return err
	}
	return s.print(raw, func() error {
		if on {
			return s.say("all agents stand still; `box resume` lets them go on")
		}
		return s.say("agents go on")
	})
}

func spendFlags(f *flag.FlagSet) {
	f.String("from", "", "first UTC `day`, such as 2026-12-01")
	f.String("to", "", "last UTC `day`")
}

func spend(s *session) error {
	q := url.Values{}
	for _, name := range []string{"from", "to"} {
		if s.given(name) {
			q.Set(name, s.value(name))
		}
	}
	var list []spendAnswer
	raw, err := s.get("/api/spend", q, &list)
	if err != nil {
		return err
	}
	return s.print(raw, func() error {
		rows := [][]string{{"DAY", "APP", "MODEL", "COST"}}
		for _, v := range list {
			rows = append(rows, []string{v.Day, v.App, v.Model, cents(v.Cents.String())})
		}
		return s.columns(rows)
	})
}
