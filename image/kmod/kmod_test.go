package kmod

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestModinfo(t *testing.T) {
	var m Module
	m.parse([]byte("license=GPL\x00depends=virtio-ring,virtio\x00alias=pci:v00001AF4d*\x00alias=pci:v0000*\x00softdep=pre: crc32c lz4-hc post: late\x00depends=\x00"))
	if !slices.Equal(m.Depends, []string{"virtio_ring", "virtio"}) || !slices.Equal(m.Soft, []string{"crc32c", "lz4_hc"}) || !slices.Equal(m.After, []string{"late"}) || len(m.Alias) != 2 {
		t.Errorf("%+v", m)
	}
}

// set is a small world: a needs b and c, b needs c, d is softly wanted by c.
var set = Set{
	"a": {Name: "a", Path: "kernel/a.ko", Depends: []string{"b", "c"}, Alias: []string{"pci:v1*"}},
	"b": {Name: "b", Path: "kernel/b.ko", Depends: []string{"c", "built_in"}},
	"c": {Name: "c", Path: "kernel/c.ko", Soft: []string{"d", "nowhere"}},
	"d": {Name: "d", Path: "kernel/d.ko"},
	"e": {Name: "e", Path: "kernel/x/e.ko"},
}

func TestClosure(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  string
	}{
		{[]string{"a"}, "a b c d"}, {[]string{"b"}, "b c d"}, {[]string{"d", "e"}, "d e"}, {[]string{"built_in"}, ""}, {nil, ""},
	} {
		if got := strings.Join(set.Closure(c.names).Names(), " "); got != c.want {
			t.Errorf("closure of %v: %q, want %q", c.names, got, c.want)
		}
	}
}

func TestChoose(t *testing.T) {
	builtin := map[string]bool{"virtio_pci": true}
	got, err := set.Choose([]string{"x/*", "virtio_pci", "d"}, builtin)
	if err != nil || strings.Join(got.Names(), " ") != "d e" {
		t.Errorf("%v, %v", got.Names(), err)
	}
	if _, err := set.Choose([]string{"renamed"}, builtin); err == nil || !strings.Contains(err.Error(), "renamed") {
		t.Errorf("a driver that is gone: %v", err)
	}
}

func TestTables(t *testing.T) {
	tables := set.Tables()
	if want := "kernel/a.ko: kernel/b.ko kernel/c.ko\n"; !strings.HasPrefix(string(tables["modules.dep"]), want) {
		t.Errorf("modules.dep is %q, want first %q", tables["modules.dep"], want)
	}
	if want := "alias pci:v1* a\n"; string(tables["modules.alias"]) != want {
		t.Errorf("modules.alias is %q, want %q", tables["modules.alias"], want)
	}
	if !strings.Contains(string(tables["modules.softdep"]), "softdep c pre: d nowhere\n") {
		t.Errorf("modules.softdep is %q", tables["modules.softdep"])
	}
}

// TestAgainstDepmod compares with what depmod found in the kernel that was built: the same modules, and for each the same ones before it.
func TestAgainstDepmod(t *testing.T) {
	files, _ := filepath.Glob("../../.cache/*/root/usr/lib/modules/*/modules.dep")
	if files == nil {
		t.Skip("no kernel was unpacked here: make image")
	}
	dir := filepath.Dir(files[0])
	all, err := ReadAll(dir)
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	read := func(text string) map[string]string {
		m := map[string]string{}
		for line := range strings.Lines(text) {
			name, deps, _ := strings.Cut(strings.TrimSpace(line), ":")
			f := strings.Fields(deps)
			slices.Sort(f)
			m[name] = strings.Join(f, " ")
		}
		return m
	}
	want, got := read(string(theirs)), read(string(all.Tables()["modules.dep"]))
	if len(want) != len(got) {
		t.Errorf("%d modules, depmod has %d", len(got), len(want))
	}
	for name, deps := range want {
		if got[name] != deps {
			t.Errorf("%s needs %q, depmod says %q", name, got[name], deps)
		}
	}
}
