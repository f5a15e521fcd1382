package stage1

import (
	"strings"
	"testing"

	"gurtos/boot/disk"
)

func TestMissing(t *testing.T) {
	if got := missing("system", "cb7796a5", nil); !strings.Contains(got, "system partition cb7796a5: no disk has shown up") {
		t.Error(got)
	}
	got := missing("tasks", "fe06ae28", []disk.Disk{{Name: "vda", Size: 3.5e9}, {Name: "sdb", Size: 8e9, Model: "Stick", Serial: "S1"}})
	if want := "tasks partition fe06ae28: it is on none of vda (3.5 GB), sdb (8.0 GB, Stick, serial S1)."; !strings.Contains(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// Names are what people and tests read off a box that stands still.
func TestPhasesAreNamedOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range (&Stage1{}).phases() {
		if p.Name == "" || p.Run == nil || seen[p.Name] {
			t.Errorf("phase %q has no name, does nothing, or stands twice", p.Name)
		}
		seen[p.Name] = true
	}
}
