package api

import (
	"fmt"
	"strings"

	"gurtos/core/app"
	"gurtos/core/settings"
	"gurtos/core/task"
	"gurtos/core/watch"
)

// What the box notes about its own keeping, the value of "what" in a note of
// track box. Those about tasks are core/task's, those about the log its own.
const (
	NoteStart         = "boxd started"
	NoteKeySet        = task.NoteKeySet
	NoteKeyRemoved    = task.NoteKeyRemoved
	NoteSettings      = task.NoteSettings
	NoteWorkspace     = task.NoteWorkspace
	NotePairCode      = "pairing code made"
	NotePaired        = task.NotePaired
	NoteDeviceRemoved = task.NoteDeviceRemoved
)

// notes is every "what" that the box writes, for docs/api.md.
var notes = []struct{ what, data, doc string }{
	{NoteStart, "version, boot?, weaker?", "The daemon started; boot is what init found, weaker what the machine can't hold."},
	{NotePairCode, "role, by", "A code that pairs a device was made; never the code itself."},
	{NotePaired, "device, name, role", "A device was paired."},
	{NoteDeviceRemoved, "device, name, by", "A device was removed; its token ended. By `box start` when its pairing broke off before anyone was told the token."},
	{NoteKeySet, "name, setAt, by", "A key was put into the vault; never its value. By `box start` when a start found it changed and no line says so."},
	{NoteKeyRemoved, "name, by", "A key was taken out of the vault."},
	{NoteSettings, "set, by", "Settings changed; set holds the new values by name. By `box start` as for a key."},
	{NoteWorkspace, "name, by", "A workspace was made."},
	{"clock checked", "", "A time server was heard since boxd started. Only between two such lines does time count in which the box was off: for limits of a day and for keepDays."},
	{"boxd ended", "", "The daemon ended in order."},
	{"pause", "paused, by", "All agents were paused, or let go on."},
	{"disk", "full, free, do?", "The disk became too full for agents to go on, or has room again: once for each change. free is what is left, in bytes; do says what the owner can do."},
	{"app", "app, on, by", "An app was turned on or off."},
	{app.NoteError, "app, error", "What went wrong in an app, as App Center shows it."},
	{app.NoteReached, "app, host", "An app's own process reached a host, as host:port. Told once for each of the first 200 since boxd started."},
	{app.NoteBlocked, "app, host, count", "An app tried to reach a host that it may not reach, that often within a minute."},
	{app.NoteLimited, "app, limit", "An app came to a limit of its network: connections or questions a second, or connections at once; limit says which. Told once an hour for each."},
	{"permission", "app, set, by", "What an app may do was changed."},
	{"permission refused", "app, item, tool?", "An app tried what the owner turned off."},
	{"permission used", "app, item", "An app used a key, or answered a stranger; told once an hour at most."},
	{watch.NoteArmed, "app, trigger, watch, none?", "The box watches the clock or files for an app's trigger from here on; none where there is no such workspace yet."},
	{watch.NoteDisarmed, "app", "The app was turned off; what its triggers would have had meanwhile is nobody's."},
	{watch.NoteRan, "app, trigger, due, date?, late?, left?, from?", "A schedule's run is handed to its app; left is how many before it are left out, from the first of those dates."},
	{watch.NoteMissed, "app, trigger, due, date?, left?, from?", "A schedule's run is left out: it was due more than 12 hours ago, while the box was off."},
	{watch.NoteKept, "app, trigger, due, date?, error", "The app was not reached; the run that was handed to it waits until it is, 12 hours at most."},
	{watch.NoteSeen, "app, trigger, changes, layers?", "An app was told how many files changed; layers where the workspace has changed again since."},
	{watch.NoteFailed, "app, trigger, due, error", "An app was told what its trigger was for, and failed."},
	{"call merged", "key, with", "A repeated call shares the run of another key."},
	{"undo", "by", "Who undid the task."},
	{"layers folded", "workspace, tasks", "The changes of these tasks became part of the workspace itself for good."},
	{"alert", "text, cutOut?", "Something that the owner is to see: it stands in the Inbox until it is read."},
	{"log.format", "format, id", "Line 1: how the log is written."},
	{"log.cut", "…", "A torn or damaged end was cut off at the start and kept aside."},
	{"log.quarantined", "…", "Stands in the place of a damaged line that was cut out."},
	{"log.quarantine", "…", "What was cut out, with its hash."},
}

func notesTable() string {
	var b strings.Builder
	b.WriteString("| what | data besides | says |\n|---|---|---|\n")
	for _, n := range notes {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", n.what, n.data, n.doc)
	}
	return b.String()
}

func settingsTable() string {
	std := settings.Defaults()
	std.MaxRunning = 0 // depends on the machine
	var b strings.Builder
	b.WriteString("| setting | default | means |\n|---|---|---|\n")
	for _, s := range settings.Table {
		v := string(s.JSON(std))
		if s.Name == "maxRunning" {
			v = "cores × 2"
		}
		fmt.Fprintf(&b, "| `%s` | `%s` | %s |\n", s.Name, v, s.Doc)
	}
	return b.String()
}
