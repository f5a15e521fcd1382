package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"gurtos/core/task"
)

// Each field of a task that this edition has can be said on the command line.
func TestTaskNewSaysEveryField(t *testing.T) {
	var got map[string]any
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = nil
		if err := json.Unmarshal(b, &got); err != nil {
			t.Errorf("%v in %s", err, b)
		}
		w.WriteHeader(http.StatusCreated)
		io.WriteString(w, `{"id":"t1"}`)
	}))
	t.Cleanup(s.Close)
	t.Setenv("BOX_URL", s.URL)
	t.Setenv("BOX_TOKEN", "d")
	all := []string{
		"--prompt", "p", "--workspace", "w", "--worker", "droid", "--model", "haiku", "--tool", "a.b", "--tool", "c.d", "--host", "example.com",
		"--budget", "7", "--source", "cron", "--seat", "Analyst", "--plan", "--autonomy", "low", "Title",
	}
	if _, errs, code := call(t, append([]string{"task", "new"}, all...)...); code != 0 {
		t.Fatal(errs)
	}
	want := map[string]any{
		"title": "Title", "prompt": "p", "workspace": "w", "worker": "droid", "model": "haiku", "tools": []any{"a.b", "c.d"}, "hosts": []any{"example.com"},
		"budgetCents": 7.0, "source": "cron", "seat": "Analyst", "droid": map[string]any{"plan": true, "autonomy": "low"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[task.Spec]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if personal := strings.HasPrefix(name, "folder"); want[name] == nil && !personal {
			t.Errorf("%s can't be said", name)
		}
	}
	if call(t, "task", "new", "--prompt", "p", "--no-hosts", "T"); !reflect.DeepEqual(got["hosts"], []any{}) {
		t.Errorf("--no-hosts: %v", got)
	}
	if call(t, "task", "new", "--prompt", "p", "T"); len(got) != 2 {
		t.Errorf("what was not said is sent: %v", got)
	}
	if _, errs, code := call(t, "task", "new", "--prompt", "p", "--no-hosts", "--host", "example.com", "T"); code != 2 || !strings.Contains(errs, "say the opposite") {
		t.Errorf("%d %s", code, errs)
	}
}
