package mutate

// Guards are all guards, by area.
var Guards = []Guard{
	{"image: an interrupted step leaves no result", "image/step/step.go", `	defer os.RemoveAll(dir)
	if err := os.Chmod`, `	if err := os.Chmod`, "./image/step", "TestFailureLeavesNothing"},
	{"image: what another process makes is left alone", "image/step/step.go", `unix.LOCK_EX|unix.LOCK_NB)
		if err != nil {
			continue // being made`, `unix.LOCK_SH|unix.LOCK_NB)
		if err != nil && false {
			continue // being made`, "./image/step", "TestInterruptedIsRemovedAtOpen"},
	{"image: a full disk is told before the work", "image/step/step.go", `free < st.Room {`, `free < 0 {`, "./image/step", "TestRoom"},
	{"image: no setuid file gets into the tasks root", "image/build/tree.go", `if m := st.Mode(); m&(fs.ModeSetuid|fs.ModeSetgid) != 0 {`, `if m := st.Mode(); m&fs.ModeSticky != 0 && m&fs.ModeDir == 0 {`, "./image/build", "TestClean"},
	{"image: a UKI's sections don't overlap", "image/uki/uki.go", `next = up(next+size, align)`, `next = up(next+size/2, align)`, "./image/uki", "TestLoads"},
	{"image: a file system that outgrew its partition fails the build", "image/disk/disk.go", `if st.Size() > p.Size {`, `if st.Size() > 2*p.Size {`, "./image/disk", "TestTooLarge"},
	{"initramfs: no time of the building machine gets in", "initramfs/initramfs.go", `r.Ino = uint64(i + 1)`, `r.Ino = uint64(i + os.Getpid())`, "./initramfs", "TestInodes"},
	{"make run: a request never looks like the box's own screen", "image/guest/relay.go", `			r.SetXForwarded()      // instead of whatever the caller claims
`, "", "./image/guest", "TestRelaySaysWhereARequestCameFrom"},
	{"secrets: a stream holds back what may become one", "core/leak/leak.go", `			case end == more:
				return i, more, nil
`, "", "./core/leak", "TestWriter"},
}
