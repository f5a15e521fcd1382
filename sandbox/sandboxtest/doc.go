// Package sandboxtest helps tests that start real sandboxes, as root: it builds
// box-init and worker, finds the tasks root, and makes a Host and layers. Init
// comes first in the TestMain of such a package.
package sandboxtest
