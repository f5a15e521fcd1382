package sandbox

import (
	"os"

	"github.com/opencontainers/runc/libcontainer"
	_ "github.com/opencontainers/runc/libcontainer/nsenter" // enters namespaces before Go starts
)

// Init must be the first thing that main does, and TestMain in tests that start
// sandboxes: a sandbox is born by this program running itself anew with the
// argument init, and then Init doesn't return. Package variables and init
// functions run in each of those births, so they are to be light.
func Init() {
	if len(os.Args) == 2 && os.Args[1] == "init" && os.Getenv("_LIBCONTAINER_INITPIPE") != "" {
		libcontainer.Init()
	}
}
