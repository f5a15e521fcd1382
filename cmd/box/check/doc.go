// Package check owns `box app check`: it reads an app's folder as the box would and
// says all that the box would refuse, and what would only show later: a key that is
// read and not declared, a host that no tool lists, a package that is not pinned, a
// type that does not fit. It needs Node and no box; what it loads, it loads in a Node
// that may write nothing and start nothing.
package check
