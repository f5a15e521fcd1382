package task

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gurtos/core/actionlog"
	"gurtos/netpolicy"
	"gurtos/sandbox"
	"gurtos/sandbox/layers"
)

// run is one sandbox of a task, from its slot to the end of all that lived in it.
type run struct {
	id     string
	layers []string // tasks whose layers it sees

	sandbox Sandbox // guarded by Tasks.mu; nil until it is started
	frozen  bool    // guarded by Tasks.mu; as it was told last
	unsure  bool    // guarded by Tasks.mu; that failed, wholly or not
	killed  bool    // guarded by Tasks.mu; nobody wants it any more
	wire    *wire   // guarded by Tasks.mu; its network while it has one

	ready chan struct{} // closed once sandbox is set, or never will be
	sync  shared        // of its layer
}

// work gives a task its sandbox, waits for the worker's end and says what came of it.
func (q *queue) work(r *run) {
	defer q.left(r)
	exit, limits, err := q.sandboxed(r)
	if q.ctx.Err() != nil {
		return // boxd ends: the task goes on after the next start
	}
	if err != nil {
		q.opt.Slog.Error("a task's sandbox could not be started", "task", r.id, "why", err)
		q.ended(r.id, Failed, fmt.Sprintf("The sandbox could not be started: %v.", err))
		return
	}
	q.finish(r.id, exit, limits)
}

// left frees what the run held once nothing of it lives.
func (q *queue) left(r *run) {
	q.mu.Lock()
	if r.sandbox == nil {
		close(r.ready)
	}
	delete(q.live, r.id)
	q.mu.Unlock()
	q.tidy()
	q.wake()
}

// sandboxed starts the sandbox and returns how it ended.
func (q *queue) sandboxed(r *run) (sandbox.Exit, sandbox.Limits, error) {
	none := sandbox.Limits{}
	// Get returns once the line that says running is on disk: nothing starts before.
	t, err := q.Get(q.ctx, r.id)
	if err != nil {
		return sandbox.Exit{}, none, err
	}
	if !t.State.Live() {
		return sandbox.Exit{}, none, nil // stopped or undone before it began
	}
	if q.opt.Layers.Sealed(q.layerDir(r.id)) {
		return sandbox.Exit{}, none, nil // it ended well, and boxd before it could say so
	}
	if err := q.folders(r.id); err != nil {
		return sandbox.Exit{}, none, err
	}
	if err := q.addContext(t); err != nil {
		return sandbox.Exit{}, none, err
	}
	spec, err := q.sandboxSpec(t)
	if err != nil {
		return sandbox.Exit{}, none, err
	}
	if q.opt.Network != nil {
		spec.Env = append(spec.Env, netpolicy.Env()...)
		spec.Network = func(ns sandbox.Namespace) error { return q.connect(r, t, ns) }
		defer q.disconnect(r)
	}
	socket := q.broker.Open(r.id)
	defer socket.Close()
	spec.Serve = socket.Serve
	sb, err := q.opt.Runner.Start(q.ctx, spec)
	if err != nil {
		return sandbox.Exit{}, none, err
	}
	q.started(r, sb)
	if err := socket.Listen(filepath.Join(q.dir(r.id), "broker.sock"), sb.UID()); err != nil {
		sb.Kill()
		sb.Wait()
		return sandbox.Exit{}, none, fmt.Errorf("broker socket: %w", err)
	}
	q.hold() // to what was decided meanwhile; last, since the kernel takes its time
	return sb.Wait(), spec.Limits, nil
}

// started makes the sandbox known, and ends it where that was decided meanwhile.
func (q *queue) started(r *run, sb Sandbox) {
	q.mu.Lock()
	r.sandbox = sb
	close(r.ready)
	defer q.mu.Unlock()
	switch {
	case r.killed:
		sb.Kill()
	case q.ctx.Err() != nil:
		q.letEnd(sb)
	}
}

// folders makes the task's folders where they are missing.
func (q *queue) folders(id string) error {
	dir := q.dir(id)
	// Only search permission for others: the task's own user may reach its socket.
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return err
	}
	for _, layer := range []string{q.layerDir(id), q.homeDir(id)} {
		if _, err := os.Lstat(layer); errors.Is(err, os.ErrNotExist) {
			if err := q.opt.Layers.Create(layer); err != nil {
				return fmt.Errorf("layer: %w", err)
			}
		}
	}
	return nil
}

// view is what a task's worker sees at its workspace. Layers that became part of the
// base meanwhile are seen there.
func (t *Tasks) view(e Task) layers.View {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := layers.View{Base: t.workspaceDir(e.Workspace), Layer: t.layerDir(e.ID)}
	for _, id := range e.Layers {
		if o := t.fold.Tasks[id]; o == nil || !o.Folded {
			v.Lowers = append(v.Lowers, t.layerDir(id))
		}
	}
	return v
}

func (q *queue) sandboxSpec(t Task) (sandbox.Spec, error) {
	w, ok := q.opt.Workers[t.Worker]
	if !ok || w.Absent {
		return sandbox.Spec{}, fmt.Errorf("worker: %s", absent(t.Worker))
	}
	env := []string{
		"PATH=/home/box/.local/bin:/usr/local/bin:/usr/bin:/bin", // first where npm and pip put programs that a task installs
		"HOME=/home/box", "USER=" + t.User, "LOGNAME=" + t.User, "LANG=C.UTF-8", "TERM=dumb",
		"BOX_SOCKET=/run/box/broker.sock", "BOX_TASK=" + t.ID,
		"ASAN_OPTIONS=detect_leaks=0", // the search for leaks traces its own threads, and without ptrace it fails every program that was built with it
	}
	if q.opt.Canary != nil {
		id, secret := q.opt.Canary.Keys(t.ID)
		env = append(env, "AWS_ACCESS_KEY_ID="+id, "AWS_SECRET_ACCESS_KEY="+secret)
	}
	spec := sandbox.Spec{
		ID: t.ID, User: t.User, Slot: sandbox.AnySlot, Work: q.view(t), Home: layers.View{Layer: q.homeDir(t.ID)},
		Args: w.Args, Env: append(env, w.Env...),
	}
	if w.Key != nil {
		spec.Env = append(spec.Env, w.Key.env()...)
		spec.Trust = q.opt.Authority.PEM()
	}
	if t.App != "" && t.Source == t.App {
		rights, err := q.Rights(q.ctx, t.App)
		if err != nil {
			return sandbox.Spec{}, err
		}
		spec.Limits.DiskBytes = rights.DiskCap()
	}
	return spec, nil
}

// finish seals what a worker that ended well leaves, and says how the task ended.
func (q *queue) finish(id string, exit sandbox.Exit, limits sandbox.Limits) {
	t, err := q.Get(context.Background(), id)
	if err != nil || !t.State.Live() {
		return
	}
	if why := failure(exit, limits); why != "" {
		if exit.Disk && t.App != "" && t.Source == t.App {
			q.overDisk(t)
			return
		}
		q.ended(id, Failed, why)
		return
	}
	if err := q.opt.Layers.Seal(context.Background(), q.view(t)); err != nil {
		q.opt.Slog.Error("a task's layer could not be sealed", "task", id, "why", err)
		q.ended(id, Failed, fmt.Sprintf("What the task changed could not be kept: %v.", err))
		return
	}
	q.ended(id, Done, "")
}

// overDisk undoes a task of an app that passed the disk cap that the owner set.
func (q *queue) overDisk(t Task) {
	text := fmt.Sprintf("%s wrote more than the disk cap of %s and was undone.", t.ID, q.opt.Tools.Title(t.App))
	if err := q.Note(context.Background(), noteAlert, map[string]any{"text": text}, t.ID); err != nil {
		return
	}
	_, err := q.Undo(context.Background(), t.ID, "disk cap")
	q.report(t.ID, err)
}

// ended writes the end of a task that its worker came to.
func (q *queue) ended(id string, to State, why string) {
	q.report(id, q.commit(context.Background(), func(f *fold) ([]actionlog.Event, error) {
		e := f.Tasks[id]
		if !e.State.Live() {
			return nil, nil // somebody ended it first
		}
		return q.end(e, to, why, byEnd), nil
	}))
}

func (q *queue) report(id string, err error) {
	if err != nil {
		q.opt.Slog.Error("a task's end was not written", "task", id, "why", err)
	}
}

// failure is why a worker that ended failed, as a sentence; "" when it did not. What
// the sandbox knows comes first, then the last line that the worker wrote.
func failure(x sandbox.Exit, l sandbox.Limits) string {
	if s := x.Sentence(l); s != "" || x.Code == 0 && x.Signal == nil && x.Start == nil {
		return s
	}
	if line := lastLine(x.Output); line != "" {
		return line
	}
	return fmt.Sprintf("The worker ended with exit code %d.", x.Code)
}

// errorLength is how many characters of a worker's own words become a task's error.
const errorLength = 1000

func lastLine(out string) string {
	lines := strings.Split(strings.TrimRight(strings.ToValidUTF8(out, "\uFFFD"), " \t\r\n"), "\n")
	return cut(strings.TrimSpace(lines[len(lines)-1]), errorLength)
}
