package api

import "net/http"

// What pages of apps may read of the box's answers. Such a page has no origin, so to a
// browser each of its requests is one to another site, and fails unless the answer says
// that "null" may read it. No answer ever allows credentials: a page's right is the token
// that it sends itself.
//
// Any site can make a page without an origin. So what the API answers is shared with
// such a page only where it sent a token, right or wrong; the answers under /t/ and /kit/
// always are, since a module or a font is fetched without one.

// originless says that a page without an origin asks.
func originless(r *http.Request) bool {
	o := r.Header["Origin"]
	return len(o) == 1 && o[0] == "null"
}

// share lets a page without an origin read the answer.
func (c *call) share() {
	if !originless(c.r) {
		return
	}
	h := c.w.Header()
	h.Set("Access-Control-Allow-Origin", "null")
	h.Set("Access-Control-Expose-Headers", "*")
}

// preflight answers OPTIONS, which never needs a token: a browser sends none with it.
func (c *call) preflight(allow string) {
	h := c.w.Header()
	h.Set("Allow", allow)
	if originless(c.r) && c.r.Header.Get("Access-Control-Request-Method") != "" {
		h.Set("Access-Control-Allow-Origin", "null")
		h.Set("Access-Control-Allow-Methods", allow)
		h.Set("Access-Control-Allow-Headers", "Authorization, *") // * alone leaves Authorization out
		h.Set("Access-Control-Max-Age", "600")
		h.Set("Vary", "Origin")
	}
	c.w.WriteHeader(http.StatusNoContent)
}
