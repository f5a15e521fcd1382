package sandbox_test

import (
	"testing"

	"gurtos/sandbox/sandboxtest"
)

func TestProgramRuns(t *testing.T) {
	h := sandboxtest.Open(t)
	e := sandboxtest.Shell(t, h, "id; id -un; pwd; cat /proc/self/mountinfo; cat /proc/self/status; ls -la / /dev /run/box /work /home /proc/self/fd; hostname; ulimit -a; env; cat /proc/self/cgroup; echo hi > a; ls -la; exit 3")
	t.Logf("%+v", e)
	t.Log(e.Output)
}
