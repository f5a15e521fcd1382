package hostile

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"gurtos/sandbox/layers"
	"gurtos/sandbox/sandboxtest"
)

// A workspace that changes places with a link while sandboxes start (CVE-2021-30465, CVE-2024-45310): each sees the workspace or is refused with its
// name. The control looks with names as they are, and sees where the link leads.
func TestWorkspaceSwapped(t *testing.T) {
	dir := t.TempDir()
	garden, link, secret := filepath.Join(dir, "garden"), filepath.Join(dir, "link"), filepath.Join(dir, "secrets")
	for path, file := range map[string]string{garden: "mine", secret: "secret"} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{path, filepath.Join(path, file)} {
			if err := os.Chown(p, layers.Canonical, layers.Canonical); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Symlink(secret, link); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var swaps sync.WaitGroup
	swaps.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := unix.Renameat2(unix.AT_FDCWD, garden, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE); err != nil {
				t.Error(err)
				return
			}
		}
	})
	defer swaps.Wait()
	defer close(stop)

	h := sandboxtest.Open(t)
	saw, refused := 0, 0
	try := func() {
		s := sandboxtest.Spec(t, "/bin/ls", "/work")
		s.Work.Base = garden
		sb, err := h.Start(t.Context(), s)
		if err != nil {
			refused++
			if !strings.Contains(err.Error(), "garden") {
				t.Errorf("%v does not name it", err)
			}
			return
		}
		switch e := sb.Wait(); e.Output {
		case "mine\n":
			saw++
		default:
			t.Errorf("a sandbox saw %q: %+v", e.Output, e)
		}
	}
	astray := false
	for tries := 0; (saw < 10 || refused < 10 || !astray) && tries < 500 && !t.Failed(); tries++ {
		try()
		names, _ := filepath.Glob(filepath.Join(garden, "*"))
		astray = astray || len(names) == 1 && filepath.Base(names[0]) == "secret"
	}
	if !astray || refused == 0 {
		t.Errorf("nothing is shown: %d sandboxes saw the workspace, %d were refused, the control went astray: %v", saw, refused, astray)
	}
	t.Logf("%d sandboxes saw the workspace, %d were refused", saw, refused)
}
