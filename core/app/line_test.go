package app

import (
	"bufio"
	"bytes"
	"errors"
	"testing"
)

// A message has an end, however it comes: what is longer is not gathered in memory.
func TestReadLine(t *testing.T) {
	for _, c := range []struct {
		size int
		want error
	}{{10, nil}, {64 << 10, nil}, {maxMessage - 1, nil}, {maxMessage, errLong}, {maxMessage + 1<<20, errLong}} {
		in := bufio.NewReaderSize(bytes.NewReader(append(bytes.Repeat([]byte("x"), c.size), '\n')), 64<<10)
		line, err := readLine(in)
		if !errors.Is(err, c.want) || err == nil && len(line) != c.size+1 {
			t.Errorf("a line of %d bytes: %d, %v", c.size, len(line), err)
		}
	}
}
