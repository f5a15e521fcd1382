package leak

import "io"

// context is how many bytes of what went out are kept, to see whether a short value
// stands alone: the longest rune.
const context = 4

// writer replaces secrets in a stream.
type writer struct {
	set  *Set
	w    io.Writer
	text []byte // what is not out yet, behind gone bytes that are
	gone int
	most int // bytes held back at most
}

// Writer gives a writer that puts [NAME] in place of each secret, also where one is
// spread over several writes, and passes the rest on to w. It holds back only what
// may still become a secret; Close passes that on. It does not close w.
func (s *Set) Writer(w io.Writer) io.WriteCloser {
	most := 4096
	if s != nil {
		for _, list := range s.first {
			for _, n := range list {
				most = max(most, 64*len(n.text)) // no escape of one byte is that long
			}
		}
	}
	return &writer{set: s, w: w, most: most}
}

func (w *writer) Write(p []byte) (int, error) {
	w.text = append(w.text, p...)
	if err := w.pass(false); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *writer) Close() error { return w.pass(true) }

// pass writes what is sure; with final that is all.
func (w *writer) pass(final bool) error {
	text := string(w.text)
	var out []byte
	at := w.gone
	for at < len(text) {
		start, end, found := w.set.next(text, at, final)
		if found != nil {
			out = append(append(out, text[at:start]...), "["+found.name+"]"...)
			at = end
			continue
		}
		if end != more {
			start = len(text)
		} else if len(text)-start > w.most {
			start = len(text) - w.most/2
		}
		out = append(out, text[at:start]...)
		at = start
		break
	}
	keep := max(at-context, 0)
	w.text = append(w.text[:0], text[keep:]...)
	w.gone = at - keep
	if len(out) == 0 {
		return nil
	}
	_, err := w.w.Write(out)
	return err
}
