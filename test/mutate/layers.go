package mutate

func init() { Guards = append(Guards, layered...) }

// layered are the guards of what sandboxes see of folders and leave in them. That the kernel holds disk
// caps is tried in the guest, where there are quotas: those guards need a built image.
var layered = []Guard{
	{"layers: no setuid file is sealed", "sandbox/layers/seal.go", `if st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 {`, `if false {`, "./sandbox/layers", "TestSealedLayerStandsAlone|TestSealCut"},
	{"layers: no file capability is sealed", "sandbox/layers/seal.go", `case a == xattrCaps, `, `case `, "./sandbox/layers", "TestSealTakesAway"},
	{"layers: no user.overlay attribute is sealed", "sandbox/layers/seal.go", `, strings.HasPrefix(a, "user.overlay.")`, ``, "./sandbox/layers", "TestSealTakesAway"},
	{"layers: what goes in place of a device hides what was below", "sandbox/layers/seal.go", "		if !hides {\n			return true, unix.Unlinkat", "		if true {\n			return true, unix.Unlinkat", "./sandbox/layers", "TestSealTakesAway|TestSealCut"},
	{"layers: a sealed layer points into no other", "sandbox/layers/seal.go", `case a == xattrRedirect, a == xattrMetacopy:`, `case false:`, "./sandbox/layers", "TestSealTakesAway"},
	{"layers: moved folders are written out", "sandbox/layers/seal.go", `	if redirected {`, `	if redirected && false {`, "./sandbox/layers", "TestSealedLayerStandsAlone"},
	{"layers: a moved folder hides what was there", "sandbox/layers/seal.go", "	if hides {\n		if err := unix.Fsetxattr", "	if false {\n		if err := unix.Fsetxattr", "./sandbox/layers", "TestMovedFolderHides"},
	{"layers: tasks side by side don't hide each other", "sandbox/layers/seal.go", `if opaque && !hides {`, `if false {`, "./sandbox/layers", "TestParallelTasks"},
	{"layers: whiteouts are never listed", "sandbox/layers/seal.go", `	if whiteouts {`, `	if false {`, "./sandbox/layers", "TestWhiteoutsAreNotListed"},
	{"layers: sealing leaves the times", "sandbox/layers/seal.go", `	if changed { //`, `	if false { //`, "./sandbox/layers", "TestUsersOfFolderTimes"},
	{"layers: a view is nosuid", "sandbox/layers/overlay.go", "attr := unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV", "attr := unix.MOUNT_ATTR_NODEV", "./sandbox/layers", "TestMountedView"},
	{"layers: a view is nodev", "sandbox/layers/overlay.go", "attr := unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV", "attr := unix.MOUNT_ATTR_NOSUID", "./sandbox/layers", "TestMountedView"},
	{"layers: folders can be moved in a running layer", "sandbox/layers/overlay.go", `{"redirect_dir", "on"}`, `{"redirect_dir", "off"}`, "./sandbox/layers", "TestFoldersMove"},
	{"layers: also folders with long names", "sandbox/layers/mounter.go", `if f, err := os.OpenFile(redirectMax`, `if f, err := os.OpenFile("/nowhere/redirect_max"`, "./sandbox/layers", "TestFoldersMove"},
	{"layers: all of a view is on one file system", "sandbox/layers/mounter.go", `if b.dev != 0 && st.Dev != b.dev {`, `if false {`, "./sandbox/layers", "TestBadWorkspaces"},
	{"layers: a sealed layer takes no changes", "sandbox/layers/mounter.go", `s != StateOpen {`, `s == "" {`, "./sandbox/layers", "TestBadWorkspaces"},
	{"layers: one writer", "sandbox/layers/hold.go", `how = unix.LOCK_EX`, `how = unix.LOCK_SH`, "./sandbox/layers", "TestOneWriter"},
	{"layers: a layer that is read stays", "sandbox/layers/drop.go", `if errors.Is(err, ErrInUse) && isRead(dir) {`, `if false {`, "./sandbox/layers", "TestDropWaits"},
	{"layers: no path leads upwards", "sandbox/layers/beneath.go", `unix.RESOLVE_BENEATH | `, ``, "./sandbox/layers", "TestOpenBeneath"},
	{"layers: no link is followed", "sandbox/layers/beneath.go", `unix.RESOLVE_NO_SYMLINKS | `, ``, "./sandbox/layers", "TestOpenBeneath"},
	{"layers: no mount is entered", "sandbox/layers/beneath.go", ` | unix.RESOLVE_NO_XDEV`, ``, "./sandbox/layers", "TestOpenBeneath"},
	{"layers: .. is refused by name", "sandbox/layers/beneath.go", `if n == ".." {`, `if false {`, "./sandbox/layers", "TestCheckPath"},
	{"layers: a pipe is not opened", "sandbox/layers/beneath.go", "	if !isFile(&st) {\n		return nil, &PathError{name, \"is", "	if false {\n		return nil, &PathError{name, \"is", "./sandbox/layers", "TestOpenFileLooksFirst"},
	{"layers: the base tells which layers it holds", "sandbox/layers/fold.go", `range s.holds[:last] {`, `range s.holds[:0] {`, "./sandbox/layers", "TestFoldCut"},
	{"layers: bases change places at once", "sandbox/layers/fold.go", `unix.RENAME_EXCHANGE`, `0`, "./sandbox/layers", "TestFoldCut"},
	{"layers: half a base is cleared away", "sandbox/layers/fold.go", `if n == name+"~fold" || `, `if `, "./sandbox/layers", "TestFoldCut"},
	{"layers: no process stays with a user namespace", "sandbox/layers/userns.go", "	p.Kill()\n", "", "./sandbox/layers", "TestUsernsLeaves"},
	{"layers: an opaque folder hides", "sandbox/layers/stack.go", "} else if opaque {\n			break", "} else if opaque && false {\n			break", "./sandbox/layers", "TestSealedLayerStandsAlone"},
	{"layers: a conflict needs a task that saw it", "sandbox/layers/undo.go", `!u.saw[top.k]`, `false`, "./sandbox/layers", "TestUndoTells"},
	{"layers: what is in a folder speaks for it", "sandbox/layers/undo.go", "	u.pending = u.pending[:0]\n	return u.emit(p)", "	return u.emit(p)", "./sandbox/layers", "TestUndoTells"},
	{"layers: a folder that stands for itself is told of", "sandbox/layers/undo.go", `if waits && len(u.pending) == depth {`, `if waits && len(u.pending) > depth {`, "./sandbox/layers", "TestUndoProperty"},
	{"layers: lists are read in the order of folders", "sandbox/layers/follow.go", "		case a[i] == '/':\n			return -1", "		case a[i] == '/':\n			return 1", "./sandbox/layers", "TestAlsoChanged"},
	{"layers: what is deleted while it is read is told to be", "sandbox/layers/changes.go", `		if errors.Is(err, fs.ErrNotExist) { // what`, `		if err == nil && errors.Is(err, fs.ErrNotExist) { // what`, "./sandbox/layers", "TestDeletedWhileItIsRead"},
	{"layers: a preview that meets another undo is worked out anew", "core/task/views.go", `		if told || !errors.Is(err, layers.ErrGone) ||`, `		if told || err != nil ||`, "./core/task", "TestUndoPreviewMeetsAnUndo"},
	{"layers: what was told is forgotten", "sandbox/layers/undo.go", `	return u.emit(p)`, `	u.saw = append(u.saw, make([]bool, 300)...)
	return u.emit(p)`, "./sandbox/layers", "TestListsAreNotKept"},
	{"layers: files put in belong to the tasks' owner", "sandbox/layers/writer.go", `if err := unix.Fchown(int(f.Fd()), Canonical, Canonical); err != nil {`, `if false {`, "./sandbox/layers", "TestWriterPuts"},
	{"quota: a measured cap ends", "sandbox/quota/quota.go", `return bytes >= c.bytes || inodes >= c.inodes, err`, `return bytes >= 4*c.bytes || inodes >= c.inodes, err`, "./sandbox/quota", "TestMeasuredCap"},
	{"layers: a workspace that becomes a link is no way out", "sandbox/layers/hold.go", `unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)`, `unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)`, "./test/hostile", "TestWorkspaceSwapped"},
	{"quota: the kernel holds bytes", "sandbox/quota/xfs.go", `blockHard: uint64(l.bytesHard / blockSize),`, `blockHard: 0,`, "./test/boot", "TestLab$/sandbox-quota"},
	{"quota: the kernel holds the number of files", "sandbox/quota/xfs.go", `inodeHard: uint64(l.inodesHard),`, `inodeHard: 0,`, "./test/boot", "TestLab$/sandbox-quota"},
	{"quota: what is made later is in the project", "sandbox/quota/xfs.go", `a.flags = id, a.flags|projectInherit`, `a.flags = id, a.flags&^projectInherit`, "./test/boot", "TestLab$/sandbox-quota"},
	{"quota: a layer on disk keeps its project", "sandbox/quota/quota.go", `if u.inodes == 0 && u.bytes == 0 {`, `if u.inodes >= 0 {`, "./test/boot", "TestLab$/sandbox-quota"},
	{"quota: a task that goes on keeps its project", "sandbox/quota/quota.go", `		if id != 0 {
			return id, nil`, `		if id != 0 && id == 1 {
			return id, nil`, "./test/boot", "TestLab$/sandbox-quota"},
	{"quota: home and work have one cap", "sandbox/quota/quota.go", "	for _, d := range dirs {\n		if err == nil {", "	for _, d := range dirs[:1] {\n		if err == nil {", "./test/boot", "TestLab$/sandbox-quota"},
	{"sandbox: all together leave the machine memory", "sandbox/cgroup/together.go", `"memory.max", strconv.FormatInt(limit, 10)`, `"memory.max", "max"`, "./test/boot", "TestLab$/sandbox$"},
	{"sandbox: whose memory ran out is told", "sandbox/cgroup/group.go", `u.Full = key(dir, "memory.events", "oom")`, `u.Full = 1`, "./test/boot", "TestLab$/sandbox$"},
	{"sandbox: memory ends all of a sandbox, by the kernel", "sandbox/cgroup/limits.go", `"memory.oom.group": "1"`, `"memory.oom.group": "0"`, "./test/boot", "TestLab$/sandbox$"},
}
