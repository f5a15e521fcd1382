package task

// lookAtDisk stops agents when the log says that its disk is full, while it can still
// take what the owner does, and lets them go on when there is room.
func (t *Tasks) lookAtDisk() {
	room, err := t.opt.Log.Room()
	if err != nil {
		t.opt.Slog.Warn("the room on the disk is not known", "why", err)
		return
	}
	t.mu.Lock()
	if t.full != room.Full {
		t.opt.Slog.Warn("the disk", "full", room.Full, "free", room.Free)
	}
	was := t.halted()
	t.full = room.Full
	t.halt(was)
	changed := was != t.halted()
	t.mu.Unlock()
	if changed { // else the queue would wait for a pause that the kernel takes its time for
		t.hold()
	}
}
