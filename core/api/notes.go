package api

// What the box notes about its own keeping, the value of "what" in a note of
// track box. The notes about tasks are core/task's.
const (
	NoteStart         = "boxd started"
	NoteKeySet        = "vault key set"
	NoteKeyRemoved    = "vault key removed"
	NoteSettings      = "settings"
	NoteWorkspace     = "workspace made"
	NotePairCode      = "pairing code made"
	NotePaired        = "device paired"
	NoteDeviceRemoved = "device removed"
)
