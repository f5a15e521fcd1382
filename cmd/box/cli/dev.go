package cli

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gurtos/cmd/box/check"
	"gurtos/core/app/declare"
	"gurtos/core/config"
)

func appDevFlags(f *flag.FlagSet) {
	f.Bool("running", false, "use the box that runs already, and not one of its own")
	f.String("home", "", "keep the box's data in this `folder`; else they are gone at the end")
}

const (
	startTime = time.Minute            // that a box may take to start
	endTime   = time.Minute            // and to end
	still     = 50 * time.Millisecond  // without a change, and a save is over
	noticed   = 200 * time.Millisecond // no change is told of later than this after the first
)

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

	out    sync.Mutex // one line at a time
	loaded bool       // guarded by out
}

// head is the number of the log's last line.
func (d *dev) head() (int64, error) {
	var b boxAnswer
	_, err := d.get("/api/box", nil, &b)
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
	for _, p := range a.Apps {
		var w struct{ Token string }
		if _, err := d.ask(http.MethodPost, "/api/apps/"+url.PathEscape(d.name)+"/window", nil, nil, &w); err != nil {
			return err
		}
		base := d.box.base
		if d.box.port != 0 {
			base = "http://127.0.0.1:" + strconv.Itoa(d.box.port)
		}
		if err := d.say("%s: %s/t/%s%s?access_token=%s", p.Title, base, d.name, p.Href, w.Token); err != nil {
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

// ownBox is a boxd that runs for as long as this does.
type ownBox struct {
	client *client
	cmd    *exec.Cmd
	ended  chan error // how it ended
	over   chan struct{}
	home   string
	keep   bool
}

// startBox starts the boxd that lies beside this program, with a home of its own.
func startBox(s *session, tracks string) (*ownBox, error) {
	conf, err := config.Read()
	if err != nil {
		return nil, err
	}
	program := filepath.Join(conf.Tools, "boxd")
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("there is no %s: run make build in the source tree", program)
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("a box needs root for its sandboxes: run this as root, or start one (make dev) and give --running")
	}
	b := &ownBox{home: s.value("home"), keep: s.given("home"), ended: make(chan error, 1), over: make(chan struct{})}
	if b.keep {
		if b.home, err = filepath.Abs(b.home); err == nil {
			err = os.MkdirAll(b.home, 0o700)
		}
	} else {
		b.home, err = os.MkdirTemp("/tmp", "box") // a task's socket beneath it has at most 107 bytes
	}
	if err != nil {
		return nil, fmt.Errorf("making a home for the box: %w", err)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	b.cmd = exec.Command(program)
	b.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "BOX_") && !strings.HasPrefix(v, "BOX_TASKS_ROOT=") && !strings.HasPrefix(v, "BOX_MODEL=")
	}), "BOX_HOME="+b.home, "BOX_PORT="+strconv.Itoa(port), "BOX_LAN=off", "BOX_TRACKS="+tracks)
	// Ctrl-C on a terminal goes to both: the box is ended in order by this program.
	b.cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	b.cmd.Stderr = &boxdLines{to: s.Err}
	if err := b.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the box: %w", err), b.remove())
	}
	ready := make(chan bool, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "ready ") {
				ready <- true
			}
		}
		b.ended <- ending(b.cmd.Wait())
		close(b.over)
	}()
	late := time.NewTimer(startTime)
	defer late.Stop()
	select {
	case <-ready:
	case how := <-b.ended:
		return nil, errors.Join(fmt.Errorf("the box ended before it was ready: %w", how), b.remove())
	case <-late.C:
		return nil, errors.Join(errors.New("the box is not ready after a minute"), b.end())
	case <-s.ctx.Done():
		return nil, errors.Join(s.ctx.Err(), b.end())
	}
	b.client = overSocket(b.home)
	b.client.port = port
	return b, nil
}

// ending is how a process ended, in words.
func ending(err error) error {
	if err == nil {
		return errors.New("exit code 0")
	}
	return err
}

// end ends it in order, and removes its home.
func (b *ownBox) end() error {
	b.cmd.Process.Signal(unix.SIGTERM) //nolint:errcheck // then it is gone
	late := time.NewTimer(endTime)
	defer late.Stop()
	select {
	case <-b.over:
	case <-late.C:
		b.cmd.Process.Kill() //nolint:errcheck // then it is gone
		<-b.over
		return fmt.Errorf("the box did not end within a minute and was killed; its data are in %s", b.home)
	}
	return b.remove()
}

// remove deletes the home, never through something that is still mounted in it.
func (b *ownBox) remove() error {
	if b.keep {
		return nil
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for l := range strings.Lines(string(mounts)) {
		if f := strings.Fields(l); len(f) > 4 && strings.HasPrefix(f[4]+"/", b.home+"/") {
			return fmt.Errorf("%s stays: something is mounted in it", b.home)
		}
	}
	return os.RemoveAll(b.home)
}

// boxdLines passes on what boxd says, without what would steer the terminal.
type boxdLines struct {
	to   io.Writer
	rest []byte
}

// Write passes whole lines on.
func (l *boxdLines) Write(p []byte) (int, error) {
	l.rest = append(l.rest, p...)
	for {
		i := slices.Index(l.rest, '\n')
		if i < 0 {
			return len(p), nil
		}
		if text := string(l.rest[:i]); !strings.Contains(text, "level=INFO") && !strings.Contains(text, "an app can't be used") { // the answer says that, too
			fmt.Fprintln(l.to, "boxd:", visible(text))
		}
		l.rest = l.rest[i+1:]
	}
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("finding a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// watchFolder tells once after each save of files below a folder. What editors do (a
// new file moved over the old one, several writes) is one save.
func watchFolder(ctx context.Context, folder string) (<-chan error, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", folder, err)
	}
	f := os.NewFile(uintptr(fd), "inotify")
	w := &folderWatch{fd: fd, dirs: map[int32]string{}}
	if err := w.add(folder); err != nil {
		f.Close()
		return nil, fmt.Errorf("watching %s: %w", folder, err)
	}
	out := make(chan error)
	context.AfterFunc(ctx, func() { f.Close() })
	changed := make(chan error)
	go func() {
		buf := make([]byte, 64<<10)
		for {
			n, err := f.Read(buf)
			if err != nil {
				close(changed)
				return
			}
			if hit, err := w.take(buf[:n]); hit || err != nil {
				select {
				case changed <- err:
				case <-ctx.Done():
				}
			}
		}
	}()
	go func() {
		rest := time.NewTimer(time.Hour)
		rest.Stop()
		var first time.Time
		for {
			select {
			case err, ok := <-changed:
				if !ok {
					return
				}
				if err != nil {
					select {
					case out <- err:
					case <-ctx.Done():
					}
					return
				}
				if first.IsZero() {
					first = time.Now()
				}
				rest.Reset(max(min(still, noticed-time.Since(first)), 0))
			case <-rest.C:
				first = time.Time{}
				select {
				case out <- nil:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return out, nil
}

// folderWatch is the folders below one, by inotify's numbers.
type folderWatch struct {
	fd   int
	dirs map[int32]string
}

const watched = unix.IN_CLOSE_WRITE | unix.IN_MOVED_TO | unix.IN_MOVED_FROM | unix.IN_CREATE | unix.IN_DELETE | unix.IN_ONLYDIR

// add watches a folder and those below it.
func (w *folderWatch) add(dir string) error {
	return filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		switch {
		case errors.Is(err, os.ErrNotExist):
			return nil // gone again
		case err != nil:
			return err
		case !d.IsDir():
			return nil
		case path != dir && ignored(d.Name()):
			return filepath.SkipDir
		}
		wd, err := unix.InotifyAddWatch(w.fd, path, watched)
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		if err != nil {
			return err
		}
		w.dirs[int32(wd)] = path
		return nil
	})
}

// ignored are files that are none of the app's: hidden ones, packages, what editors
// leave.
func ignored(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~") || name == "node_modules" || name == "4913" // vim tries with it whether it may write
}

// take reads events and says whether a file of the app changed.
func (w *folderWatch) take(buf []byte) (hit bool, err error) {
	for len(buf) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(buf[0:]))
		mask, size := binary.NativeEndian.Uint32(buf[4:]), binary.NativeEndian.Uint32(buf[12:])
		name := strings.TrimRight(string(buf[unix.SizeofInotifyEvent:unix.SizeofInotifyEvent+size]), "\x00")
		buf = buf[unix.SizeofInotifyEvent+size:]
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			hit = true
		case mask&unix.IN_IGNORED != 0:
			delete(w.dirs, wd)
		case ignored(name):
		case mask&unix.IN_ISDIR != 0 && mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
			hit = true // files may be in it already
			err = errors.Join(err, w.add(filepath.Join(w.dirs[wd], name)))
		case mask&unix.IN_CREATE != 0 && mask&unix.IN_ISDIR == 0: // its end is told by CLOSE_WRITE
		default:
			hit = true
		}
	}
	return hit, err
}
