package mutate

func init() { Guards = append(Guards, sandbox...) }

// sandbox are the guards of tasks' sandboxes: rules of the filter, masks, mount flags, limits and what box-init does.
var sandbox = []Guard{
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
}
