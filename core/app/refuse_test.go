package app

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
)

// asking is a ResponseWriter with a way of its own to refuse.
type asking struct {
	*httptest.ResponseRecorder
	said string
}

func (a *asking) Refuse(status int, sentence string) { a.said = fmt.Sprint(status, " ", sentence) }

// What the box refuses is JSON, unless whom it is written to knows better.
func TestRefusals(t *testing.T) {
	rec := httptest.NewRecorder()
	refuse(rec, 503, "not now")
	if rec.Code != 503 || rec.Header().Get("Content-Type") != "application/json" || strings.TrimSpace(rec.Body.String()) != `{"error":"not now"}` {
		t.Errorf("%d %v %s", rec.Code, rec.Header(), rec.Body)
	}
	a := &asking{ResponseRecorder: httptest.NewRecorder()}
	refuse(a, 503, "not now")
	if a.said != "503 not now" || a.Body.Len() > 0 {
		t.Errorf("%q, and besides %s", a.said, a.Body)
	}
}
