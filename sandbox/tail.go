package sandbox

import "io"

// tailSize is how much of a program's output is kept.
const tailSize = 8 << 10

// tail keeps the last tailSize bytes written to it.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if n > tailSize {
		p = p[n-tailSize:]
	}
	if over := len(t.b) + len(p) - tailSize; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	t.b = append(t.b, p...)
	return n, nil
}

// drain reads r to its end and gives the last of it; also is given all of it, unless
// it is nil.
func drain(r io.Reader, also io.Writer) string {
	var t tail
	if also != nil {
		r = io.TeeReader(r, also)
	}
	io.Copy(&t, r)
	return string(t.b)
}
