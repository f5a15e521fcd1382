package facts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

func TestUpdate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "boot.json")
	f := New(path, Facts{Slot: "a", Previous: "none"})
	if _, err := os.Stat(path); err == nil {
		t.Error("the file is there before there is anything to say")
	}
	if err := f.Update(func(f *Facts) { f.Clock = Clock{Source: "ntp", Synced: true} }); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if got["slot"] != "a" || got["clock"].(map[string]any)["synced"] != true || got["reasons"] == nil {
		t.Errorf("the file says %s", b)
	}
	if _, err := os.Stat(path + ".new"); err == nil {
		t.Error("the file that was renamed is still there")
	}
}
