package api

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
)

// A list in an object is JSON, however many elements it has, and has each before the next one is made.
func TestArrayIn(t *testing.T) {
	for n, want := range []string{`{"paths":[]}`, `{"paths":[0]}`, `{"paths":[0,1]}`, `{"paths":[0,1,2]}`} {
		for _, method := range []string{"GET", "HEAD"} {
			got := httptest.NewRecorder()
			c := &call{w: newWriter(got), r: httptest.NewRequest(method, "/", nil)}
			err := c.arrayIn(`{"paths":`, func(put func(any) error) error {
				for i := range n {
					if err := put(i); err != nil {
						return err
					}
				}
				return nil
			}, "}")
			text := strings.Join(strings.Fields(got.Body.String()), "")
			if method == "HEAD" && (err != nil || text != "") || method == "GET" && (err != nil || text != want || !json.Valid([]byte(text))) {
				t.Errorf("%s of %d: %q, want %q, %v", method, n, text, want, err)
			}
		}
	}
}

// What fails before the first chunk is out is an error with its own status, and nothing of the list is sent.
func TestArrayFails(t *testing.T) {
	got := httptest.NewRecorder()
	c := &call{w: newWriter(got), r: httptest.NewRequest("GET", "/", nil)}
	err := c.arrayIn(`{"paths":`, func(put func(any) error) error {
		if err := put(1); err != nil {
			return err
		}
		return fmt.Errorf("gone")
	}, "}")
	if err == nil || got.Body.Len() > 0 {
		t.Errorf("%v, %q", err, got.Body)
	}
}
