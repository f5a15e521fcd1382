// Package netns gives tests network namespaces of their own: one that all tests of a package run in, with a mount namespace beside it, and more that
// they make to have somebody at the other end of a link. Nothing leaves the machine, and nothing of it stays.
package netns
