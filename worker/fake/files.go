package fake

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// mostRead is how much of a file or page a step shows.
const mostRead = 1000

// at gives a path beneath the workspace; a leading /work/ is the workspace.
func (l *line) at(p string) string {
	if p == l.dir {
		return "."
	}
	return strings.TrimPrefix(p, strings.TrimSuffix(l.dir, "/")+"/")
}

func write(_ context.Context, l *line, args []string) error {
	return l.put(args, os.O_TRUNC)
}

func appendTo(_ context.Context, l *line, args []string) error {
	return l.put(args, os.O_APPEND)
}

// put writes a line of text, as echo does, and makes the folders above.
func (l *line) put(args []string, how int) error {
	p := l.at(args[0])
	if dir := path.Dir(p); dir != "." && dir != "/" {
		if err := l.root.MkdirAll(dir, 0o777); err != nil {
			return l.failed("%w", err)
		}
	}
	f, err := l.root.OpenFile(p, os.O_WRONLY|os.O_CREATE|how, 0o666)
	if err != nil {
		return l.failed("%w", err)
	}
	_, err = io.WriteString(f, args[1]+"\n")
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return l.failed("%w", err)
	}
	return nil
}

func remove(_ context.Context, l *line, args []string) error {
	if err := l.root.RemoveAll(l.at(args[0])); err != nil {
		return l.failed("%w", err)
	}
	return nil
}

func mkdir(_ context.Context, l *line, args []string) error {
	if err := l.root.MkdirAll(l.at(args[0]), 0o777); err != nil {
		return l.failed("%w", err)
	}
	return nil
}

func move(_ context.Context, l *line, args []string) error {
	from, to := l.at(args[0]), l.at(args[1])
	err := l.root.Rename(from, to)
	if errors.Is(err, fs.ErrNotExist) {
		if _, gone := l.root.Lstat(from); errors.Is(gone, fs.ErrNotExist) {
			if _, there := l.root.Lstat(to); there == nil {
				return nil // moved before a cut
			}
		}
	}
	if err != nil {
		return l.failed("%w", err)
	}
	return nil
}

func read(_ context.Context, l *line, args []string) error {
	f, err := l.root.Open(l.at(args[0]))
	if err != nil {
		return l.failed("%w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostRead))
	if err != nil {
		return l.failed("%w", err)
	}
	l.data["text"] = cut(string(b), mostRead)
	return nil
}
