package boot

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gurtos/core/actionlog"
	"gurtos/core/task"
	"gurtos/test/boot/box"
)

// apps turns an app on, in whose sandbox Node runs, has a task call its tool, opens its
// page, and turns it off.
func apps(t *testing.T, api *box.API) {
	api.Do("PUT", "/api/apps/hello", map[string]bool{"on": true}, nil)
	var all []struct {
		Name, Error string
		On          bool
	}
	api.Get("/api/apps?all=1", &all)
	on := map[string]bool{}
	for _, a := range all {
		on[a.Name] = a.On
		if a.Error != "" {
			t.Errorf("%s has the error %s", a.Name, a.Error)
		}
	}
	if !on["hello"] || !on["anthropic"] {
		t.Errorf("these apps are on: %v; hello was turned on, and the model app is from the first boot", on)
	}
	var made task.Task
	api.Do("POST", "/api/tasks", map[string]any{
		"title": "is greeted", "prompt": `call hello.greet {"name":"Ada"}`, "worker": "fake", "tools": []string{"hello.greet"},
	}, &made)
	if end := api.End(made.ID, 3*time.Minute); end.State != task.Done {
		t.Errorf("the task is %s: %s", end.State, end.Error)
	}
	said := ""
	for _, e := range api.Log() {
		if e.Task == made.ID && e.Type == actionlog.TypeToolResult {
			said = string(e.Output)
		}
	}
	var greeting struct{ Greeting string }
	if err := json.Unmarshal([]byte(said), &greeting); err != nil || greeting.Greeting != "Hello, Ada" {
		t.Errorf("its tool said %q", said)
	}
	var page []byte
	api.Do("GET", "/t/hello/", nil, &page)
	if !strings.HasSuffix(string(page), "<h1>Hello</h1>") {
		t.Errorf("its page is %q", page)
	}
	api.Do("PUT", "/api/apps/hello", map[string]bool{"on": false}, nil)
	api.Refused(404, "", "GET", "/t/hello/", nil)
}
