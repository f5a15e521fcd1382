// Package node owns the scripts that run in an app's Node process: what loads an app and
// answers the box, and what takes the types out of TypeScript.
package node

import "embed"

// Files are the scripts.
//
//go:embed *.mjs
var Files embed.FS
