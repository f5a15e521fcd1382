package layers

import (
	"bufio"
	"bytes"
	"io"

	"golang.org/x/sys/unix"
)

// maxCompare is how large files are looked into, in bytes, for what of one is in
// another. Larger ones are taken to be built on one another.
const maxCompare = 64 << 20

// carries tells whether later, which was made with mine in sight, holds anything
// of it: a line (or, of binary files, a block) that mine has and old has not, or
// its mode. What mine only took away counts as held too: it is missing in later.
func carries(mine, old, later *entry) (bool, error) {
	if old != nil {
		if same, err := sameEntry(later, old); err != nil || same {
			return false, err // put back to what it was
		}
	}
	if mine.st.Mode&unix.S_IFMT != later.st.Mode&unix.S_IFMT {
		return false, nil
	}
	switch {
	case isDir(&mine.st):
		return old != nil && later.st.Mode == mine.st.Mode, nil
	case isLink(&mine.st):
		a, err := mine.target()
		if err != nil {
			return false, err
		}
		b, err := later.target()
		return a == b, err
	case !isFile(&mine.st):
		return false, nil
	}
	if old != nil && isFile(&old.st) && mine.st.Mode != old.st.Mode && later.st.Mode == mine.st.Mode {
		return true, nil
	}
	if mine.st.Size == 0 {
		return false, nil
	}
	for _, e := range []*entry{mine, later} {
		if e.st.Size > maxCompare {
			return true, nil
		}
	}
	return sharesPieces(mine, old, later)
}

func sharesPieces(mine, old, later *entry) (bool, error) {
	binary, err := mine.binary()
	if err != nil {
		return false, err
	}
	own := map[string]bool{} // pieces that only mine has
	err = pieces(mine, binary, func(p []byte) bool {
		own[string(p)] = true
		return true
	})
	if err != nil {
		return false, err
	}
	if old != nil && isFile(&old.st) {
		if old.st.Size > maxCompare {
			return true, nil
		}
		err = pieces(old, binary, func(p []byte) bool {
			delete(own, string(p))
			return true
		})
		if err != nil {
			return false, err
		}
	}
	if len(own) == 0 {
		return true, nil
	}
	shared := false
	err = pieces(later, binary, func(p []byte) bool {
		shared = own[string(p)]
		return !shared
	})
	return shared, err
}

// pieces cuts a file into lines or 512-byte blocks and leaves the blank ones out.
func pieces(e *entry, binary bool, fn func([]byte) bool) error {
	f, err := e.open()
	if err != nil {
		return err
	}
	defer f.Close()
	if !binary {
		r := bufio.NewReaderSize(f, 64<<10)
		for {
			line, err := r.ReadSlice('\n')
			if len(bytes.TrimSpace(line)) > 0 && !fn(bytes.TrimRight(line, "\r\n")) {
				return nil
			}
			if err == io.EOF {
				return nil
			}
			if err != nil && err != bufio.ErrBufferFull {
				return err
			}
		}
	}
	b := make([]byte, 512)
	zero := make([]byte, 512)
	r := bufio.NewReaderSize(f, 64<<10)
	for {
		n, err := io.ReadFull(r, b)
		if n > 0 && !bytes.Equal(b[:n], zero[:n]) && !fn(b[:n]) {
			return nil
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
