package api

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/net/netutil"

	"gurtos/core/actionlog"
	"gurtos/core/app"
	"gurtos/core/approval"
	"gurtos/core/budget"
	"gurtos/core/device"
	"gurtos/core/permission"
	"gurtos/core/settings"
	"gurtos/core/task"
	"gurtos/core/vault"
	windows "gurtos/core/window"
	"gurtos/core/workspace"
	"gurtos/netpolicy"
	"gurtos/sandbox/layers"
)

// Tasks is what the API asks of core/task.
type Tasks interface {
	Create(ctx context.Context, body []byte, from task.Caller) (task.Task, error)
	Get(ctx context.Context, id string) (task.Task, error)
	Each(ctx context.Context, f task.Filter, fn func(task.Task) error) error // few in memory at a time
	Stop(ctx context.Context, id, by string) (task.Task, error)
	Undo(ctx context.Context, id, by string) (task.Task, error)
	Pause(ctx context.Context, paused bool, by string) error
	Standstill() string // why no agent works, "" when they do
	EachApproval(ctx context.Context, state approval.State, from int, fn func(approval.Approval) error) error
	Approval(ctx context.Context, id string) (approval.Approval, error)
	Answer(ctx context.Context, id string, approved bool, by, reason string) (approval.Approval, error)
	Note(ctx context.Context, what string, data map[string]any, task string) error
	Noted(ctx context.Context) (task.Noted, error) // what the log says of the box's files
	Rights(ctx context.Context, app string) (permission.Rights, error)
	AllRights(ctx context.Context) (map[string]permission.Rights, error)
	SetRights(ctx context.Context, app string, body []byte, by string) (permission.Rights, error)
	Uses(ctx context.Context) (permission.Uses, error)
	Used(ctx context.Context, app, item string) error
	Spend(ctx context.Context, from, to string) ([]budget.Sum, error)
	Counts(ctx context.Context) (map[task.State]int, error)

	Tree(ctx context.Context, workspace string) (*layers.Tree, error) // the workspace and every done task
	PutFiles(ctx context.Context, workspace string, fill func(*layers.Writer) error, by string) (task.Task, error)
	DeleteFile(ctx context.Context, workspace, path, by string) (task.Task, error)
	UndoPreview(ctx context.Context, id string, fn func(task.UndoPath) error) error
	Reach(ctx context.Context, id, host string) (netpolicy.Explanation, error)
	EachChange(ctx context.Context, id string, fn func(task.Change) error) error
	Diff(ctx context.Context, id, path string) (string, error)
}

// Log is what the API reads of the action log.
type Log interface {
	Read(ctx context.Context, after int64, fn actionlog.Reader) error
	Follow(ctx context.Context, after int64, fn actionlog.Reader) error
	Head() (seq int64, hash string)
}

// Options are what a Server is made of.
type Options struct {
	Tasks      Tasks
	Events     Log
	Settings   *settings.Settings
	Devices    *device.Devices
	Vault      *vault.Vault
	Workspaces *workspace.Workspaces
	Apps       Apps
	Kit        fs.FS        // what pages of apps are lent at /kit/
	Broken     func() error // why the action log takes nothing any more; nil while it does
	Log        *slog.Logger

	Version      string
	Edition      string
	Slot         string      // system slot that runs, "" elsewhere than on a box
	Weaker       []string    // sentences about what this machine can't hold
	Home         string      // BOX_HOME, whose disk is shown
	Synced       func() bool // whether a time server was heard, besides what the kernel says; nil for never
	Port         int         // on loopback
	LANPort      int         // on the uplinks, 0 for none
	KioskUID     int         // user of the box's screen, 0 for none
	RootIsScreen bool        // root's loopback connections count as the screen: not on a box
}

// Limits of connections. A header must come within headerTime, a body or an
// answer must go on at slowest bytes a second after a grace.
const (
	headerTime = 10 * time.Second
	idleTime   = 2 * time.Minute
	grace      = 30 * time.Second
	slowest    = 16 << 10
	maxHeader  = 64 << 10
	drain      = 64 << 20 // bytes of a body that is too large
	maxConns   = 1024     // on each uplink listener
	endTime    = 5 * time.Second
)

// Server answers the API's requests.
type Server struct {
	opt     Options
	routes  *routes
	addrs   addrs
	own     func(inode uint32) bool // whether boxd itself holds a socket
	started time.Time
	counts  counts
	gauges  func() []Gauge // of the machine, for metrics; nil for none
	windows *windows.Windows[caller]
	kit     map[string]kitFile // by name
	script  string             // that is put first into pages of apps
	refused refusals
	ending  chan struct{} // closed when Serve ends: streams end with it

	document func() ([]byte, error) // the OpenAPI document, made once
}

// New makes a Server.
func New(o Options) *Server {
	s := &Server{opt: o, own: ownSocket, started: time.Now(), ending: make(chan struct{})}
	if o.Apps == nil {
		s.opt.Apps = &app.Registry{} // a box without apps
	}
	s.routes = newRoutes(Routes)
	s.windows = windows.New(func(c caller) <-chan struct{} { return c.gone })
	s.kit = readKit(o.Kit)
	s.script = scriptTag(s.kit)
	s.document = sync.OnceValues(func() ([]byte, error) { return json.MarshalIndent(openAPIDoc(Routes), "", " ") })
	s.opt.Log = o.Log.With("part", "api")
	return s
}

// lanConn marks a connection from an uplink.
type lanConn struct{ net.Conn }

type lanListener struct{ net.Listener }

func (l lanListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &lanConn{c}, nil
}

// Serve answers on local listeners (loopback, the box's socket) and lan ones
// until ctx ends, and returns when the last request has.
func (s *Server) Serve(ctx context.Context, local, lan []net.Listener) error {
	srv := &http.Server{
		Handler:           s,
		ConnContext:       s.connected,
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(s.opt.Log.Handler(), slog.LevelDebug),
	}
	var wg sync.WaitGroup
	ended := make(chan error, len(local)+len(lan))
	start := func(l net.Listener) {
		wg.Go(func() { ended <- srv.Serve(l) })
	}
	for _, l := range local {
		start(l)
	}
	for _, l := range lan {
		start(lanListener{netutil.LimitListener(l, maxConns)})
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-ended:
	}
	close(s.ending)
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	if srv.Shutdown(late) != nil {
		srv.Close()
	}
	wg.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return err
}

// call is one request on its way through a handler.
type call struct {
	w        *writer
	r        *http.Request
	caller   caller
	route    *Route
	inQuery  string // the token that came in the address, "" for none
	app      app.Info
	appRoute app.Route
}

// ServeHTTP takes a request through guard, caller, route, right and handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{w: newWriter(w), r: r, route: noRoute}
	c.w.Header().Set("X-Content-Type-Options", "nosniff")
	c.w.Header().Set("Referrer-Policy", "no-referrer")
	if foreign(r.URL.Path) {
		c.w.Header().Set("Content-Security-Policy", sandboxed)
		c.w.Header().Set("Vary", "Origin")
		c.share()
	}
	body := &body{ReadCloser: r.Body, rc: c.w.rc, began: time.Now()}
	r.Body = body
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler {
				panic(p)
			}
			s.opt.Log.Error("a handler panicked", "route", c.route.name(), "panic", p, "stack", string(debug.Stack()))
			s.fail(c, &Error{Status: http.StatusInternalServerError, Sentence: "something went wrong inside the box; its own log tells what"})
		}
		body.end()
		s.counts.add(c.route.name(), c.w.status)
	}()
	if err := s.serve(c); err != nil {
		s.fail(c, err)
	}
}

func (s *Server) serve(c *call) error {
	c.r.Header.Del("X-Box-Caller")
	path, found := s.routes.find(c.r)
	from, err := s.guard(c.r)
	if err != nil && !(found && path.open && !changes(c.r)) {
		return err
	}
	if !found {
		return notFound("the box has nothing at %s", shown(c.r.URL.Path))
	}
	route, err := path.method(c.r.Method)
	if err != nil {
		return err
	}
	if route == nil { // OPTIONS
		c.preflight(path.allow)
		return nil
	}
	c.route = route
	if c.caller, err = s.identify(c, from); err != nil {
		return err
	}
	if err := c.allowed(); err != nil {
		return err
	}
	if err := c.known(); err != nil {
		return err
	}
	if route.Gate != nil {
		if err := route.Gate(s, c); err != nil {
			return err
		}
	}
	if err := c.limit(); err != nil {
		return err
	}
	return c.route.Do(s, c)
}

// allowed holds the caller to the rights table.
func (c *call) allowed() error {
	who := c.route.Who
	switch kind := c.caller.kind; {
	case kind == window && who&window != 0 && who&c.caller.opener == 0: // narrowed, never more
	case who&kind != 0:
		return nil
	case kind == window:
		return errWindow
	case kind == none:
		return errNoToken
	}
	return refuse("%s is not paired as the owner, and only an owner's device or the box's own screen may do this", c.caller.name())
}

// limit holds the body to the route's limit: at once where its length is known.
func (c *call) limit() error {
	most := c.route.Body
	if most == 0 {
		most = smallBody
	}
	if c.caller.kind == none && c.route.Strangers != 0 {
		most = c.route.Strangers
	}
	if c.r.ContentLength > most {
		c.drain(c.r.Body)
		return &Error{Status: http.StatusRequestEntityTooLarge, Sentence: "the body is larger than " + size(most)}
	}
	c.r.Body = &limited{ReadCloser: c.r.Body, c: c, left: most, most: most}
	return nil
}

// counts is what /metrics tells of requests.
type counts struct {
	mu sync.Mutex
	by map[countKey]int64 // guarded by mu
}

type countKey struct {
	route  string
	status int
}

func (c *counts) add(route string, status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = map[countKey]int64{}
	}
	c.by[countKey{route, status}]++
}
