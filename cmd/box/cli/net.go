package cli

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/url"

	"gurtos/netpolicy"
)

func netTestFlags(f *flag.FlagSet) {
	f.String("task", "", "the task whose hosts count")
}

// errElsewhere is what a name's look-up away from the box would be worth.
var errElsewhere = errors.New("names are looked up on the box, so this runs there alone: unset BOX_URL")

func netTest(s *session) error {
	if s.Get("BOX_URL") != "" {
		return errElsewhere
	}
	whose, hosts := "A task with this host", []string{s.args[0]}
	if id := s.value("task"); id != "" {
		var t taskAnswer
		if _, err := s.get("/api/tasks/"+url.PathEscape(id), nil, &t); err != nil {
			return err
		}
		whose, hosts = "Task "+t.ID, t.Hosts
	}
	e, err := netpolicy.Explain(s.ctx, hosts, s.args[0])
	if err != nil {
		return err
	}
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	err = s.print(raw, func() error {
		may := "may not"
		if e.Allowed {
			may = "may"
		}
		fmt.Fprintf(s.Out, "%s %s reach %s. %s\n", whose, may, e.Target, e.Why)
		for _, l := range e.Leads {
			if l.Why != "" {
				fmt.Fprintf(s.Out, "  %s is refused: %s.\n", l.Addr, l.Why)
			} else {
				fmt.Fprintf(s.Out, "  %s is %s.\n", l.Addr, l.Class)
			}
		}
		return nil
	})
	if err == nil && !e.Allowed {
		err = fmt.Errorf("%s is refused", e.Target)
	}
	return err
}
