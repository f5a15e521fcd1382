package app_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hello is the app of the SDK's page.
func hello(t *testing.T) map[string]string {
	b, err := os.ReadFile(filepath.Join(repo, "tracks/hello/track.ts"))
	must(t, err)
	return map[string]string{"hello": string(b)}
}

func TestHello(t *testing.T) {
	w := newWorld(t, hello(t))
	if i := w.info("hello"); i.On || i.Error != "" {
		t.Fatalf("on a new box: %+v", i)
	}
	w.on("hello")
	out, err := w.call("hello.greet", `{"name":"Ada"}`)
	if err != nil || out != `{"greeting":"Hello, Ada"}` {
		t.Errorf("the tool: %s, %v", out, err)
	}
	route, ok := w.apps.Route("hello", "GET", "/")
	if !ok {
		t.Fatal("there is no route GET /")
	}
	rec := httptest.NewRecorder()
	w.apps.Serve(rec, httptest.NewRequest("GET", "/t/hello/", nil), "hello", route)
	if rec.Code != 200 || rec.Body.String() != "<h1>Hello</h1>" || !strings.HasPrefix(rec.Header().Get("Content-Type"), "text/html") {
		t.Errorf("the page: %d %v %s", rec.Code, rec.Header(), rec.Body)
	}
	must(t, w.apps.Switch(t.Context(), "hello", false, "test"))
	if _, ok := w.apps.Lookup("hello.greet"); ok {
		t.Error("the tool is there though the app is off")
	}
	w.on("hello")
	if out, err := w.call("hello.greet", `{"name":"Bob"}`); err != nil || out != `{"greeting":"Hello, Bob"}` {
		t.Errorf("the tool, once it is on again: %s, %v", out, err)
	}
}
