// Package layers owns what a sandbox sees of a folder: a read-only base, sealed
// layers over it, and one upper layer that takes the changes. A layer is open,
// then sealed, then applied or dropped; a sealed layer never changes and never
// points into another, so any one can be left out of a view. It never decides
// which layers a view has.
package layers
