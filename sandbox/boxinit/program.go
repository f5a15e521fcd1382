package boxinit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/net/bpf"
)

// Program is what box-init is to run.
type Program struct {
	Filter   []bpf.RawInstruction // loaded before the program starts
	Args     []string             // an absolute path inside, and arguments
	Env      []string             // the whole environment
	Dir      string               // working folder
	Writable []string             // paths inside that may be written at all, for Landlock
	Files    []*os.File           // its descriptors from 3 on
}

// Send writes p as box-init reads it: sizes, strings, and a byte with the files.
func (p Program) Send(c *net.UnixConn) error {
	if len(p.Args) == 0 || len(p.Filter) == 0 {
		return errors.New("a program needs arguments and a filter")
	}
	var body []byte
	for _, in := range p.Filter {
		body = binary.NativeEndian.AppendUint16(body, in.Op)
		body = append(body, in.Jt, in.Jf)
		body = binary.NativeEndian.AppendUint32(body, in.K)
	}
	for _, list := range [][]string{p.Args, p.Env, p.Writable, {p.Dir}} {
		for _, s := range list {
			if strings.IndexByte(s, 0) >= 0 {
				return fmt.Errorf("%q has a zero byte", s)
			}
			body = append(append(body, s...), 0)
		}
	}
	var all []byte
	for _, n := range []int{len(body), len(p.Filter), len(p.Args), len(p.Env), len(p.Writable), len(p.Files)} {
		all = binary.NativeEndian.AppendUint32(all, uint32(n))
	}
	if _, err := c.Write(append(all, body...)); err != nil || len(p.Files) == 0 {
		return err
	}
	var fds []int
	for _, f := range p.Files {
		fds = append(fds, int(f.Fd()))
	}
	_, _, err := c.WriteMsgUnix([]byte{0}, syscall.UnixRights(fds...), nil)
	runtime.KeepAlive(p.Files)
	return err
}

// Kind says what a Report is about.
type Kind uint32

// The kinds of reports, as box-init.c numbers them.
const (
	Started  Kind = 1 + iota // the program runs
	Exited                   // it ended; Value is its exit code
	Signaled                 // a signal ended it; Value is the signal
	NotRun                   // it could not be run; Value is the errno of execve
	NotSetUp                 // box-init gave up before; Value is the step and the errno
)

// Report is one answer of box-init.
type Report struct {
	Kind  Kind
	Value int32
}

// ReadReport reads one report; io.EOF means that box-init is gone.
func ReadReport(r io.Reader) (Report, error) {
	var b [8]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return Report{}, err
	}
	return Report{Kind(binary.NativeEndian.Uint32(b[:])), int32(binary.NativeEndian.Uint32(b[4:]))}, nil
}

// Steps of box-init's set-up, as box-init.c numbers them.
var steps = map[int32]string{1: "read its program", 2: "see its privileges gone", 3: "join a keyring of its own", 4: "enter the working folder",
	5: "set up Landlock", 6: "load the system call filter", 7: "start a process", 8: "receive its files"}

// Err is the error that a NotRun or NotSetUp report tells of, else nil. The
// error of a NotRun report is a syscall.Errno.
func (r Report) Err() error {
	switch r.Kind {
	case NotRun:
		return syscall.Errno(r.Value)
	case NotSetUp:
		return fmt.Errorf("box-init could not %s: %w", steps[r.Value>>16], syscall.Errno(r.Value&0xffff))
	}
	return nil
}
