package actionlog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"gurtos/core/durable"
)

const checkpointName = "log.checkpoint"

// checkpointHead is the first line of log.checkpoint; the state follows.
type checkpointHead struct {
	Format int    `json:"format"`
	Seq    int64  `json:"seq"`    // the state is that behind this line
	Hash   string `json:"hash"`   // of that line: binds the state to this log
	Bytes  int    `json:"bytes"`  // of the state
	SHA256 string `json:"sha256"` // of the state
}

// SaveCheckpoint keeps a folded state, as of line seq, in the place of the one
// before. It waits until the line is durable. Calls must not overlap.
func (l *Log) SaveCheckpoint(seq int64, state []byte) error {
	if err := l.Wait(context.Background(), seq); err != nil {
		return err
	}
	m, err := l.lineMark(seq)
	if err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	head, err := json.Marshal(checkpointHead{Format: format, Seq: seq, Hash: m.Hash, Bytes: len(state), SHA256: hash(state)})
	if err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	return durable.Replace(l.fs, filepath.Join(l.dir, checkpointName), append(append(head, '\n'), state...), 0o600)
}

// LoadCheckpoint is the kept state. It is false when there is none, or it is
// damaged, or of another format, or doesn't belong to this log; then the state is
// folded from line 1.
func (l *Log) LoadCheckpoint() (seq int64, state []byte, ok bool) {
	h, state, err := l.loadCheckpoint()
	if err != nil {
		return 0, nil, false
	}
	return h.Seq, state, true
}

func (l *Log) loadCheckpoint() (h checkpointHead, state []byte, err error) {
	b, err := durable.ReadFile(l.fs, filepath.Join(l.dir, checkpointName))
	if err != nil {
		return h, nil, err
	}
	first, state, found := bytes.Cut(b, []byte{'\n'})
	if !found {
		return h, nil, errors.New("no checkpoint")
	}
	if err := json.Unmarshal(first, &h); err != nil {
		return h, nil, err
	}
	if h.Format != format || h.Bytes != len(state) || h.SHA256 != hash(state) {
		return h, nil, errors.New("not whole, or of another format")
	}
	m, err := l.lineMark(h.Seq)
	if err != nil {
		return h, nil, err
	}
	if m.Hash != h.Hash {
		return h, nil, errors.New("of another log")
	}
	return h, state, nil
}

// lineMark is the place of a durable line.
func (l *Log) lineMark(seq int64) (Mark, error) {
	info, err := l.file.Stat()
	if err != nil {
		return Mark{}, err
	}
	start := l.index.find(l.file, info.Size(), seq, info.Size())
	in := newLines(l.file, start.End, info.Size())
	for at := start.Seq + 1; ; at++ {
		line, err := in.next()
		if err != nil {
			return Mark{}, fmt.Errorf("read line %d: %w", seq, fs.ErrNotExist)
		}
		if at < seq {
			continue
		}
		if got, _, ok := frame(line); !ok || got != seq {
			return Mark{}, &DamageError{First: seq, Last: seq, Kind: garbled}
		}
		return Mark{Seq: seq, Hash: hash(line), End: in.off}, nil
	}
}
