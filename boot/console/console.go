package console

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Console is one terminal.
type Console struct {
	Name   string // tty1, ttyS0, hvc0
	Path   string
	Screen bool // a virtual terminal: it is redrawn. Others are written on, line after line.
}

// List reads /proc/consoles and adds what it leaves out.
func List(proc, dev string) []Console {
	var list []Console
	add := func(name string) {
		// tty0 is whichever virtual terminal is in front; the status keeps to the first.
		if name == "tty0" {
			name = "tty1"
		}
		if slices.ContainsFunc(list, func(c Console) bool { return c.Name == name }) {
			return
		}
		c := Console{Name: name, Path: filepath.Join(dev, name)}
		rest, vt := strings.CutPrefix(name, "tty")
		c.Screen = vt && rest != "" && rest[0] >= '0' && rest[0] <= '9'
		list = append(list, c)
	}
	text, _ := os.ReadFile(filepath.Join(proc, "consoles"))
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 0 {
			add(words[0])
		}
	}
	if _, err := os.Stat(filepath.Join(dev, "tty0")); err == nil {
		add("tty1")
	}
	if serial(filepath.Join(dev, "ttyS0")) {
		add("ttyS0")
	}
	return list
}

// serial says whether there is hardware behind a serial port's node: the
// kernel makes four nodes on any PC.
func serial(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	var s struct {
		Type int32
		_    [128]byte // struct serial_struct is smaller; its first word is all that is wanted
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), unix.TIOCGSERIAL, uintptr(unsafe.Pointer(&s)))
	return errno == 0 && s.Type != 0 // PORT_UNKNOWN
}

// Size is the console's rows and columns; 25 and 80 when it doesn't say.
func Size(f *os.File) (rows, cols int) {
	w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || w.Row == 0 || w.Col == 0 {
		return 25, 80
	}
	return int(w.Row), int(w.Col)
}

// A Pane is the newest text for one console. Show replaces what is not yet
// written, so a slow terminal skips states and never holds anybody up.
type Pane struct {
	mu   sync.Mutex
	text string
	news chan struct{} // room for one
}

// NewPane makes an empty pane.
func NewPane() *Pane { return &Pane{news: make(chan struct{}, 1)} }

// Show sets the text.
func (p *Pane) Show(text string) {
	p.mu.Lock()
	p.text = text
	p.mu.Unlock()
	select {
	case p.news <- struct{}{}:
	default:
	}
}

// Write writes each newest text to w, until ctx ends or w fails.
func (p *Pane) Write(ctx context.Context, w io.Writer) error {
	written := ""
	for {
		select {
		case <-p.news:
		case <-ctx.Done():
			return nil
		}
		p.mu.Lock()
		text := p.text
		p.mu.Unlock()
		if text == written { // shown between the token and the look
			continue
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
		written = text
	}
}
