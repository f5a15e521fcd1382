//go:build ignore

/*
 * Attempts to get out of a sandbox, or to take what isn't the task's. Run with a
 * folder and, optionally, names: each attempt runs in a process of its own and
 * writes a line to results in the folder: its name, "got" or "refused", and why.
 * Refused is what a kernel says no to: EPERM, EACCES, EROFS, ENOSYS or an
 * unsupported family; any other error means that the attempt got past the gate
 * and only its arguments were wrong. Nothing here harms the machine on which a
 * control succeeds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/quota.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

static char zero[4096];

/* A child that clone or fork made is only counted. */
static long child(long pid)
{
	if (pid == 0)
		_exit(0);
	if (pid > 0)
		waitpid((pid_t)pid, NULL, 0);
	return pid;
}

static long writable(const char *p) { return open(p, O_WRONLY); }
static long readable(const char *p)
{
	int fd = open(p, O_RDONLY);
	if (fd < 0)
		return -1;
	errno = EACCES; /* an empty file gave nothing away */
	return read(fd, zero, 1) > 0 ? 0 : -1;
}
static long new_file(const char *p)
{
	int fd = open(p, O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (fd >= 0)
		unlink(p);
	return fd;
}

/* Namespaces */
static long clone_user(void) { return child(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)); }
static long clone_net(void) { return child(syscall(SYS_clone, CLONE_NEWNET | SIGCHLD, 0, 0, 0, 0)); }
static long clone_mount_high_bits(void) { return child(syscall(SYS_clone, 1UL << 32 | CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0)); }
static long clone3_user(void)
{
	uint64_t a[11] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};
	return child(syscall(435, a, sizeof a));
}
static long unshare_user(void) { return syscall(SYS_unshare, CLONE_NEWUSER); }
static long unshare_time(void) { return syscall(SYS_unshare, 0x80); }
static long setns_self(void) { return syscall(SYS_setns, open("/proc/self/ns/uts", O_RDONLY), 0); }

/* Mounts and roots */
static const char *spot(void)
{
	mkdir("m", 0700);
	return "m";
}
static long mount_tmpfs(void) { return mount("x", spot(), "tmpfs", 0, 0); }
static long mount_bind(void) { return mount("/tmp", spot(), 0, MS_BIND, 0); }
static long mount_proc(void) { return mount("proc", spot(), "proc", 0, 0); }
static long mount_sysfs(void) { return mount("sysfs", spot(), "sysfs", 0, 0); }
static long mount_cgroup(void) { return mount("cgroup2", spot(), "cgroup2", 0, 0); }
static long remount_root(void) { return mount("", "/", 0, MS_REMOUNT | MS_BIND, 0); }
static long unmask(void) { return umount2("/proc/keys", MNT_DETACH); }
static long fs_open(void) { return syscall(430, "tmpfs", 0); }
static long tree_open(void) { return syscall(428, AT_FDCWD, "/", 1); }
static long tree_open_attr(void) { return syscall(467, AT_FDCWD, "/", 1, zero, 32); }
static long mount_move(void) { return syscall(429, AT_FDCWD, "/tmp", AT_FDCWD, "/tmp", 0); }
static long mount_attr(void) { return syscall(442, AT_FDCWD, "/", 0, zero, 32); }
static long mount_list(void)
{
	uint64_t req[4] = {24, ~0ULL, 0, 0}, out[8];
	return syscall(458, req, out, 8, 0);
}
static long change_root(void) { return chroot("/"); }
static long pivot(void) { return syscall(SYS_pivot_root, "/", "/"); }
static long handle_get(void)
{
	struct { unsigned n; int t; char b[128]; } h = {128, 0, {0}};
	int id;
	return syscall(SYS_name_to_handle_at, AT_FDCWD, "/", &h, &id, 0);
}
static long handle_open(void)
{
	struct { unsigned n; int t; char b[128]; } h = {8, 1, {0}};
	int at = open("/", O_RDONLY);
	return syscall(SYS_open_by_handle_at, at, &h, O_RDONLY);
}
static long fanotify(void) { return syscall(SYS_fanotify_init, 0x200 /* FID */, O_RDONLY); }

/* Kernel surface */
static long io_uring(void) { return syscall(425, 4, zero); }
static long bpf_map(void)
{
	uint32_t a[30] = {2 /* array */, 4, 4, 1};
	return syscall(321, 0, a, 48);
}
static long perf(void)
{
	struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE, .size = sizeof a, .exclude_kernel = 1};
	return syscall(SYS_perf_event_open, &a, 0, -1, -1, 0);
}
static long uffd(void) { return syscall(323, 1); }
static long secret_memory(void) { return syscall(447, 0); }
static long ldt(void) { return syscall(SYS_modify_ldt, 0, zero, 64); }
static long no_randomize(void) { return syscall(SYS_personality, 0x0040000); }
static long kernel_log(void) { return syscall(SYS_syslog, 3, zero, 100); }
static long module_load(void) { return syscall(SYS_init_module, zero, 16, ""); }
static long kexec(void) { return syscall(SYS_kexec_load, 0, 0, NULL, 0); }
static long swap(void) { return syscall(SYS_swapon, "/etc/passwd", 0); }
static long restart(void) { return syscall(SYS_reboot, 0, 0, 0, 0); }
static long ports(void) { return syscall(SYS_iopl, 3); }
static long port_range(void) { return syscall(SYS_ioperm, 0x80, 1, 1); }
static long set_time(void) { return syscall(SYS_settimeofday, NULL, NULL); }
static long set_clock(void)
{
	struct timespec t = {0, -1};
	return syscall(SYS_clock_settime, CLOCK_REALTIME, &t);
}
static long tune_clock(void)
{
	struct timex t = {0};
	return syscall(SYS_clock_adjtime, CLOCK_REALTIME, &t);
}
static long accounting(void) { return syscall(SYS_acct, NULL); }
static long host_name(void) { return syscall(SYS_sethostname, "evil", 4); }
static long hang_up(void) { return syscall(SYS_vhangup); }
static long quota(void) { return syscall(SYS_quotactl, 0x800001 << 8, NULL, 0, NULL); }
static long key_add(void) { return syscall(SYS_add_key, "user", "x", "y", 1, -1); }
static long key_get(void) { return syscall(SYS_keyctl, 0, -3, 1); }
static long key_join(void) { return syscall(SYS_keyctl, 1, "_ses.other"); }
static long key_request(void) { return syscall(SYS_request_key, "user", "x", NULL, -1); }
static long i386_call(void)
{
	long r;
	__asm__ volatile("int $0x80" : "=a"(r) : "a"(20) /* getpid */ : "memory", "r8", "r9", "r10", "r11");
	errno = ENOSYS;
	return r > 0 ? 0 : -1;
}
static long x32_call(void) { return syscall(0x40000000 | 39); }

/* Sockets */
static long raw_socket(void) { return socket(AF_INET, SOCK_RAW, 1); }
static long packet_socket(void) { return socket(AF_PACKET, SOCK_DGRAM, 0); }
static long vsock(void) { return socket(40, SOCK_STREAM, 0); }
static long vsock_high_bits(void) { return syscall(SYS_socket, 1UL << 32 | 40, SOCK_STREAM, 0); }
static long alg_socket(void) { return socket(38, SOCK_SEQPACKET, 0); }
static long netfilter_socket(void) { return socket(AF_NETLINK, SOCK_RAW, 12); }
static long uevent_socket(void) { return socket(AF_NETLINK, SOCK_RAW, 15); }
static long mptcp_socket(void) { return socket(AF_INET, SOCK_STREAM, 262); }
static long sctp_socket(void) { return socket(AF_INET, SOCK_STREAM, 132); }
static long rxrpc_socket(void) { return socket(33, SOCK_DGRAM, AF_INET); }
static long xfrm_socket(void) { return socket(AF_NETLINK, SOCK_RAW, 6); }
/* Any family, or protocol of netlink, beyond a task's own; both lists are longer than what one kernel has. */
static long other_families(void)
{
	errno = EAFNOSUPPORT;
	for (int family = 2; family < 50; family++)
		if (family != AF_INET && family != AF_INET6 && family != AF_NETLINK)
			for (int type = 1; type <= 5; type++) {
				int fd = socket(family, type, 0);
				if (fd >= 0)
					return fd;
			}
	errno = EAFNOSUPPORT;
	return -1;
}
static long other_netlinks(void)
{
	for (int proto = 1; proto < 32; proto++) {
		int fd = socket(AF_NETLINK, SOCK_RAW, proto);
		if (fd >= 0)
			return fd;
	}
	errno = EPROTONOSUPPORT;
	return -1;
}
static long urgent_data(void)
{
	int fd[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) != 0)
		exit(3);
	return send(fd[0], "x", 1, MSG_OOB);
}
static long upper_protocol(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof a;
	int l = socket(AF_INET, SOCK_STREAM, 0), c = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(l, (void *)&a, n) != 0 || listen(l, 1) != 0 || getsockname(l, (void *)&a, &n) != 0 || connect(c, (void *)&a, n) != 0)
		exit(3);
	long r = setsockopt(c, IPPROTO_TCP, 31 /* TCP_ULP */, "tls", 3);
	if (r != 0 && errno == ENOENT)
		return 0; /* it was looked for: this kernel has none */
	return r;
}
static long esp_in_udp(void)
{
	int type = 2; /* UDP_ENCAP_ESPINUDP */
	return setsockopt(socket(AF_INET, SOCK_DGRAM, 0), IPPROTO_UDP, 100 /* UDP_ENCAP */, &type, sizeof type);
}
static long packet_mark(void)
{
	int mark = 1;
	return setsockopt(socket(AF_INET, SOCK_STREAM, 0), SOL_SOCKET, SO_MARK, &mark, sizeof mark);
}
static long transparent(void)
{
	int on = 1;
	return setsockopt(socket(AF_INET, SOCK_STREAM, 0), IPPROTO_IP, 19 /* IP_TRANSPARENT */, &on, sizeof on);
}
static long tcp_repair(void)
{
	int on = 1;
	return setsockopt(socket(AF_INET, SOCK_STREAM, 0), IPPROTO_TCP, 19 /* TCP_REPAIR */, &on, sizeof on);
}
static long udplite_socket(void) { return socket(AF_INET, SOCK_DGRAM, 136); }

/* Other processes; 1 is PID 1, in a control the attempts' own parent */
static long trace_me(void) { return ptrace(PTRACE_TRACEME, 0, 0, 0); }
static long trace_init(void) { return ptrace(PTRACE_SEIZE, 1, 0, 0); }
static long read_init(void)
{
	char b[8];
	struct iovec l = {b, 8}, r = {(void *)0x400000, 8};
	return syscall(SYS_process_vm_readv, 1, &l, 1, &r, 1, 0);
}
static long init_fd(void)
{
	int fd = (int)syscall(434, 1, 0);
	return syscall(438, fd, 0, 0);
}
static long init_memory(void) { return open("/proc/1/mem", O_RDWR); }
static long init_environ(void) { return readable("/proc/1/environ"); }
static long init_root(void) { return open("/proc/1/root/etc", O_RDONLY); }
static long init_cwd(void) { return open("/proc/1/cwd", O_RDONLY); }
static long init_exe(void)
{
	long r = open("/proc/1/exe", O_WRONLY);
	if (r < 0 && errno == ETXTBSY)
		return 0; /* only that it runs kept it from us */
	return r;
}
static long compare(void) { return syscall(SYS_kcmp, 1, getpid(), 1, 0, 0); }
static long move_memory(void) { return syscall(SYS_move_pages, 0, 0, NULL, NULL, NULL, 0); }

/* Terminals */
static int terminal(void)
{
	int m = open("/dev/ptmx", O_RDWR | O_NOCTTY);
	char name[32];
	int n, z = 0;
	if (m < 0 || ioctl(m, TIOCSPTLCK, &z) != 0 || ioctl(m, TIOCGPTN, &n) != 0)
		exit(3);
	snprintf(name, sizeof name, "/dev/pts/%d", n);
	setsid();
	return open(name, O_RDWR);
}
static long type_in(void) { return ioctl(terminal(), 0x5412, "x"); }
static long type_in_high_bits(void) { return syscall(SYS_ioctl, terminal(), 1UL << 32 | 0x5412, "x"); }
static long line_discipline(void)
{
	int n = 0;
	return ioctl(terminal(), 0x5423, &n);
}

/* Files */
static long device_null(void) { return mknod("null", S_IFCHR | 0600, 1 << 8 | 3); }
static long device_disk(void) { return mknod("disk", S_IFBLK | 0600, 8 << 8); }
static long device_whiteout(void) { return mknod("wh", S_IFCHR, 0); }
static long device_whiteout_tmp(void)
{
	unlink("/tmp/wh");
	return mknod("/tmp/wh", S_IFCHR, 0);
}
static long overlay_xattr(void) { return setxattr(".", "trusted.overlay.opaque", "y", 1, 0); }
static long redirect_xattr(void) { return setxattr(".", "trusted.overlay.redirect", "/", 1, 0); }
static long file_capability(void)
{
	unsigned char cap[20] = {1, 0, 0, 2, 0xff, 0xff, 0xff, 0xff};
	close(open("capable", O_CREAT | O_RDWR, 0700));
	return setxattr("capable", "security.capability", cap, 20, 0);
}
static long project_clear(void)
{
	struct { uint32_t x, e, n, p, c; char pad[8]; } a;
	int fd = open("project", O_CREAT | O_RDWR, 0600);
	if (ioctl(fd, 0x801c581f, &a) != 0)
		memset(&a, 0, sizeof a);
	return ioctl(fd, 0x401c5820, &a);
}
static long flags_set(void)
{
	long f = 0x80; /* noatime */
	return ioctl(open("flags", O_CREAT | O_RDWR, 0600), 0x40086602, &f);
}
static long flags_set_new(void) { return syscall(469, AT_FDCWD, ".", zero, 24, 0); }
static long give_away(void)
{
	close(open("mine", O_CREAT | O_RDWR, 0600));
	return chown("mine", 0, 0);
}
static long write_usr(void) { return new_file("/usr/evil"); }
static long write_etc(void) { return new_file("/etc/evil"); }
static long write_root(void) { return new_file("/evil"); }
static long write_dev(void) { return new_file("/dev/evil"); }
static long write_passwd(void) { return writable("/etc/passwd"); }
static long write_group(void) { return writable("/etc/group"); }
static long read_shadow(void) { return readable("/etc/shadow"); }
static long device_console(void) { return open("/dev/console", O_RDWR | O_NOCTTY); }
static long device_kmsg(void) { return open("/dev/kmsg", O_RDONLY); }
static long device_kvm(void) { return open("/dev/kvm", O_RDWR); }
static long device_fuse(void) { return open("/dev/fuse", O_RDWR); }
static long device_loop(void) { return open("/dev/loop-control", O_RDWR); }
static long device_tun(void) { return open("/dev/net/tun", O_RDWR); }

/* What /proc says of the machine */
static long core_pattern(void) { return writable("/proc/sys/kernel/core_pattern"); }
static long modprobe_path(void) { return writable("/proc/sys/kernel/modprobe"); }
static long proc_hostname(void) { return writable("/proc/sys/kernel/hostname"); }
static long overcommit(void) { return writable("/proc/sys/vm/overcommit_memory"); }
static long binfmt(void) { return writable("/proc/sys/fs/binfmt_misc/register"); }
static long sysrq(void) { return writable("/proc/sysrq-trigger"); }
static long irq(void) { return writable("/proc/irq/default_smp_affinity"); }
static long kcore(void) { return readable("/proc/kcore"); }
static long keys(void) { return readable("/proc/keys"); }
static long timer_list(void) { return readable("/proc/timer_list"); }
static long kallsyms(void) { return readable("/proc/kallsyms"); }
static long interrupts(void) { return readable("/proc/interrupts"); }
static long iomem(void) { return readable("/proc/iomem"); }
static long slabinfo(void) { return readable("/proc/slabinfo"); }
static long vmallocinfo(void) { return readable("/proc/vmallocinfo"); }
static long kpagecount(void) { return open("/proc/kpagecount", O_RDONLY) < 0 ? -1 : readable("/proc/kpagecount"); }
/* Whatever /proc says of the machine and none of the attempts above names; not all kernels have all of them. */
static long machine_files(void)
{
	static const char *all[] = {"/proc/key-users", "/proc/kmsg", "/proc/kpageflags", "/proc/kpagecgroup", "/proc/latency_stats", "/proc/sched_debug", "/proc/timer_stats",
		"/proc/config.gz", "/proc/modules", "/proc/ioports", "/proc/pressure/memory", "/proc/acpi/wakeup", "/proc/scsi/scsi", "/proc/asound/cards"};
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
		int fd = open(all[i], O_RDONLY | O_NONBLOCK); /* kmsg waits */
		if (fd >= 0 && read(fd, zero, 1) != 0)
			return 0;
	}
	errno = EACCES;
	return -1;
}
/* Nothing of the machine's settings can be written, whatever it is. */
static long settings(void)
{
	static const char *all[] = {"/proc/sys/kernel/panic", "/proc/sys/kernel/pid_max", "/proc/sys/kernel/randomize_va_space", "/proc/sys/vm/drop_caches", "/proc/sys/vm/swappiness",
		"/proc/sys/fs/file-max", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv4/ping_group_range", "/proc/sys/user/max_user_namespaces", "/proc/sys/kernel/shmmax",
		"/proc/sys/kernel/msgmnb", "/proc/sys/fs/mqueue/queues_max", "/proc/irq/default_smp_affinity", "/proc/bus/pci/00/00.0", "/proc/fs/xfs/xqm", "/proc/mtrr"};
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
		if (writable(all[i]) >= 0)
			return 0;
	errno = EACCES;
	return -1;
}
static long sys_kernel(void)
{
	int fd = open("/sys/kernel", O_RDONLY);
	if (fd < 0 && errno == ENOENT)
		errno = EACCES;
	return fd;
}

/* Being someone else, being more */
static long become_root(void) { return setuid(0); }
static long become_group(void) { return setgid(0); }
static long groups(void)
{
	gid_t g = 0;
	return syscall(SYS_setgroups, 1, &g);
}
static long capability(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[200];
	unsigned long long v;
	errno = EPERM;
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "Cap%*[a-zA-Z]:%llx", &v) == 1 && v != 0)
			return 0;
	return -1;
}
static long privileges_off(void)
{
	errno = EPERM;
	return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0 ? 0 : -1;
}
static long no_filter(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[200];
	int n;
	errno = EPERM;
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "Seccomp:%d", &n) == 1)
			return n == 2 ? -1 : 0;
	return 0;
}
static long core_limit(void)
{
	struct rlimit l = {1 << 20, 1 << 20};
	return setrlimit(RLIMIT_CORE, &l);
}
static long nice_up(void) { return setpriority(PRIO_PROCESS, 0, -20); }
static long oom_score(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY);
	return fd < 0 ? -1 : write(fd, "-500", 4);
}
static long deadline(void)
{
	struct { uint32_t size, policy; uint64_t flags; int32_t nice; uint32_t priority; uint64_t runtime, deadline, period; } a =
		{48, 6 /* SCHED_DEADLINE */, 0, 0, 0, 1000000, 100000000, 100000000};
	return syscall(314 /* sched_setattr */, 0, &a, 0);
}
static long io_real_time(void) { return syscall(SYS_ioprio_set, 1, 0, 1 << 13); }
static long real_time(void)
{
	struct sched_param p = {1};
	return sched_setscheduler(0, SCHED_RR, &p);
}
static long lock_memory(void)
{
	void *p = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mlock(p, 64 << 20) == 0)
		return 0;
	errno = EPERM; /* ENOMEM here: over the limit */
	return -1;
}
static long inherited(void)
{
	for (int fd = 3; fd < 256; fd++) /* results is opened after this */
		if (fcntl(fd, F_GETFD) >= 0)
			return 0;
	errno = EACCES;
	return -1;
}
static long nosuid_missing(void)
{
	FILE *f = fopen("/proc/self/mountinfo", "r");
	char line[8192], opts[256];
	errno = EPERM;
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "%*s %*s %*s %*s %*s %255s", opts) == 1 && !strstr(opts, "nosuid"))
			return 0;
	return -1;
}
/* What the machine's root may write to lies on mounts that can't be written. */
static long read_only_missing(void)
{
	static const char *all[] = {"/proc/bus", "/proc/driver", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger", "/proc/tty", "/dev", "/usr", "/run", "/etc/passwd", "/run/box", "/usr/lib/gurtos"};
	struct statvfs st;
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
		if (statvfs(all[i], &st) == 0 && !(st.f_flag & ST_RDONLY))
			return 0;
	errno = EROFS;
	return -1;
}
/* Each of these that this kernel has is hidden, whoever may read it: a file is /dev/null, a folder is empty. */
static long mask_missing(void)
{
	static const char *all[] = {"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/kmsg", "/proc/kpagecount", "/proc/kpageflags",
		"/proc/kpagecgroup", "/proc/latency_stats", "/proc/sched_debug", "/proc/scsi", "/proc/timer_list", "/proc/timer_stats", "/proc/vmallocinfo", "/proc/slabinfo", "/proc/config.gz",
		"/proc/kallsyms", "/proc/modules", "/proc/pressure", "/proc/iomem", "/proc/ioports"};
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
		struct stat st;
		if (stat(all[i], &st) != 0)
			continue;
		struct statfs fs;
		if (S_ISDIR(st.st_mode) ? statfs(all[i], &fs) != 0 || fs.f_type != 0x01021994 /* TMPFS_MAGIC */ || st.st_nlink != 2 : !S_ISCHR(st.st_mode) || st.st_rdev != makedev(1, 3))
			return 0;
	}
	errno = EACCES;
	return -1;
}
/* Only single devices, and terminals, lie on mounts where devices work. */
static long nodev_missing(void)
{
	FILE *f = fopen("/proc/self/mountinfo", "r");
	char line[8192], root[4096], at[4096], opts[256];
	errno = EPERM;
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "%*s %*s %*s %4095s %4095s %255s", root, at, opts) == 3 && !strstr(opts, "nodev") && strcmp(root, "/null") != 0 &&
		    strcmp(at, "/dev") != 0 && strcmp(at, "/dev/pts") != 0)
			return 0;
	return -1;
}
/* No program runs from where nobody expects any. */
static long noexec_missing(void)
{
	static const char *all[] = {"/proc", "/proc/sys", "/dev", "/dev/pts", "/dev/shm", "/run/box"};
	struct statvfs st;
	for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
		if (statvfs(all[i], &st) == 0 && !(st.f_flag & ST_NOEXEC))
			return 0;
	errno = EACCES;
	return -1;
}
static long zombies(void)
{
	int fd[2], n = 0;
	pid_t all[100];
	if (pipe(fd) != 0)
		exit(3);
	for (int i = 0; i < 20; i++)
		if (fork() == 0) {
			for (int j = 0; j < 5; j++)
				if (fork() == 0) {
					pid_t self = getpid();
					_exit(write(fd[1], &self, sizeof self) < 0);
				}
			_exit(0);
		}
	for (int i = 0; i < 20; i++)
		wait(NULL);
	close(fd[1]);
	while (n < 100 && read(fd[0], &all[n], sizeof *all) > 0)
		n++;
	errno = EPERM;
	for (int tries = 0; tries < 500; tries++, usleep(10000)) { /* PID 1 may be busy */
		int alive = 0, dead = 0;
		for (int i = 0; i < n; i++) {
			char p[64], line[200], state;
			snprintf(p, sizeof p, "/proc/%d/stat", all[i]);
			int f = open(p, O_RDONLY);
			if (f < 0)
				continue;
			ssize_t got = read(f, line, sizeof line - 1);
			close(f);
			line[got > 0 ? got : 0] = 0;
			char *q = strrchr(line, ')');
			if (!q || sscanf(q, ") %c", &state) != 1)
				continue;
			if (state == 'Z')
				dead++;
			else
				alive++;
		}
		errno = EPERM;
		if (alive == 0 && dead < 20)
			return -1;
		if (alive == 0 && tries > 100)
			return 0;
	}
	return 0;
}

#define A(f) {#f, f}
static struct { const char *name; long (*f)(void); } all[] = {
	A(clone_user), A(clone_net), A(clone_mount_high_bits), A(clone3_user), A(unshare_user), A(unshare_time), A(setns_self),
	A(mount_tmpfs), A(mount_bind), A(mount_proc), A(mount_sysfs), A(mount_cgroup), A(remount_root), A(unmask), A(fs_open), A(tree_open), A(tree_open_attr), A(mount_move), A(mount_attr), A(mount_list), A(change_root), A(pivot), A(handle_get), A(handle_open), A(fanotify),
	A(io_uring), A(bpf_map), A(perf), A(uffd), A(secret_memory), A(ldt), A(no_randomize), A(kernel_log), A(module_load), A(kexec), A(swap), A(restart), A(ports), A(port_range), A(set_time), A(set_clock), A(tune_clock), A(accounting), A(host_name), A(hang_up), A(quota),
	A(key_add), A(key_get), A(key_join), A(key_request), A(i386_call), A(x32_call),
	A(raw_socket), A(packet_socket), A(vsock), A(vsock_high_bits), A(alg_socket), A(netfilter_socket), A(uevent_socket), A(mptcp_socket), A(sctp_socket), A(udplite_socket), A(rxrpc_socket), A(xfrm_socket), A(other_families), A(other_netlinks), A(urgent_data), A(upper_protocol), A(esp_in_udp), A(packet_mark), A(transparent), A(tcp_repair),
	A(trace_me), A(trace_init), A(read_init), A(init_fd), A(init_memory), A(init_environ), A(init_root), A(init_cwd), A(init_exe), A(compare), A(move_memory),
	A(type_in), A(type_in_high_bits), A(line_discipline),
	A(device_null), A(device_disk), A(device_whiteout), A(device_whiteout_tmp), A(overlay_xattr), A(redirect_xattr), A(file_capability), A(project_clear), A(flags_set), A(flags_set_new), A(give_away),
	A(write_usr), A(write_etc), A(write_root), A(write_dev), A(write_passwd), A(write_group), A(read_shadow), A(device_console), A(device_kmsg), A(device_kvm), A(device_fuse), A(device_loop), A(device_tun),
	A(core_pattern), A(modprobe_path), A(proc_hostname), A(overcommit), A(binfmt), A(sysrq), A(irq), A(kcore), A(keys), A(timer_list), A(kallsyms), A(interrupts), A(iomem), A(slabinfo), A(vmallocinfo), A(kpagecount), A(machine_files), A(settings), A(sys_kernel),
	A(become_root), A(become_group), A(groups), A(capability), A(privileges_off), A(no_filter), A(core_limit), A(nice_up), A(oom_score), A(deadline), A(io_real_time), A(real_time), A(lock_memory), A(inherited), A(nosuid_missing), A(nodev_missing), A(noexec_missing), A(read_only_missing), A(mask_missing), A(zombies),
};

int main(int argc, char **argv)
{
	if (argc < 2 || chdir(argv[1]) != 0)
		return 2;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		int wanted = argc == 2;
		for (int a = 2; a < argc; a++)
			wanted |= strcmp(argv[a], all[i].name) == 0;
		if (!wanted)
			continue;
		pid_t pid = fork();
		if (pid == 0) {
			alarm(120);
			errno = 0;
			long r = all[i].f();
			int err = errno;
			int refused = r < 0 && (err == EPERM || err == EACCES || err == EROFS || err == ENOSYS || err == EAFNOSUPPORT || err == EPROTONOSUPPORT || err == ENOENT || err == ESRCH || err == ENXIO);
			FILE *f = fopen("results", "a");
			fprintf(f, "%s %s %s\n", all[i].name, refused ? "refused" : "got", r < 0 ? strerror(err) : "success");
			fclose(f);
			_exit(0);
		}
		int st;
		waitpid(pid, &st, 0);
		if (WIFSIGNALED(st)) {
			FILE *f = fopen("results", "a");
			fprintf(f, "%s refused killed by %s\n", all[i].name, strsignal(WTERMSIG(st)));
			fclose(f);
		} else if (WEXITSTATUS(st) != 0)
			return 3;
	}
	return 0;
}
