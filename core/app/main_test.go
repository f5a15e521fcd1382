package app_test

import (
	"testing"

	"gurtos/sandbox/sandboxtest"
)

func TestMain(m *testing.M) { sandboxtest.Main(m) }
