package screen

import (
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"gurtos/boot/console"
)

// A terminal is an open console. One that was hung up (a shell on it ended) is
// opened again.
type terminal struct {
	path string

	mu   sync.Mutex
	file *os.File
}

func openTerminal(path string) (*terminal, error) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	return &terminal{path: path, file: f}, nil
}

func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, err := t.file.Write(p)
	if !errors.Is(err, unix.EIO) {
		return n, err
	}
	f, err := os.OpenFile(t.path, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return 0, err
	}
	t.file.Close()
	t.file = f
	return f.Write(p)
}

func (t *terminal) Read(p []byte) (int, error) {
	t.mu.Lock()
	f := t.file
	t.mu.Unlock()
	return f.Read(p)
}

func (t *terminal) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.file.Close()
}

func (t *terminal) size() (rows, cols int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return console.Size(t.file)
}

// silence switches the echo off: what is typed must not stand in the status.
func (t *terminal) silence() {
	t.mu.Lock()
	defer t.mu.Unlock()
	attr, err := unix.IoctlGetTermios(int(t.file.Fd()), unix.TCGETS)
	if err != nil {
		return // no terminal
	}
	attr.Lflag &^= unix.ECHO | unix.ICANON
	_ = unix.IoctlSetTermios(int(t.file.Fd()), unix.TCSETS, attr) // it echoes, then
}
