package cli

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gurtos/core/actionlog"
	"gurtos/core/durable"
)

func verifyFlags(f *flag.FlagSet) {
	f.Var(new(words), "head", "an end, `LINE:HASH`, that the log must still have; may be given several times")
}

func logVerify(s *session) error {
	known, err := heads(*s.set.Lookup("head").Value.(*words))
	if err != nil {
		return err
	}
	report, err := s.verify(known...)
	if err != nil {
		return err
	}
	if err := s.show(report); err != nil {
		return err
	}
	if !report.OK() {
		return errors.New("the action log is not as it was written")
	}
	return nil
}

// verify reads the log of this machine's box.
func (s *session) verify(known ...actionlog.Mark) (actionlog.Report, error) {
	report, err := actionlog.Verify(s.box.home, known...)
	if errors.Is(err, fs.ErrNotExist) {
		return report, fmt.Errorf("there is no action log in %s: set BOX_HOME to the folder of the box whose log it is, and run this on the box", s.box.home)
	}
	return report, err
}

func (s *session) show(r actionlog.Report) error {
	if !s.json {
		_, err := fmt.Fprintln(s.Out, strings.TrimRight(r.String(), "\n"))
		return err
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.Out, "%s\n", b)
	return err
}

// heads reads ends of the log as boxd and box status show them: a line's number and its
// hash, with a colon between.
func heads(texts []string) ([]actionlog.Mark, error) {
	var known []actionlog.Mark
	for _, text := range texts {
		line, hash, _ := strings.Cut(text, ":")
		seq, err := strconv.ParseInt(line, 10, 64)
		sum, herr := hex.DecodeString(hash)
		if err != nil || herr != nil || seq < 1 || len(sum) != 32 {
			return nil, &usageError{fmt.Sprintf("--head is %q: a line's number, a colon and its hash of 64 hex digits are needed, as `box status` shows them", text)}
		}
		known = append(known, actionlog.Mark{Seq: seq, Hash: strings.ToLower(hash)})
	}
	return known, nil
}

// logGone says whether the log's file is missing though the journal beside it remembers
// lines. A boxd that runs would have it open all the same.
func (s *session) logGone() (bool, error) {
	if _, err := os.Lstat(filepath.Join(s.box.home, "log.jsonl")); !errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if _, err := os.Lstat(filepath.Join(s.box.home, "log.commit")); err != nil {
		return false, nil
	}
	if c, err := net.Dial("unix", filepath.Join(s.box.home, "box.sock")); err == nil {
		c.Close()
		return false, fmt.Errorf("boxd runs with BOX_HOME %s, though its log is gone: stop it first", s.box.home)
	}
	return true, nil
}

// logQuarantine cuts damaged lines out of the log, which lets boxd start again.
func logQuarantine(s *session) error {
	gone, err := s.logGone()
	if err != nil {
		return err
	}
	report, err := s.verify()
	switch {
	case gone: // and remembered: it is begun anew
	case err != nil:
		return err
	case report.Running:
		return fmt.Errorf("boxd runs with BOX_HOME %s and writes the log: stop it first", s.box.home)
	case report.OK():
		return s.show(report) // there is nothing to cut out
	}
	log, err := actionlog.Open(s.box.home, actionlog.Options{Quarantine: true})
	if errors.Is(err, durable.ErrLocked) {
		return fmt.Errorf("boxd runs with BOX_HOME %s and writes the log: stop it first", s.box.home)
	}
	if err != nil {
		return err
	}
	if err := log.Close(); err != nil {
		return err
	}
	if report, err = s.verify(); err != nil {
		return err
	}
	if err := s.show(report); err != nil {
		return err
	}
	if !report.OK() {
		return errors.New("the action log is not as it was written, and what is wrong with it can't be cut out")
	}
	return nil
}
