package mutate

import "os"

func init() { Guards = append(Guards, append(sandbox, places()...)...) }

// places are the guards of what not every kernel has: parts of /proc that a sandbox hides, or keeps from being written, and control groups of version 1.
func places() (list []Guard) {
	for _, p := range []string{
		"acpi", "kcore", "keys", "key-users", "kmsg", "kpagecount", "kpageflags", "kpagecgroup", "sched_debug", "scsi", "timer_list", "vmallocinfo", "slabinfo", "config.gz", "kallsyms", "modules", "pressure", "iomem",
	} {
		if _, err := os.Lstat("/proc/" + p); err == nil {
			list = append(list, Guard{"sandbox: /proc/" + p + " is hidden", "sandbox/furnish.go", `"/proc/` + p + `", `, ``, "./test/hostile", "TestAttempts"})
		}
	}
	for _, p := range []string{"bus", "driver", "fs", "irq", "sys", "sysrq-trigger"} {
		if _, err := os.Lstat("/proc/" + p); err == nil {
			list = append(list, Guard{"sandbox: /proc/" + p + " is read-only", "sandbox/furnish.go", `"/proc/` + p + `", `, ``, "./test/hostile", "TestAttempts"})
		}
	}
	if _, err := os.Lstat("/sys/fs/cgroup/freezer"); err == nil { // version 2 kills what is frozen
		list = append(list, Guard{"sandbox: what an earlier boxd froze is killed before it is thawed", "sandbox/cgroup/sweep.go", `{killIn, func(path string) error {`, `{func(path string) error {`, "./sandbox", "TestStop"})
		list = append(list, Guard{"sandbox: what is killed while it is being frozen isn't left frozen", "sandbox/sandbox.go", "	if killed {\n		return s.Thaw()", "	if killed && false {\n		return s.Thaw()", "./sandbox", "TestStop"})
		list = append(list, Guard{"sandbox: all that is frozen is killed before any is thawed", "sandbox/cgroup/group.go", `	return killIn(dir)`, `	return killIn(dir + "~")`, "./sandbox", "TestStop"})
		list = append(list, Guard{"sandbox: what an earlier boxd froze is thawed to be killed", "sandbox/cgroup/sweep.go", `write(path, "freezer.state", "THAWED"); return nil`, `return nil`, "./sandbox", "TestKilled"})
	}
	return list
}

// sandbox are the guards of tasks' sandboxes: rules of the filter, masks, mount flags, limits and what box-init does.
var sandbox = []Guard{
	{"sandbox: who freezes and who kills take no word of each other's", "sandbox/cgroup/group.go", `	own.Resources = &limits `, `	_ = &limits `, "./sandbox/cgroup", "TestTwoManagers"},
	{"sandbox: a process that could not be opened is not taken for gone", "sandbox/cgroup/sweep.go", `	case errors.Is(err, unix.EMFILE),`, `	case false && errors.Is(err, unix.EMFILE),`, "./sandbox/cgroup", "TestNoDescriptors"},
	{"sandbox: what waits and was killed is no task's", "sandbox/sandbox.go", `if s.b != nil && s.b.gone() {`, `if s.b != nil && s.b.gone() && false {`, "./sandbox", "TestParkedIsKilled"},
	{"sandbox: what ended by itself is waited for", "sandbox/park.go", `err == nil || errors.Is(err, libcontainer.ErrNotRunning) {`, `err == nil && !errors.Is(err, libcontainer.ErrNotRunning) {`, "./sandbox", "TestParkedIsKilled"},
	{"sandbox: a kernel without filters is told", "sandbox/seccomp/filter.go", `		if no != 0 {`, `		if no != 0 && action == 1 {`, "./sandbox/seccomp", "TestAvailable"},
	{"sandbox: why there is no user namespace is told", "sandbox/layers/userns.go", `err, whyNoUserns(err))`, `err, whyNoUserns(nil))`, "./sandbox/layers", "TestUsernsSays"},
	{"sandbox: io_uring is refused", "sandbox/seccomp/table.go", `{Refuse, "rings that pass the filter by"`, `{Allow, "rings that pass the filter by"`, "./sandbox/seccomp", "TestCalls"},
	{"sandbox: clone and unshare make no namespace", "sandbox/seccomp/table.go", `"clone unshare", noNamespace}`, `"clone unshare", nil}`, "./test/hostile", "TestAttempts"},
	{"sandbox: clone3 does not exist", "sandbox/seccomp/table.go", `{Absent, "libc falls back`, `{Allow, "libc falls back`, "./sandbox/seccomp", "TestCalls"},
	{"sandbox: only a task's own families of sockets", "sandbox/seccomp/table.go", `unix.AF_INET6, unix.AF_NETLINK}}}, unix.EAFNOSUPPORT}`, `unix.AF_INET6, unix.AF_NETLINK, unix.AF_VSOCK}}}, unix.EAFNOSUPPORT}`, "./test/hostile", "TestAttempts"},
	{"sandbox: nothing types into a terminal", "sandbox/seccomp/table.go", `[]uint32{unix.TIOCSTI, tioclinux}`, `[]uint32{tioclinux}`, "./test/hostile", "TestAttempts"},
	{"sandbox: a file's project stays", "sandbox/seccomp/table.go", `[]uint32{fsSetXattr, fsSetFlags, fsSetFlags32}`, `[]uint32{fsSetFlags, fsSetFlags32}`, "./test/hostile", "TestAttempts"},
	{"sandbox: no device node, no whiteout", "sandbox/seccomp/table.go", `[]uint32{unix.S_IFCHR, unix.S_IFBLK}`, `[]uint32{unix.S_IFBLK}`, "./test/hostile", "TestAttempts"},
	{"sandbox: another architecture's call kills", "sandbox/seccomp/filter.go", `bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AUDIT_ARCH_X86_64, SkipTrue: 1}`, `bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 1}`, "./sandbox/seccomp", "TestNumbers"},
	{"sandbox: the high bits of an argument hide nothing", "sandbox/seccomp/filter.go", `offArgs + 8*uint32(c.Arg)`, `offArgs + 4 + 8*uint32(c.Arg)`, "./sandbox/seccomp", "TestCalls"},
	{"sandbox: a mask of /proc", "sandbox/furnish.go", `"/proc/interrupts", `, ``, "./test/hostile", "TestAttempts"},
	{"sandbox: nosuid", "sandbox/mount.go", `const quiet = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV`, `const quiet = unix.MOUNT_ATTR_NODEV`, "./test/hostile", "TestAttempts"},
	{"sandbox: /tmp has an end of inodes", "sandbox/furnish.go", `, [2]string{"nr_inodes", strconv.FormatInt(max(1024, s.Limits.TmpBytes/4096), 10)})`, `, [2]string{"nr_inodes", "0"})`, "./test/hostile", "TestSurroundings/inodes"},
	{"sandbox: no capability is left", "sandbox/park.go", `Capabilities: &configs.Capabilities{}`, `Capabilities: &configs.Capabilities{Bounding: []string{"CAP_CHOWN"}}`, "./test/hostile", "TestAttempts"},
	{"sandbox: box-init starts nothing that could gain privileges", "sandbox/park.go", `NoNewPrivileges: true`, `NoNewPrivileges: false`, "./sandbox", "TestExit/well"},
	{"sandbox: no core is dumped", "sandbox/park.go", `			{Type: unix.RLIMIT_CORE}, // core_pattern runs on the machine
`, ``, "./test/hostile", "TestAttempts"},
	{"sandbox: PID 1 is nobody's to read", "sandbox/boxinit/box-init.c", `	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
`, ``, "./test/hostile", "TestAttempts"},
	{"sandbox: PID 1 reaps orphans", "sandbox/boxinit/box-init.c", `waitpid(-1, &status, WNOHANG)`, `waitpid(worker, &status, WNOHANG)`, "./test/hostile", "TestAttempts"},
	{"sandbox: files are the user's alone", "sandbox/boxinit/box-init.c", `umask(077);`, `umask(022);`, "./sandbox", "TestSurroundings"},
	{"sandbox: the broker's socket is its user's", "sandbox/park.go", `os.Chmod(path, 0o600)`, `os.Chmod(path, 0o666)`, "./sandbox", "TestServe"},
	{"sandbox: memory has a limit", "sandbox/cgroup/limits.go", `		Memory:     l.Memory,
		MemorySwap: l.Memory, // memory and swap together: no swap
`, ``, "./sandbox", "TestExit/memory$"},
	{"sandbox: processes have a limit", "sandbox/cgroup/limits.go", `		PidsLimit:  &l.Pids,
`, ``, "./sandbox", "TestExit/processes"},
	{"sandbox: out of memory ends all of it", "sandbox/sandbox.go", `			s.noMemory.Store(true)
			s.Kill()
`, ``, "./sandbox", "TestExit/memory_of_a_child"},
	{"sandbox: a disk cap that was passed is told", "sandbox/sandbox.go", `s.exit.Disk = overDisk()`, `overDisk()`, "./sandbox", "TestDisk"},
	{"sandbox: what a killed boxd left is ended", "sandbox/host.go", `if err := h.sweep(); err != nil {`, `if err := os.RemoveAll(h.containers); err != nil {`, "./sandbox", "TestKilled"},
	{"sandbox: a slot is one sandbox's", "sandbox/host.go", `case slot != AnySlot && h.slots[slot]:`, `case slot != AnySlot && slot < 0:`, "./sandbox", "TestSlotInUse"},
	{"sandbox: /proc/ioports is hidden", "sandbox/furnish.go", `, "/proc/ioports"}`, `}`, "./test/hostile", "TestAttempts"},
	{"sandbox: /proc/tty is read-only", "sandbox/furnish.go", `, "/proc/tty"}`, `}`, "./test/hostile", "TestAttempts"},
	{"sandbox: nothing is sent out of band", "sandbox/seccomp/table.go", `"sendto sendmmsg", noUrgent(3)}`, `"sendto sendmmsg", nil}`, "./test/hostile", "TestAttempts"},
	{"sandbox: no protocol on top of a connection", "sandbox/seccomp/table.go", `{[]Cond{{1, every, false, []uint32{unix.SOL_TCP}}, {2, every, false, []uint32{unix.TCP_ULP}}}, unix.EPERM},`, ``, "./test/hostile", "TestAttempts"},
	{"sandbox: no ESP in UDP", "sandbox/seccomp/table.go", `{[]Cond{{1, every, false, []uint32{unix.SOL_UDP}}, {2, every, false, []uint32{unix.UDP_ENCAP}}}, unix.EPERM},`, ``, "./test/hostile", "TestAttempts"},
	{"sandbox: a condition of a rule is looked at", "sandbox/seccomp/table.go", `{[]Cond{{1, every, false, []uint32{unix.SOL_UDP}}, {2,`, `{[]Cond{{2,`, "./sandbox/seccomp", "TestCalls"},
	{"sandbox: nodev", "sandbox/mount.go", `const quiet = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV`, `const quiet = unix.MOUNT_ATTR_NOSUID`, "./test/hostile", "TestAttempts"},
	{"sandbox: nothing runs from /dev/shm", "sandbox/furnish.go", `shm, err := newMount("tmpfs", quiet|unix.MOUNT_ATTR_NOEXEC, open...)`, `shm, err := newMount("tmpfs", quiet, open...)`, "./test/hostile", "TestAttempts"},
	{"sandbox: nothing runs from the broker's folder", "sandbox/furnish.go", `run, err := newMount("tmpfs", quiet|unix.MOUNT_ATTR_NOEXEC,`, `run, err := newMount("tmpfs", quiet,`, "./test/hostile", "TestAttempts"},
	{"sandbox: nothing runs from terminals", "sandbox/furnish.go", `newMount("devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC,`, `newMount("devpts", unix.MOUNT_ATTR_NOSUID,`, "./test/hostile", "TestAttempts"},
	{"sandbox: the broker's folder is read-only", "sandbox/furnish.go", `if err := setAttr(run, unix.MOUNT_ATTR_RDONLY, nil); err != nil {`, `if err := setAttr(run, 0, nil); err != nil {`, "./test/hostile", "TestAttempts"},
	{"sandbox: who one is can't be written", "sandbox/furnish.go", `if err := setAttr(m, unix.MOUNT_ATTR_RDONLY, nil); err != nil {`, `if err := setAttr(m, 0, nil); err != nil {`, "./test/hostile", "TestAttempts"},
	{"sandbox: /dev is read-only", "sandbox/room.go", `return setAttr(dev, unix.MOUNT_ATTR_RDONLY, nil)`, `return setAttr(dev, 0, nil)`, "./test/hostile", "TestAttempts"},
	{"sandbox: the tools are read-only", "sandbox/room.go", `setAttr(m, unix.MOUNT_ATTR_RDONLY, nil)`, `setAttr(m, 0, nil)`, "./test/hostile", "TestAttempts"},
	{"sandbox: /tmp has an end", "sandbox/furnish.go", `rootOwned("1777", strconv.FormatInt(s.Limits.TmpBytes, 10))`, `rootOwned("1777", "90%")`, "./sandbox", "TestSurroundings/tmp"},
	{"sandbox: terminals have an end", "sandbox/furnish.go", `, [2]string{"max", terminals})`, `)`, "./sandbox", "TestTerminals"},
	{"sandbox: no place in the root is a link", "sandbox/room.go", `Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS}`, `Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_BENEATH}`, "./sandbox", "TestRootRefused"},
	{"sandbox: each place in the root is of its kind", "sandbox/room.go", `if st.Mode&unix.S_IFMT != kind {`, `if false {`, "./sandbox", "TestRootRefused"},
	{"sandbox: the filter is loaded", "sandbox/boxinit/box-init.c", `if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) != 0)`, `if (prog.len == 0)`, "./test/hostile", "TestAttempts"},
	{"sandbox: the second fence", "sandbox/boxinit/box-init.c", "	fence(writable, head.writable);\n", "", "./sandbox", "TestLandlock"},
	{"sandbox: boxd's socket stays with PID 1", "sandbox/boxinit/box-init.c", `	fcntl(BOX, F_SETFD, FD_CLOEXEC);
`, ``, "./test/hostile", "TestAttempts"},
	{"sandbox: a session of its own", "sandbox/boxinit/box-init.c", `		setsid();
`, ``, "./sandbox", "TestSurroundings/a_session"},
	{"sandbox: short of memory, the box is not the first", "sandbox/park.go", `umask, adj := uint32(0o077), 500`, `umask, adj := uint32(0o077), 0`, "./sandbox", "TestSurroundings/ended_before"},
	{"sandbox: System V memory of its own", "sandbox/park.go", `{Type: configs.NEWIPC}, `, ``, "./test/hostile", "TestSlotReuse"},
	{"sandbox: its control group's path is not told", "sandbox/park.go", `{Type: configs.NEWCGROUP}, `, ``, "./sandbox", "TestSurroundings/arguments"},
	{"sandbox: a sandbox is in the network that was made for it", "sandbox/park.go", `		conf.Namespaces.Add(configs.NEWNET, fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), b.net.File().Fd()))
`, ``, "./sandbox", "TestNetwork"},
	{"sandbox: with version 1 each group has its own devices", "sandbox/cgroup/group.go", `g.m.Set(&cgroups.Resources{Devices: deviceRules()})`, `g.m.Set(&cgroups.Resources{Devices: deviceRules()[:1]})`, "./sandbox", "TestLimitsInPlace"},
	{"sandbox: devices by the controller too", "sandbox/cgroup/limits.go", `{1, 3}, {1, 5}, {1, 7}, {1, 8}, {1, 9}, {5, 0}, //`, `{1, 3}, {1, 5}, {1, 7}, {1, 8}, {1, 9}, {5, 0}, {8, 0}, //`, "./sandbox/cgroup", "TestResources"},
}
