package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gurtos/netpolicy"
	"gurtos/sandbox/layers"
)

// app is one app, on or off.
type app struct {
	r       *Registry
	name    string
	printed *ring

	reading chan struct{} // closed once it was first read; nil when it is not being read
	turning sync.Mutex    // one change of it at a time

	// guarded by Registry.mu
	wanted  bool     // the owner's switch
	up      bool     // it is on: its parts may be called
	err     string   // why it can't be used, or what went wrong last
	build   *build   // as it was last read
	life    *life    // of the time that it is up
	lingers *host    // with a trigger that can't be stopped, though the app is off
	reached []string // host:port
	full    int      // how often it was ended for its disk and had not tidied up since

	spend *bucket // what it may write into the log
	made  made
}

// life is the time between an app's turning on and off.
type life struct {
	ctx  context.Context
	end  context.CancelCauseFunc
	work sync.WaitGroup // readers, and who keeps it running

	// guarded by Registry.mu
	host     *host     // that runs, or ended last
	starting *starting // a host on its way
	fails    int       // hosts that ended by themselves, one after the other
	next     time.Time // when the next one may start
	kept     bool      // somebody keeps it running
}

// starting is a host that is being started.
type starting struct {
	done chan struct{}
	host *host
	err  error
}

// Of a process that ends by itself: after which time the next one is started, doubled
// each time up to mostWait, and how long one has to run to be a good one.
const (
	firstWait = time.Second
	mostWait  = time.Minute
	goodRun   = time.Minute
)

func newApp(r *Registry, name string) *app {
	return &app{r: r, name: name, printed: &ring{}, spend: newBucket()}
}

// failed keeps why the app can't be used; r.mu is held.
func (a *app) failed(err error) {
	text := a.r.opt.Vault.Redact(strings.ToValidUTF8(err.Error(), "\uFFFD"))
	if !strings.HasPrefix(text, a.name+":") {
		text = a.name + ": " + text
	}
	a.err = text
	a.r.opt.Slog.Warn("an app can't be used", "app", a.name, "why", text)
}

// trouble keeps what went wrong in a running app, and has it in the log.
func (a *app) trouble(format string, args ...any) {
	text := a.r.opt.Vault.Redact(strings.ToValidUTF8(a.name+": "+fmt.Sprintf(format, args...), "\uFFFD"))
	a.r.mu.Lock()
	same := a.err == text
	a.err = text
	a.r.mu.Unlock()
	if same || a.spend.take(len(text)+200) != nil {
		return // it is in the log already, or would fill it
	}
	if err := a.r.opt.Tasks.Note(context.Background(), NoteError, map[string]any{"app": a.name, "error": text}, ""); err != nil {
		a.r.opt.Slog.Error("what went wrong in an app was not noted", "app", a.name, "what", text, "why", err)
	}
}

// use puts a build in use; r.mu is held.
func (a *app) use(b *build) {
	a.build, a.up = b, true
	a.life = &life{}
	a.life.ctx, a.life.end = context.WithCancelCause(a.r.ctx)
	a.wake()
}

// wake starts what runs by itself; r.mu is held.
func (a *app) wake() {
	if !a.r.running || !a.up || a.life.kept || !a.build.made.Resident() {
		return
	}
	l := a.life
	l.kept = true
	l.work.Go(func() { a.keep(l) })
	for _, name := range a.build.made.Readers {
		l.work.Go(func() { a.feed(l, name) })
	}
}

// end says that nothing of it is called any more; r.mu is held.
func (a *app) end(why error) {
	a.up = false
	a.life.end(why)
}

// hosts are its processes; r.mu is held.
func (a *app) hosts() []*host {
	var all []*host
	if a.life != nil && a.life.host != nil {
		all = append(all, a.life.host)
	}
	if a.lingers != nil {
		all = append(all, a.lingers)
	}
	return all
}

// retire ends what is in use, its process too, unless that has a trigger which can't be
// stopped: then it stays, until anew says that the app is needed. turning is held.
func (a *app) retire(why error, anew bool) error {
	r := a.r
	r.mu.Lock()
	left := a.lingers
	l, up := a.life, a.up
	if up {
		a.end(why)
	}
	r.mu.Unlock()
	if left != nil && anew {
		left.stop()
		r.mu.Lock()
		a.lingers = nil
		r.mu.Unlock()
	}
	if !up {
		return nil
	}
	l.work.Wait()
	r.mu.Lock()
	coming := l.starting
	r.mu.Unlock()
	if coming != nil {
		<-coming.done
	}
	r.mu.Lock()
	h := l.host
	r.mu.Unlock()
	if h == nil || h.over() {
		return nil
	}
	if stays := h.stopTriggers(); !stays || anew {
		h.stop()
		return nil
	}
	h.hush()
	r.mu.Lock()
	a.lingers = h
	r.mu.Unlock()
	return nil
}

// keep keeps the app's process running until its life ends.
func (a *app) keep(l *life) {
	for l.ctx.Err() == nil {
		h, err := a.ready(l.ctx)
		if err != nil {
			continue // the next try waits by itself
		}
		select {
		case <-h.p.done:
		case <-l.ctx.Done():
		}
	}
}

// errOff says that the app was turned off meanwhile.
var errOff = errors.New("the app is off")

// ready gives the app's process, and starts one where there is none. After a process
// that ended by itself that takes a while.
func (a *app) ready(ctx context.Context) (*host, error) {
	r := a.r
	r.mu.Lock()
	if !a.up {
		r.mu.Unlock()
		return nil, errOff
	}
	l := a.life
	if h := l.host; h != nil && !h.over() {
		r.mu.Unlock()
		return h, nil
	}
	s := l.starting
	if s == nil {
		s = &starting{done: make(chan struct{})}
		l.starting = s
		b, last := a.build, l.host
		r.work.Go(func() { a.launch(l, s, b, last) })
	}
	r.mu.Unlock()
	select {
	case <-s.done:
		return s.host, s.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// soon says whether ready gives an answer without a long wait; else why not.
func (a *app) soon() error {
	a.r.mu.Lock()
	defer a.r.mu.Unlock()
	if !a.up {
		return errOff
	}
	if h := a.life.host; h != nil && !h.over() {
		return nil
	}
	if wait := time.Until(a.life.next); wait > 2*firstWait {
		return fmt.Errorf("%s. It starts again in %d seconds", strings.TrimSuffix(a.err, "."), int(wait.Seconds())+1)
	}
	return nil
}

// launch starts a host for whoever waits for it, once what is to be learnt from the end
// of the last one is known.
func (a *app) launch(l *life, s *starting, b *build, last *host) {
	r := a.r
	if last != nil {
		<-last.buried
	}
	r.mu.Lock()
	next := l.next
	r.mu.Unlock()
	var h *host
	err := sleep(l.ctx, time.Until(next))
	if err == nil {
		h, err = r.launch(l.ctx, a, b)
	}
	if err == nil && l.ctx.Err() != nil {
		h.stop()
		h.wait() // nobody buries it
		err = context.Cause(l.ctx)
	}
	r.mu.Lock()
	l.starting = nil
	if err == nil {
		l.host = h
		r.work.Go(func() { a.bury(l, h) })
	} else if l.ctx.Err() == nil {
		a.failing(l)
	}
	s.host, s.err = h, err
	r.mu.Unlock()
	if err == nil && r.opt.Network != nil {
		// The owner may have changed what it may reach while it was loaded.
		if err := r.Heed(l.ctx, a.name); err != nil && l.ctx.Err() == nil {
			a.trouble("what it may reach could not be set: %v", err)
		}
	}
	if err != nil && l.ctx.Err() == nil {
		a.trouble("%v", err)
	}
	close(s.done)
}

// failing counts a process that didn't last; r.mu is held.
func (a *app) failing(l *life) {
	l.next = time.Now().Add(min(firstWait<<min(l.fails, 10), mostWait))
	l.fails++
}

// bury waits for a host's end and says what came of it.
func (a *app) bury(l *life, h *host) {
	defer close(h.buried)
	h.wait()
	a.r.mu.Lock()
	asked := l.ctx.Err() != nil || h.stopped()
	if time.Since(h.born) > goodRun {
		l.fails = 0
	}
	if !asked {
		a.failing(l)
	}
	if h.p.exit.Disk {
		a.full = min(a.full+1, maxTidy)
	}
	if a.lingers == h {
		a.lingers = nil
	}
	a.r.mu.Unlock()
	if !asked {
		a.trouble("%s", h.why())
	}
}

// tidied sees whether an app that had filled its disk has room again.
func (a *app) tidied() {
	a.r.mu.Lock()
	full := a.full
	a.r.mu.Unlock()
	if full == 0 {
		return
	}
	var used int64
	for _, layer := range []string{"store", "home"} {
		bytes, _, err := layers.Measure(filepath.Join(a.r.dir(), a.name, layer))
		if err != nil {
			return
		}
		used += bytes
	}
	if used < disk/10*9 {
		a.r.mu.Lock()
		a.full = 0
		a.r.mu.Unlock()
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// maxReached is how many hosts are told of that an app reached.
const maxReached = 200

// reach is told of a host that the app's process reached.
func (a *app) reach(hostport string) {
	a.r.mu.Lock()
	is := !slices.Contains(a.reached, hostport) && len(a.reached) < maxReached
	if is {
		a.reached = append(a.reached, hostport)
	}
	a.r.mu.Unlock()
	if is {
		a.note(NoteReached, map[string]any{"app": a.name, "host": strings.ToValidUTF8(hostport, "\uFFFD")})
	}
}

// blocked is told of a host that it may not reach.
func (a *app) blocked(hostport string, count int) {
	a.note(NoteBlocked, map[string]any{"app": a.name, "host": strings.ToValidUTF8(hostport, "\uFFFD"), "count": count})
}

// limited is told of a limit of its network that it came to.
func (a *app) limited(l netpolicy.Limit, host string) {
	a.note(NoteLimited, map[string]any{"app": a.name, "limit": l.Sentence(strings.ToValidUTF8(host, "\uFFFD"))})
}

// note has the log tell of the app's network, which calls this, and waits for nothing.
// The network ends before the one who waits for the process does.
func (a *app) note(what string, data map[string]any) {
	a.r.work.Go(func() {
		if err := a.r.opt.Tasks.Note(context.Background(), what, data, ""); err != nil {
			a.r.opt.Slog.Warn("what an app's network has to tell was not noted", "app", a.name, "why", err)
		}
	})
}

// reachedHosts are those, by name; r.mu is held.
func (a *app) reachedHosts() []string {
	set := map[string]bool{}
	for _, h := range a.reached {
		set[h] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// bucket holds an app to so many bytes of log: all lines are kept for good, and their
// index in memory.
type bucket struct {
	mu   sync.Mutex
	left float64
	at   time.Time
}

// An app may write burst bytes into the log at once, and perSecond more each second.
const (
	burst     = 8 << 20
	perSecond = 2 << 10
)

func newBucket() *bucket { return &bucket{left: burst, at: time.Now()} }

// take books n bytes, unless they are too many.
func (b *bucket) take(n int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.left = min(burst, b.left+now.Sub(b.at).Seconds()*perSecond)
	b.at = now
	if float64(n) > b.left {
		return fmt.Errorf("this app has written %d MB to the action log in a short time: it may write again later", burst>>20)
	}
	b.left -= float64(n)
	return nil
}
