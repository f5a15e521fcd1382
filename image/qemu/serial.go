package qemu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"sync"
)

// Serial is a VM's serial console: a text that grows, kept in memory and in a
// file as it comes.
type Serial struct {
	in   io.Writer
	file *os.File

	mu     sync.Mutex // guards all below
	text   []byte
	change chan struct{} // closed and renewed when text grows; nil at the end
	also   io.Writer
}

func newSerial(path string, in io.Writer) (*Serial, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &Serial{in: in, file: f, change: make(chan struct{})}, nil
}

// Write takes what the guest says.
func (s *Serial) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, p...)
	if s.also != nil {
		s.also.Write(p)
	}
	close(s.change)
	s.change = make(chan struct{})
	return s.file.Write(p)
}

func (s *Serial) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.change)
	s.change = nil
	s.file.Close()
}

// Tee writes all text so far to w, and then what comes.
func (s *Serial) Tee(w io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Write(s.text)
	s.also = w
}

// Send types at the console.
func (s *Serial) Send(text string) error {
	_, err := io.WriteString(s.in, text)
	return err
}

// Len is how much text there is; Text gives it from some place on.
func (s *Serial) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.text)
}

// Text is what the console said from a place in the text on.
func (s *Serial) Text(from int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.text[min(from, len(s.text)):])
}

// Wait waits for text that matches, looking from a place in the text on, and
// gives the match with its groups and the place behind it. A pattern that asks
// for a whole line ends with \n.
func (s *Serial) Wait(ctx context.Context, from int, pattern *regexp.Regexp) (match []string, after int, err error) {
	for {
		s.mu.Lock()
		text, change := s.text, s.change
		s.mu.Unlock()
		from = min(from, len(text))
		if m := pattern.FindSubmatchIndex(text[from:]); m != nil {
			for i := 0; i < len(m); i += 2 {
				if m[i] < 0 {
					match = append(match, "")
				} else {
					match = append(match, string(text[from+m[i]:from+m[i+1]]))
				}
			}
			return match, from + m[1], nil
		}
		err := errGone
		if change != nil {
			select {
			case <-change:
				continue
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		return nil, from, fmt.Errorf("the console never said %q: %w; it ends with:\n%s", pattern, err, tail(text, 15))
	}
}

// Gone tells whether an error came because the VM has ended.
func Gone(err error) bool { return errors.Is(err, errGone) }

func tail(text []byte, lines int) []byte {
	at := len(text)
	for ; lines > 0 && at > 0; lines-- {
		at = max(0, bytes.LastIndexByte(text[:at-1], '\n'))
	}
	return text[at:]
}
