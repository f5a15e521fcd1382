package layers

// The host's user ids that layers and sandboxes use. All files of all layers
// belong to Canonical on disk; a sandbox's mounts map Canonical to its own
// user, so that nothing is ever chowned and two sandboxes share no user.
const (
	Canonical = 999_998   // owner of every layer's files on disk
	RootUID   = 999_999   // what uid 0 of a sandbox is outside: no process has it
	FirstUID  = 1_000_000 // user of slot 0
	Slots     = 65_536
	InsideUID = 1000 // the user inside
)

// UID is the host's user (and group) id of a slot.
func UID(slot int) int { return FirstUID + slot }

// View says which folders, laid over one another, make a tree.
type View struct {
	Base   string   // read-only folder at the bottom; "" for an empty one
	Lowers []string // layer folders (as given to Create), newest first
	Layer  string   // layer folder that takes the changes; "" for a read-only view
}
