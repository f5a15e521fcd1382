// Package hostile tries to get out of a sandbox, to take what isn't the task's
// and to bring the machine down, as programs in real sandboxes. Each attempt
// names its source, and each has a control: the same attempt from a shell behind
// plain unshare, where it succeeds. Where no control can succeed on the kernel
// at hand the attempt is printed as unproven, and at most one in ten may be.
package hostile
