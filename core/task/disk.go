package task

// lookAtDisk stops agents when the log says that its disk is full, while it can still
// take what the owner does, and lets them go on when there is room. It says whether hold
// has to follow.
func (t *Tasks) lookAtDisk() (changed bool) {
	room, err := t.opt.Log.Room()
	if err != nil {
		t.opt.Slog.Warn("the room on the disk is not known", "why", err)
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.full != room.Full {
		t.opt.Slog.Warn("the disk", "full", room.Full, "free", room.Free)
	}
	was := t.halted()
	t.full = room.Full
	t.halt(was)
	return was != t.halted()
}
