package seccomp

import (
	"strings"

	"golang.org/x/sys/unix"
)

// Verdict says what happens to a call.
type Verdict int

// The verdicts.
const (
	Allow  Verdict = iota // made, unless one of the row's refusals holds
	Refuse                // EPERM
	Absent                // ENOSYS
)

// Row gives the calls that share a verdict and a reason.
type Row struct {
	Verdict  Verdict
	Why      string
	Calls    string // names, separated by spaces
	Refusals []Refusal
}

// Names lists the row's calls.
func (r Row) Names() []string { return strings.Fields(r.Calls) }

// Refusal answers a call with Errno when all its conditions hold.
type Refusal struct {
	When  []Cond
	Errno unix.Errno
}

// Cond holds when an argument, cut to its low 32 bits and masked, is among
// Values, or with Not when it isn't. The high bits are left out on purpose: the
// kernel cuts them off too, and comparing them let CVE-2019-10063 through.
type Cond struct {
	Arg    int
	Mask   uint32
	Not    bool
	Values []uint32
}

const every = 0xffffffff // mask of a whole argument

// Table is the policy. Every call of Linux up to its last row's age stands in
// exactly one row.
var Table = []Row{
	{Allow, "files and folders",
		"read write open close stat fstat lstat lseek pread64 pwrite64 readv writev access pipe pipe2 select pselect6 " +
			"poll ppoll dup dup2 dup3 sendfile fcntl flock fsync fdatasync truncate ftruncate getdents getdents64 getcwd " +
			"chdir fchdir rename renameat renameat2 mkdir mkdirat rmdir creat link linkat unlink unlinkat symlink symlinkat " +
			"readlink readlinkat chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat umask utime utimes utimensat " +
			"futimesat statfs fstatfs sync syncfs sync_file_range readahead openat openat2 newfstatat faccessat faccessat2 " +
			"statx splice tee vmsplice fallocate fadvise64 copy_file_range preadv pwritev preadv2 pwritev2 close_range " +
			"cachestat", nil},
	{Allow, "extended attributes; trusted.* and security.* want capabilities that no task has",
		"setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr removexattr " +
			"lremovexattr fremovexattr setxattrat getxattrat listxattrat removexattrat file_getattr", nil},
	{Allow, "memory",
		"mmap mprotect munmap brk mremap msync mincore madvise mlock mlock2 munlock mlockall munlockall memfd_create " +
			"membarrier pkey_mprotect pkey_alloc pkey_free mseal map_shadow_stack get_mempolicy set_mempolicy", nil},
	{Allow, "processes, threads, signals",
		"fork vfork execve execveat exit exit_group wait4 waitid kill tkill tgkill rt_sigaction rt_sigprocmask " +
			"rt_sigreturn rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_tgsigqueueinfo rt_sigsuspend sigaltstack pause " +
			"restart_syscall set_tid_address futex futex_waitv futex_wake futex_wait futex_requeue set_robust_list " +
			"get_robust_list rseq rseq_slice_yield gettid getpid getppid getpgrp getpgid setpgid getsid setsid pidfd_open " +
			"pidfd_send_signal prctl arch_prctl seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self " +
			"uname sysinfo getcpu getrandom", nil},
	{Allow, "scheduling and limits; the kernel holds them to the task's own",
		"sched_yield sched_setparam sched_getparam sched_setscheduler sched_getscheduler sched_get_priority_max " +
			"sched_get_priority_min sched_rr_get_interval sched_setaffinity sched_getaffinity sched_setattr sched_getattr " +
			"getpriority setpriority ioprio_set ioprio_get getrlimit setrlimit prlimit64 getrusage times", nil},
	{Allow, "who one is; only the task's own user is mapped",
		"getuid getgid geteuid getegid getresuid getresgid getgroups setuid setgid setreuid setregid setgroups " +
			"setresuid setresgid setfsuid setfsgid capget capset", nil},
	{Allow, "time",
		"nanosleep clock_nanosleep gettimeofday time clock_gettime clock_getres getitimer setitimer alarm timer_create " +
			"timer_settime timer_gettime timer_getoverrun timer_delete timerfd_create timerfd_settime timerfd_gettime", nil},
	{Allow, "waiting for events",
		"epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2 eventfd eventfd2 signalfd signalfd4 " +
			"inotify_init inotify_init1 inotify_add_watch inotify_rm_watch", nil},
	{Allow, "sockets that exist",
		"connect accept accept4 bind listen recvfrom recvmsg recvmmsg shutdown getsockname getpeername getsockopt", nil},
	{Allow, "but no urgent data, which no program that tasks run needs (CVE-2025-38236 on Unix sockets)",
		"sendto sendmmsg", noUrgent(3)},
	{Allow, "the same",
		"sendmsg", noUrgent(2)},
	{Allow, "but no protocol on top of a connection: kernel TLS and ESP in TCP or UDP (CVE-2023-0461, CVE-2026-23239, CVE-2026-43284)",
		"setsockopt", noUpper},
	{Allow, "System V memory, semaphores and queues, in an ipc namespace of the task's own",
		"shmget shmat shmctl shmdt semget semop semctl semtimedop msgget msgsnd msgrcv msgctl", nil},
	{Allow, "but no new namespace: each opens kernel code that wants root outside (CVE-2022-0185, CVE-2023-32233)",
		"clone unshare", noNamespace},
	{Allow, "but only families that a task's network has; others load modules (CVE-2017-6074, and in 2026 CVE-2026-31431 of AF_ALG and CVE-2026-43500 of AF_RXRPC)",
		"socket", families},
	{Allow, "pairs of Unix sockets",
		"socketpair", unixOnly},
	{Allow, "but no input into terminals, no line discipline, no project or flag of a file",
		"ioctl", ioctls},
	{Allow, "fifos, sockets and files; a device 0/0 would be a whiteout",
		"mknod", noDevice(1)},
	{Allow, "the same",
		"mknodat", noDevice(2)},
	{Allow, "asking and Linux itself; others weaken address layout (bubblewrap's and systemd's rule)",
		"personality", plainPersonality},
	{Refuse, "mounts and roots",
		"mount umount2 pivot_root chroot mount_setattr move_mount open_tree open_tree_attr fsopen fsconfig fsmount " +
			"fspick statmount listmount listns setns", nil},
	{Refuse, "rings that pass the filter by",
		"io_uring_setup io_uring_enter io_uring_register", nil},
	{Refuse, "programs in the kernel, counters, probes",
		"bpf perf_event_open uprobe uretprobe userfaultfd memfd_secret", nil},
	{Refuse, "other processes' memory and descriptors, PID 1's among them",
		"ptrace process_vm_readv process_vm_writev process_madvise process_mrelease pidfd_getfd kcmp migrate_pages " +
			"move_pages mbind set_mempolicy_home_node", nil},
	{Refuse, "keys: one keyring per user, shared by all its sandboxes",
		"add_key request_key keyctl", nil},
	{Refuse, "files by handle, past any mount",
		"name_to_handle_at open_by_handle_at fanotify_init fanotify_mark", nil},
	{Refuse, "quotas and file flags; an owner could take its files out of its project",
		"quotactl quotactl_fd file_setattr", nil},
	{Refuse, "the machine: kernel log, clock, modules, power, ports, name",
		"syslog settimeofday clock_settime clock_adjtime adjtimex init_module finit_module delete_module kexec_load " +
			"kexec_file_load reboot swapon swapoff acct iopl ioperm vhangup sethostname setdomainname modify_ldt " +
			"lsm_get_self_attr lsm_set_self_attr lsm_list_modules", nil},
	{Absent, "libc falls back to clone, whose flags can be seen",
		"clone3", nil},
	{Absent, "one task could take every context of the machine (fs.aio-max-nr); databases fall back to threads",
		"io_setup io_destroy io_getevents io_pgetevents io_submit io_cancel", nil},
	{Absent, "counted for all tasks together (RLIMIT_MSGQUEUE), and Landlock has no rule for where they lie",
		"mq_open mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr", nil},
	{Absent, "gone from the kernel, or never in it",
		"uselib ustat sysfs _sysctl create_module get_kernel_syms query_module nfsservctl getpmsg putpmsg afs_syscall " +
			"tuxcall security set_thread_area get_thread_area lookup_dcookie epoll_ctl_old epoll_wait_old remap_file_pages " +
			"vserver", nil},
}

var (
	noNamespace = []Refusal{{[]Cond{{0, unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER |
		unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWTIME, true, []uint32{0}}}, unix.EPERM}}

	families = []Refusal{
		{[]Cond{{0, every, true, []uint32{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}}}, unix.EAFNOSUPPORT},
		{[]Cond{{0, every, false, []uint32{unix.AF_NETLINK}}, {2, every, true, []uint32{unix.NETLINK_ROUTE}}}, unix.EPROTONOSUPPORT},
		{[]Cond{{0, every, false, []uint32{unix.AF_INET, unix.AF_INET6}}, {1, 0xf, true, []uint32{unix.SOCK_STREAM, unix.SOCK_DGRAM}}}, unix.EPERM},
		{[]Cond{{0, every, false, []uint32{unix.AF_INET, unix.AF_INET6}}, // Go asks for MPTCP first and wants just this error
			{2, every, true, []uint32{0, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6}}}, unix.EPROTONOSUPPORT},
	}

	unixOnly = []Refusal{{[]Cond{{0, every, true, []uint32{unix.AF_UNIX}}}, unix.EAFNOSUPPORT}}

	ioctls = []Refusal{
		{[]Cond{{1, every, false, []uint32{unix.TIOCSTI, tioclinux}}}, unix.EPERM},                                                     // typing into a terminal (CVE-2017-5226)
		{[]Cond{{1, every, false, []uint32{unix.TIOCSETD, unix.TIOCCONS}}}, unix.EPERM},                                                // line disciplines load modules (CVE-2017-2636)
		{[]Cond{{1, every, false, []uint32{fsSetXattr, fsSetFlags, fsSetFlags32}}}, unix.EPERM},                                        // project ids and flags of files
		{[]Cond{{1, every, false, []uint32{unix.FS_IOC_SET_ENCRYPTION_POLICY, unix.FS_IOC_ADD_ENCRYPTION_KEY, fsVerity}}}, unix.EPERM}, // what the box could not read or undo
	}

	noUpper = []Refusal{
		{[]Cond{{1, every, false, []uint32{unix.SOL_TCP}}, {2, every, false, []uint32{unix.TCP_ULP}}}, unix.EPERM},
		{[]Cond{{1, every, false, []uint32{unix.SOL_UDP}}, {2, every, false, []uint32{unix.UDP_ENCAP}}}, unix.EPERM},
	}

	plainPersonality = []Refusal{{[]Cond{{0, every, true, []uint32{0, 0xffffffff}}}, unix.EPERM}}
)

// Requests that x/sys has no name for on x86-64.
const (
	tioclinux    = 0x541c
	fsSetXattr   = 0x401c5820 // FS_IOC_FSSETXATTR
	fsSetFlags   = 0x40086602 // FS_IOC_SETFLAGS
	fsSetFlags32 = 0x40046602 // FS_IOC32_SETFLAGS
	fsVerity     = 0x40806685 // FS_IOC_ENABLE_VERITY
)

func noUrgent(arg int) []Refusal {
	return []Refusal{{[]Cond{{arg, unix.MSG_OOB, true, []uint32{0}}}, unix.EPERM}}
}

func noDevice(arg int) []Refusal {
	return []Refusal{{[]Cond{{arg, unix.S_IFMT, false, []uint32{unix.S_IFCHR, unix.S_IFBLK}}}, unix.EPERM}}
}
