package task

import "golang.org/x/sys/unix"

// Room on the data disk, in bytes: below lowRoom agents stand still, so that the log
// can still take what the owner does; they go on above enoughRoom. On a small disk a
// fiftieth of it is the bound.
const (
	lowRoom    = 64 << 20
	enoughRoom = 96 << 20
)

// lookAtDisk stops agents when the disk is nearly full, and lets them go on when
// there is room.
func (t *Tasks) lookAtDisk() {
	var st unix.Statfs_t
	if err := unix.Statfs(t.opt.Home, &st); err != nil {
		t.opt.Slog.Warn("the room on the disk is not known", "why", err)
		return
	}
	size := uint64(st.Bsize)
	free, all := st.Bavail*size, st.Blocks*size
	low, enough := min(uint64(lowRoom), all/50), min(uint64(enoughRoom), all/33)
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.halted()
	switch {
	case free < low:
		t.full = true
	case free >= enough:
		t.full = false
	}
	t.halt(was)
}
