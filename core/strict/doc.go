// Package strict reads JSON that strangers send: one object, every field known
// by its exact name and given once, valid UTF-8, nesting of at most MaxDepth,
// nothing behind it. A refusal names the field. It never fills in defaults and
// never judges what a value means.
package strict
