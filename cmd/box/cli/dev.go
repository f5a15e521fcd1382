package cli

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"gurtos/cmd/box/check"
	"gurtos/core/app/declare"
)

func appDevFlags(f *flag.FlagSet) {
	f.Bool("running", false, "use the box that runs already, and not one of its own")
	f.String("home", "", "keep the box's data in this `folder`; else they are gone at the end")
}

// appDev has an app run on a box of its own, reads it anew whenever a file of it was
// saved, and follows the log, until it is interrupted.
func appDev(s *session) (err error) {
	folder, err := s.folderArg()
	if err != nil {
		return err
	}
	name := filepath.Base(folder)
	if err := declare.CheckName(name); err != nil {
		return fmt.Errorf("the folder: %w", err)
	}
	if _, err := check.SDK(folder); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(folder, "track.ts")); err != nil {
		return fmt.Errorf("there is no track.ts in %s: box app new makes an app to begin with", folder)
	}
	if s.on("running") && s.given("home") {
		return &usageError{"--running and --home can't be given together: a running box has its data where they are"}
	}
	interrupted := s.ctx
	defer func() {
		if interrupted.Err() != nil && errors.Is(err, context.Canceled) {
			err = nil // that is how it ends
		}
	}()
	d := &dev{session: s, name: name}
	ended := make(chan error, 1)
	if !s.on("running") {
		own, err := startBox(s, filepath.Dir(folder))
		if err != nil {
			return err
		}
		defer func() {
			if late := own.end(); late != nil {
				err = late
			}
		}()
		s.box, ended = own.client, own.ended
		d.home = own.home
	}
	saved, err := watchFolder(s.ctx, folder)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	s.ctx = ctx
	head, err := d.head()
	if err != nil {
		return err
	}
	if err := d.load(); err != nil {
		return err
	}
	following := make(chan error, 2)
	go func() {
		following <- s.follow(head, "", func(ev line) (bool, error) { return false, d.show(ev) })
	}()
	go func() { following <- d.printed() }()
	for {
		select {
		case err := <-saved:
			if err != nil {
				return err
			}
			if err := d.load(); err != nil {
				return err
			}
		case how := <-ended:
			return fmt.Errorf("the box ended by itself: %w", how)
		case err := <-following:
			return err
		case <-ctx.Done():
			<-following
			<-following
			return ctx.Err()
		}
	}
}

// dev is one run of it.
type dev struct {
	*session
	name string
	home string // of its own box, "" for one that runs anyway
	base string // the box's address

	out    sync.Mutex // one line at a time
	loaded bool       // guarded by out
}

// head is the number of the log's last line; the box's address comes with it.
func (d *dev) head() (int64, error) {
	var b boxAnswer
	_, err := d.get("/api/box", nil, &b)
	d.base = b.URL
	if d.box.sock == "" {
		d.base = d.box.base // BOX_URL knows of a relay with TLS or a path, which the box doesn't
	}
	return b.LogHead.Seq, err
}

// load has the box read the app anew. An app that it refuses is no error here: the
// next save may mend it.
func (d *dev) load() error {
	began := time.Now()
	a, _, err := d.switchTo(d.name, true)
	took := time.Since(began).Milliseconds()
	var said *refusal
	switch {
	case errors.As(err, &said):
		return d.say("%s", said.sentence)
	case err != nil:
		return err
	}
	d.out.Lock()
	first := !d.loaded
	d.loaded = true
	d.out.Unlock()
	if !first {
		return d.say("%s is read anew, in %d ms", d.name, took)
	}
	if err := d.say("%s is on, in %d ms", d.name, took); err != nil {
		return err
	}
	return d.welcome(a)
}

// welcome says where the app's pages are and what it still needs.
func (d *dev) welcome(a appAnswer) error {
	if err := d.say("the box is at %s, and the webhooks of %s, if it has any, at %[1]s/hook/%[2]s/<name>", d.base, d.name); err != nil {
		return err
	}
	for _, p := range a.Apps {
		var w struct{ Token string }
		if _, err := d.ask(http.MethodPost, "/api/apps/"+url.PathEscape(d.name)+"/window", nil, nil, &w); err != nil {
			return err
		}
		if err := d.say("%s: %s/t/%s%s?access_token=%s", p.Title, d.base, d.name, p.Href, w.Token); err != nil {
			return err
		}
	}
	command := "box"
	if d.home != "" {
		command = "BOX_HOME=" + d.home + " box"
		if err := d.say("%s task new, and every other command, talks to this box", command); err != nil {
			return err
		}
	}
	for _, key := range a.missing() {
		if err := d.say("%s is not set: %s vault set %s", key, command, key); err != nil {
			return err
		}
	}
	return nil
}

// printed shows what the app prints, until the context ends.
func (d *dev) printed() error {
	res, err := d.box.send(d.ctx, http.MethodGet, "/api/apps/"+url.PathEscape(d.name)+"/output", url.Values{"follow": {"1"}}, "", nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	lines := bufio.NewReaderSize(res.Body, 64<<10)
	for {
		text, err := lines.ReadString('\n')
		if text != "" {
			if err := d.say("%s prints: %s", d.name, strings.TrimRight(text, "\n")); err != nil {
				return err
			}
		}
		switch {
		case d.ctx.Err() != nil:
			return d.ctx.Err()
		case err != nil:
			<-d.ctx.Done() // the box ends, which is told elsewhere
			return d.ctx.Err()
		}
	}
}

func (d *dev) say(format string, args ...any) error {
	if d.json {
		return nil // the log's lines alone
	}
	d.out.Lock()
	defer d.out.Unlock()
	_, err := fmt.Fprintln(d.Out, visible(fmt.Sprintf(format, args...)))
	return err
}

func (d *dev) show(ev line) error {
	d.out.Lock()
	defer d.out.Unlock()
	return d.showLine(ev)
}
