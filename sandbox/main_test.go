package sandbox_test

import (
	"os"
	"testing"

	"gurtos/sandbox"
	"gurtos/sandbox/sandboxtest"
)

func TestMain(m *testing.M) {
	sandbox.Init()
	if os.Getenv(victimEnv) != "" {
		victim()
	}
	sandboxtest.Main(m)
}
