// Package layers owns what a sandbox sees of a folder: a read-only base, sealed
// layers over it, and one upper layer that takes the changes. A layer is open,
// then sealed, then applied (folded into the base) or dropped; a sealed layer
// never changes and never points into another, so any one can be left out of a
// view. It never decides which layers a view has.
//
// # A layer on disk
//
// A layer is a folder of root's alone (0700), beside which only this package may
// put names that start with its own and a tilde:
//
//	upper/   what overlayfs wrote: files, folders, symlinks and hard links of
//	         Canonical; whiteouts (character device 0/0, root's); on folders the
//	         attributes trusted.overlay.opaque ("y") and, empty, .origin. While
//	         the layer is open also all else that overlayfs and a task leave.
//	work/    overlayfs's own, empty once sealed
//	empty/   stands for the base of a view without one
//	tmp/     what Seal is about to put in place; gone once sealed
//	lock     locked (flock) exclusively by who writes or deletes, shared by who reads
//	meta     JSON: version, id, state; once sealed also bytes, inodes, and saw, the
//	         ids of the layers below it when it was sealed
//	changes  once sealed: a JSON record a line of each path that differs from below
//	before   once sealed: the old texts of these, deflated one after another
//
// meta is replaced by a synced rename and is what counts after a cut: everything
// that Seal does before it leaves the same view, so it can be done again, and
// everything that Drop does after it can be finished.
//
// A base is a plain folder. Fold replaces it by one exchange of names, with the
// ids of what it took in as an attribute of the new folder.
//
// # Reading and writing
//
// Sandboxes get views as overlay mounts (Mounter). boxd itself reads views without
// a mount (Tree, EachChange, Diff, UndoPreview), by the rules of overlayfs, because it
// wants to know which layer a file is from; a property test holds the two against
// each other and against a model. It writes through a mount (Writer), as a task
// would. In both it follows no link and leaves the view nowhere.
//
// What a sealed layer keeps of the task's work: content, mode (without setuid and
// setgid on files), owner, times, user attributes and access lists, hard links
// within the layer, holes. What not: the mode and times of the view's root folder,
// sockets, pipes, devices, file capabilities, and hard links between a file that
// the task changed and one that it did not.
package layers
