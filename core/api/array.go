package api

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
)

// array answers with a JSON array whose elements come one after another, so that no
// more of them than one is in memory. What fails before the first chunk is out is
// answered as an error; after that the connection breaks off.
func (c *call) array(each func(put func(v any) error) error) error { return c.arrayIn("", each, "") }

// arrayIn is array with what stands around it.
func (c *call) arrayIn(before string, each func(put func(v any) error) error, after string) error {
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	var to io.Writer = c.w
	if c.r.Method == http.MethodHead {
		to = io.Discard
	}
	out := bufio.NewWriterSize(to, chunk)
	enc := json.NewEncoder(out) // ends each element with a line break
	enc.SetEscapeHTML(false)
	sep := before + "["
	empty := sep
	err := each(func(v any) error {
		if _, err := out.WriteString(sep); err != nil {
			return err
		}
		sep = ","
		return enc.Encode(v)
	})
	if err != nil {
		return err
	}
	if sep == empty {
		out.WriteString(sep)
	}
	out.WriteString("]" + after + "\n")
	return out.Flush()
}
