// Package kit owns what the box lends to apps' pages at /kit/: the script that it puts
// first into each of them (page.js), the script that a page may add (gurtos.js) and a
// bare style (gurtos.css). They run in pages that have no origin and may be hostile, so
// nothing here is private and nothing here is a wall. portal/KIT.md is for those who use
// it.
package kit

import (
	"embed"
	"io/fs"
)

//go:embed page.js gurtos.js gurtos.css
var files embed.FS

// Files is the kit, by the names that stand behind /kit/.
var Files fs.FS = files

// Page is the file that the box puts into every page.
const Page = "page.js"
