package task

import "gurtos/core/actionlog"

// makeRoom is what the owner can do about a full disk, short enough to be read whole in
// `box log`.
const makeRoom = "undo what is not needed with box task undo ID (box task show ID has its sizes), or set keepDays lower"

// lookAtDisk stops agents when the log says that its disk is full, while it can still
// take what the owner does, and lets them go on when there is room. Either way the log
// tells of the change, from what the log keeps in reserve. It says whether hold has to
// follow.
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
	if t.fold.Full != t.full && t.broken == nil {
		data := map[string]any{"full": t.full, "free": room.Free}
		if t.full {
			data["do"] = makeRoom
		}
		if err := t.submit([]actionlog.Event{mustNote(noteDisk, data, "")}); err != nil {
			t.opt.Slog.Warn("that the disk is full, or has room again, was not logged", "why", err)
		}
	}
	t.halt(was)
	return was != t.halted()
}
