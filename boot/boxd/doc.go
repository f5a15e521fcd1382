// Package boxd asks the box's daemon over its own socket how it fares, and for a pairing link. It is the init's only way to boxd.
package boxd
