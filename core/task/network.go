package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"gurtos/core/actionlog"
	"gurtos/netpolicy"
	"gurtos/sandbox"
)

// Network makes the network of a task.
type Network interface {
	Attach(ns sandbox.Namespace, p netpolicy.Policy) (Space, error)
}

// NetworkFunc is a Network made of its one function.
type NetworkFunc func(ns sandbox.Namespace, p netpolicy.Policy) (Space, error)

// Attach calls f.
func (f NetworkFunc) Attach(ns sandbox.Namespace, p netpolicy.Policy) (Space, error) {
	return f(ns, p)
}

// Space is one task's network.
type Space interface {
	SetHosts(hosts []string) error
	Stats() []netpolicy.HostStat
	Close() error
}

// noteNetwork is logged at a run's end where the task reached anyone:
// {hosts: [{host, sent, received, conns}]}.
const noteNetwork = "network"

// maxUnresolved bounds the names that a run is told of: below a wildcard a task can
// ask for any number.
const maxUnresolved = 50

// megabyte is what the setting uploadAskMB counts in.
const megabyte = 1_000_000

// wire is the network of one run, and what it has to tell the log.
type wire struct {
	q     *queue
	id    string
	space Space

	tell sync.WaitGroup // lines on their way to the log

	mu     sync.Mutex
	failed map[string]bool // names that could not be resolved, told once each
	told   map[string]bool // sentences that a run is told once
}

// wire gives a task its network in the namespace of its sandbox.
func (q *queue) wire(t Task, ns sandbox.Namespace) (*wire, error) {
	w := &wire{q: q, id: t.ID, failed: map[string]bool{}, told: map[string]bool{}}
	p := q.policy(t)
	p.Blocked, p.Limited, p.Failed = w.blocked, w.limited, w.noName
	if mb := q.opt.Settings.Values().UploadAskMB; mb > 0 {
		p.UploadLimit = mb * megabyte
		p.Upload = func(ctx context.Context, host string) bool {
			yes, err := q.AllowUpload(ctx, t.ID, host, mb)
			return err == nil && yes
		}
	}
	if k := q.opt.Workers[t.Worker].Key; k != nil {
		w.swap(&p, k, q.opt.Authority)
	}
	var err error
	if w.space, err = q.opt.Network.Attach(ns, p); err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	return w, nil
}

// policy is what a task may reach now. Whom its network tells, and the keys that are put
// in there, are for the run to add.
func (t *Tasks) policy(k Task) netpolicy.Policy {
	p := netpolicy.Policy{Hosts: t.hostsOf(k), Names: filepath.Join(t.dir(k.ID), "names")}
	if key := t.opt.Workers[k.Worker].Key; key != nil {
		p.More = key.rules()
	}
	return p
}

// Reach says whether a task may reach a host, host:port or host alone for port 443, and
// why, as its network decides now: with what its worker brings, and without what the owner
// turned off. A host that is none is an *Invalid.
func (t *Tasks) Reach(ctx context.Context, id, host string) (netpolicy.Explanation, error) {
	k, err := t.Get(ctx, id)
	if err != nil {
		return netpolicy.Explanation{}, err
	}
	p := t.policy(k)
	e, err := p.Explain(ctx, host)
	if no, wrong := errors.AsType[*netpolicy.NoHost](err); wrong {
		return e, &Invalid{"host", no.Error()}
	}
	if err != nil {
		return e, err
	}
	if e.Rule != "" || len(p.Hosts) == len(k.Hosts) {
		return e, nil
	}
	p.Hosts = k.Hosts
	if whole, err := p.Explain(ctx, host); err == nil && whole.Rule != "" {
		e.Why = fmt.Sprintf("The rule %s is turned off for the agents of %s, in Settings, Permissions.", whole.Rule, t.opt.Tools.Title(k.App))
	}
	return e, nil
}

// hostsOf are the rules of a task without those that the owner has turned off for
// its app since it was made.
func (t *Tasks) hostsOf(k Task) []string {
	if k.App == "" {
		return k.Hosts
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.fold.allowedHosts(k)
}

func (f *fold) allowedHosts(k Task) []string {
	if k.App == "" {
		return k.Hosts
	}
	r := f.Rights[k.App]
	return slices.DeleteFunc(slices.Clone(k.Hosts), func(h string) bool { return !r.Allowed("host:" + h) })
}

// rewire holds the running tasks of an app to what the owner now allows it.
func (t *Tasks) rewire(app string) {
	type change struct {
		space Space
		hosts []string
	}
	var all []change
	t.mu.Lock()
	for id, r := range t.live {
		if e := t.fold.Tasks[id]; e != nil && e.App == app && r.wire != nil {
			all = append(all, change{r.wire.space, t.fold.allowedHosts(e.Task)})
		}
	}
	t.mu.Unlock()
	for _, c := range all {
		if err := c.space.SetHosts(c.hosts); err != nil {
			t.opt.Slog.Error("a task's hosts could not be changed", "app", app, "why", err)
		}
	}
}

// blocked logs a refused try. It is called with the network's own lock held, so the
// wait for the disk is done elsewhere.
func (w *wire) blocked(hostport string, count int) {
	w.tell.Go(func() {
		w.said(w.q.Blocked(context.Background(), w.id, strings.ToValidUTF8(hostport, "\uFFFD"), count))
	})
}

// limited logs that the task came to a limit of its network.
func (w *wire) limited(l netpolicy.Limit, host string) {
	w.tell.Go(func() {
		w.said(w.q.ToolStep(context.Background(), w.id, l.Sentence(strings.ToValidUTF8(host, "\uFFFD")), nil))
	})
}

// noName logs, once for each name, that a name which the task may reach does not
// resolve.
func (w *wire) noName(name string, why error) {
	w.mu.Lock()
	told := w.failed[name] || len(w.failed) >= maxUnresolved
	if !told {
		w.failed[name] = true
	}
	w.mu.Unlock()
	if told {
		return
	}
	w.tell.Go(func() {
		text := fmt.Sprintf("The name %s could not be resolved: %v.", name, why)
		err := w.q.ToolStep(context.Background(), w.id, text, nil)
		w.said(err)
	})
}

func (w *wire) said(err error) {
	if err != nil {
		w.q.opt.Slog.Log(context.Background(), slog.LevelWarn, "what a task's network has to tell was not logged", "task", w.id, "why", err)
	}
}

// connect gives a run its network.
func (q *queue) connect(r *run, t Task, ns sandbox.Namespace) error {
	w, err := q.wire(t, ns)
	if err != nil {
		return err
	}
	q.mu.Lock()
	r.wire = w
	q.mu.Unlock()
	return nil
}

// disconnect takes a run's network away once nothing lives in it.
func (q *queue) disconnect(r *run) {
	q.mu.Lock()
	w := r.wire
	r.wire = nil
	q.mu.Unlock()
	if w != nil {
		w.close()
	}
}

// close ends the network once nothing lives in it, and logs whom it reached.
func (w *wire) close() {
	stats := w.space.Stats()
	if err := w.space.Close(); err != nil {
		w.q.opt.Slog.Error("a task's network was not closed cleanly", "task", w.id, "why", err)
	}
	w.tell.Wait()
	if len(stats) == 0 {
		return
	}
	slices.SortFunc(stats, func(a, b netpolicy.HostStat) int { return strings.Compare(a.Host, b.Host) })
	w.said(w.q.commit(context.Background(), func(*fold) ([]actionlog.Event, error) {
		return []actionlog.Event{mustNote(noteNetwork, map[string]any{"hosts": stats}, w.id)}, nil
	}))
}
