// Package facts owns /run/gurtos/boot.json: what the init found out about this boot, for boxd to put into the log. It holds no secret, and is
// written anew when a fact changes; boxd reads it when it starts.
package facts
