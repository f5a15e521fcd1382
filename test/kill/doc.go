// Package kill kills a real boxd in the middle of its work, again and again, with real sandboxes, workers and tools, and holds its log against what was
// seen of it before. core/broker does the same with a broker alone, more often and without sandboxes. Power cuts are in test/boot: a kill leaves what the
// kernel was given.
package kill
