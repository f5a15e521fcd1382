package layers

import (
	"bufio"
	"bytes"
	"compress/flate"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// What a sealed layer keeps of the old texts, so that a diff can be shown when
// the layers below are long gone.
const (
	maxText   = 1 << 20  // bytes of a file whose text is kept and shown
	maxBefore = 64 << 20 // bytes, compressed, of all of a layer's old texts
	maxOlds   = 10_000   // files
)

// A record is a Change as it is kept, with the way to its old text.
type record struct {
	Change
	OldKind string `json:"oldKind,omitempty"`
	OldMode uint32 `json:"oldMode,omitempty"` // type and permission bits, 0 when there was nothing
	Mode    uint32 `json:"mode,omitempty"`    // 0 when there is nothing
	OldSize int64  `json:"oldSize,omitempty"`
	OldBin  bool   `json:"oldBinary,omitempty"`
	Old     *span  `json:"old,omitempty"`    // of the old text in the file before
	Hidden  bool   `json:"hidden,omitempty"` // a folder that others speak for
}

// A span is a deflated piece of the file before.
type span struct {
	Off int64 `json:"off"`
	Len int64 `json:"len"`
}

// describe compares a cleaned layer with what is below it and keeps the result
// in the layer's folder: changes, one record a line, and before, old texts. The
// caller syncs them.
func describe(ctx context.Context, dir *os.File, merged *stack) (meta, error) {
	m := meta{Version: formatVersion}
	b, err := openBeneath(int(dir.Fd()), "before", unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return m, fmt.Errorf("before: %w", err)
	}
	defer b.Close()
	f, err := openBeneath(int(dir.Fd()), "changes", unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return m, fmt.Errorf("changes: %w", err)
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	c := &comparer{ctx: ctx, before: &beforeWriter{f: b}, emit: func(r record) error {
		if err := enc.Encode(encodePath(r)); err != nil {
			return fmt.Errorf("changes: %w", err)
		}
		return nil
	}}
	if err := c.run(merged); err != nil {
		return m, err
	}
	if err := w.Flush(); err != nil {
		return m, fmt.Errorf("changes: %w", err)
	}
	return m, nil
}

// storedRecord keeps a path that is no valid UTF-8 as bytes.
type storedRecord struct {
	record
	Raw []byte `json:"raw,omitempty"`
}

func encodePath(r record) storedRecord {
	s := storedRecord{record: r}
	if strings.ToValidUTF8(r.Path, "") != r.Path {
		s.Raw = []byte(r.Path)
	}
	return s
}

func readChanges(dir *os.File, emit func(record) error) error {
	f, err := openBeneath(int(dir.Fd()), "changes", unix.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("changes: %w", err)
	}
	defer f.Close()
	dec := json.NewDecoder(bufio.NewReader(f))
	for {
		var s storedRecord
		err := dec.Decode(&s)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("changes: %w", err)
		}
		if s.Raw != nil {
			s.Path = string(s.Raw)
		}
		if err := emit(s.record); err != nil {
			return err
		}
	}
}

// beforeWriter writes old texts one after another, each deflated.
type beforeWriter struct {
	f     *os.File
	off   int64
	count int
	z     *flate.Writer
}

// keep stores the text of a file or the target of a link. nil without an error
// means that it is too large, or that enough is kept.
func (w *beforeWriter) keep(e *entry) (*span, error) {
	var from io.Reader
	switch {
	case isLink(&e.st):
		to, err := e.target()
		if err != nil {
			return nil, err
		}
		from = strings.NewReader(to)
	case isFile(&e.st) && e.st.Size <= maxText:
		f, err := e.open()
		if err != nil {
			return nil, err
		}
		defer f.Close()
		from = f
	default:
		return nil, nil
	}
	if w.count >= maxOlds || w.off >= maxBefore {
		return nil, nil
	}
	w.count++
	var b bytes.Buffer
	if w.z == nil {
		w.z, _ = flate.NewWriter(&b, flate.BestSpeed)
	} else {
		w.z.Reset(&b)
	}
	if _, err := io.Copy(w.z, from); err != nil {
		return nil, err
	}
	if err := w.z.Close(); err != nil {
		return nil, err
	}
	s := &span{w.off, int64(b.Len())}
	if _, err := w.f.Write(b.Bytes()); err != nil {
		return nil, err
	}
	w.off += s.Len
	return s, nil
}

// readBefore gives an old text back.
func readBefore(dir *os.File, s *span) ([]byte, error) {
	f, err := openBeneath(int(dir.Fd()), "before", unix.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("before: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(flate.NewReader(io.NewSectionReader(f, s.Off, s.Len)))
	if err != nil {
		return nil, fmt.Errorf("before: %w", err)
	}
	return b, nil
}
