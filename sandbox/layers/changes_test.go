package layers

import (
	"fmt"
	"strings"
	"testing"
)

// A folder stands in the list only where no path in it says as much: live, and as it is kept.
func TestFoldersThatOthersSpeakFor(t *testing.T) {
	m := newMounter(t)
	dir := t.TempDir()
	base := ownedBase(t, dir, `mkdir -p gone/sub kept bare; echo 1 > gone/sub/f; echo 2 > kept/f`)
	v := View{Base: base, Layer: newLayer(t, dir+"/l")}
	inTask(t, m, v, `mkdir -p a/b/c new; echo x > a/b/f; rm -r gone; chmod 700 kept; echo y > kept/g; rmdir bare`)
	want := "added a/b/c, added a/b/f, deleted bare, deleted gone/sub/f, modified kept, added kept/g, added new"
	for _, when := range []string{"live", "kept"} {
		list, err := listChanges(t.Context(), v)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range list {
			got = append(got, fmt.Sprint(c.Change, " ", c.Path))
		}
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("%s:\n%s\nwant\n%s", when, s, want)
		}
		if when == "live" {
			if err := Seal(t.Context(), v); err != nil {
				t.Fatal(err)
			}
		}
	}
}
