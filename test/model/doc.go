// Package model lets tasks of a real boxd ask a model through the box, as Droid's do: the key that they never have, what their model costs, and what
// they read when there is no key or no budget. The model is a stand-in, in an internet that the test makes.
package model
