// Package config owns what the environment tells boxd and the box command: the
// BOX_ variables, their defaults on a box and elsewhere, and the refusals in
// words when one of them can't hold. It opens nothing.
package config
