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
var errElsewhere = errors.New("names are looked up on the box, so this runs there alone: unset BOX_URL, or name a task of the box with --task")

func netTest(s *session) error {
	whose, id := "A task with this host", s.value("task")
	var e netpolicy.Explanation
	var raw []byte
	var err error
	switch {
	case id != "":
		whose = "Task " + id
		raw, err = s.get("/api/tasks/"+url.PathEscape(id)+"/reach", url.Values{"host": {s.args[0]}}, &e)
	case s.Get("BOX_URL") != "":
		return errElsewhere
	default:
		p := netpolicy.Policy{Hosts: s.args[:1]}
		if e, err = p.Explain(s.ctx, s.args[0]); err == nil {
			raw, err = json.Marshal(e)
		}
	}
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
