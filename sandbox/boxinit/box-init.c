//go:build ignore

/*
 * box-init is PID 1 of a sandbox. boxd has parked it behind every namespace,
 * without a capability and with no_new_privs set; what it runs arrives on
 * descriptor 3 once a task is there. It loads the system call filter, starts
 * the one program, reaps whatever is orphaned, forwards signals, and reports
 * on descriptor 3 how the program ended. When it exits, the kernel kills
 * everything else in the sandbox.
 *
 * The protocol is described in program.go, which speaks the other side.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BOX 3 /* the socket to boxd */

/* What is reported: the kinds of program.go, in its order. */
enum { STARTED = 1, EXITED, SIGNALED, NOT_RUN, NOT_SET_UP };

/* Steps of the set-up, the value of a NOT_SET_UP report in its upper half. */
enum { READ = 1, PRIVILEGES, KEYRING, FOLDER, FENCE, FILTER, FORK, FILES };

static void report(uint32_t kind, int32_t value)
{
	int32_t r[2] = {(int32_t)kind, value};
	ssize_t n;
	do
		n = write(BOX, r, sizeof r);
	while (n < 0 && errno == EINTR);
}

static void __attribute__((noreturn)) give_up(int step)
{
	report(NOT_SET_UP, step << 16 | (errno & 0xffff));
	_exit(125);
}

static void read_all(void *to, size_t n)
{
	char *p = to;
	while (n > 0) {
		ssize_t got = read(BOX, p, n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			if (got == 0)
				_exit(0); /* boxd let go of a sandbox that waited */
			give_up(READ);
		}
		p += got;
		n -= (size_t)got;
	}
}

/* Nothing is left that a program could use to regain a privilege. */
static void check_privileges(void)
{
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct d[2];
	memset(d, 0, sizeof d);
	errno = EPERM;
	if (getpid() != 1 || getuid() == 0 || geteuid() == 0 || getgid() == 0)
		give_up(PRIVILEGES);
	if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
		give_up(PRIVILEGES);
	if (syscall(SYS_capget, &h, d) != 0)
		give_up(PRIVILEGES);
	errno = EPERM;
	for (int i = 0; i < 2; i++)
		if (d[i].effective | d[i].permitted | d[i].inheritable)
			give_up(PRIVILEGES);
}

/*
 * The second fence where the kernel has Landlock: writing only where a task
 * may write at all, no abstract socket and no signal out of the sandbox. The
 * rules are those of the mounts, so nothing depends on it being there.
 */
static void fence(char **writable, uint32_t n)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	if (abi < 2) /* 1 can't rename between folders */
		return;
	struct {
		uint64_t fs, net, scoped; /* the kernel's landlock_ruleset_attr; older headers lack the end */
	} set = {0, 0, 0};
	uint64_t write = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
	                 LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
	                 LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
	                 LANDLOCK_ACCESS_FS_MAKE_SYM | 1ULL << 13 /* REFER */;
	/*
	 * Not TRUNCATE (ABI 3): the kernel asks for that right ahead at every
	 * open, reading ones too, and goes up all the folders for it, which
	 * makes an open a third dearer. What may not be written lies on
	 * read-only mounts.
	 */
	set.fs = write;
	size_t size = 8;
	if (abi >= 6) {
		set.scoped = 3; /* abstract Unix sockets, signals */
		size = 24;
	}
	int rules = (int)syscall(SYS_landlock_create_ruleset, &set, size, 0);
	if (rules < 0)
		give_up(FENCE);
	for (uint32_t i = 0; i < n; i++) {
		struct landlock_path_beneath_attr at = {.allowed_access = write};
		at.parent_fd = open(writable[i], O_PATH | O_CLOEXEC);
		if (at.parent_fd < 0)
			give_up(FENCE);
		struct stat st;
		if (fstat(at.parent_fd, &st) != 0)
			give_up(FENCE);
		if (!S_ISDIR(st.st_mode)) /* a device: what makes sense on a file only */
			at.allowed_access &= LANDLOCK_ACCESS_FS_WRITE_FILE;
		if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &at, 0) != 0)
			give_up(FENCE);
		close(at.parent_fd);
	}
	if (syscall(SYS_landlock_restrict_self, rules, 0) != 0)
		give_up(FENCE);
	close(rules);
}

#define MOST_FILES 8

/* Receives the program's files, which come with one byte of their own. */
static void receive(int *files, uint32_t n)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(MOST_FILES * sizeof(int))];
	} control;
	char byte;
	struct iovec io = {&byte, 1};
	struct msghdr msg = {.msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
	ssize_t got;
	do
		got = recvmsg(BOX, &msg, MSG_CMSG_CLOEXEC);
	while (got < 0 && errno == EINTR);
	struct cmsghdr *c = got == 1 ? CMSG_FIRSTHDR(&msg) : NULL;
	if (got >= 0)
		errno = EBADMSG;
	if (!c || c->cmsg_type != SCM_RIGHTS || c->cmsg_len != CMSG_LEN(n * sizeof(int)) || msg.msg_flags & MSG_CTRUNC)
		give_up(FILES);
	memcpy(files, CMSG_DATA(c), n * sizeof(int));
}

/* Puts the files at 3 and up; what must outlive that has to be above. */
static void place(int *files, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		files[i] = fcntl(files[i], F_DUPFD_CLOEXEC, 3 + MOST_FILES);
	for (uint32_t i = 0; i < n; i++)
		if (dup2(files[i], 3 + (int)i) < 0)
			_exit(126);
}

/* Cuts n strings, each ended by a zero byte, from *p. */
static char **strings(char **p, char *end, uint32_t n)
{
	char **out = calloc((size_t)n + 1, sizeof *out);
	if (!out)
		give_up(READ);
	for (uint32_t i = 0; i < n; i++) {
		char *z = memchr(*p, 0, (size_t)(end - *p));
		errno = EBADMSG;
		if (!z)
			give_up(READ);
		out[i] = *p;
		*p = z + 1;
	}
	return out;
}

int main(void)
{
	/* The task has our user: keep /proc/1/mem and its like root's. */
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	fcntl(BOX, F_SETFD, FD_CLOEXEC);
	check_privileges();

	struct {
		uint32_t size, filter, args, env, writable, files;
	} head;
	read_all(&head, sizeof head);
	errno = EMSGSIZE;
	if (head.size > 64u << 20 || head.filter == 0 || head.filter > BPF_MAXINSNS || head.args == 0 ||
	    head.args > head.size || head.env > head.size || head.writable > head.size ||
	    head.filter * sizeof(struct sock_filter) > head.size || head.files > MOST_FILES)
		give_up(READ);
	char *body = malloc(head.size);
	if (!body)
		give_up(READ);
	read_all(body, head.size);
	char *p = body + head.filter * sizeof(struct sock_filter), *end = body + head.size;
	char **args = strings(&p, end, head.args);
	char **env = strings(&p, end, head.env);
	char **writable = strings(&p, end, head.writable);
	char **dir = strings(&p, end, 1);
	int files[MOST_FILES];
	if (head.files > 0)
		receive(files, head.files);

	/* A keyring of its own; where its user has used up its keys, the filter alone keeps boxd's out of reach. */
	if (syscall(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */, NULL) < 0 && errno != EDQUOT && errno != ENOSYS)
		give_up(KEYRING);
	umask(077);
	if (chdir(dir[0]) != 0) /* again: the workspace came after the park */
		give_up(FOLDER);
	fence(writable, head.writable);
	struct sock_fprog prog = {(unsigned short)head.filter, (struct sock_filter *)body};
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog, 0, 0) != 0)
		give_up(FILTER);

	int failed[2];
	if (pipe2(failed, O_CLOEXEC) != 0)
		give_up(FORK);
	int told = fcntl(failed[1], F_DUPFD_CLOEXEC, 3 + MOST_FILES); /* out of the way of the files */
	close(failed[1]);
	if (told < 0)
		give_up(FORK);
	pid_t worker = fork();
	if (worker < 0)
		give_up(FORK);
	if (worker == 0) {
		setsid();
		int null = open("/dev/null", O_RDWR); /* not a pipe: tools read those instead of the folder */
		if (null >= 0)
			dup2(null, 0);
		if (null > 2)
			close(null);
		place(files, head.files);
		sigprocmask(SIG_UNBLOCK, &all, NULL);
		execve(args[0], args, env);
		int err = errno;
		if (write(told, &err, sizeof err) < 0)
			_exit(126);
		_exit(127);
	}
	close(told);
	for (uint32_t i = 0; i < head.files; i++)
		close(files[i]);
	int err = 0;
	ssize_t n;
	do
		n = read(failed[0], &err, sizeof err);
	while (n < 0 && errno == EINTR);
	if (n > 0) {
		report(NOT_RUN, err);
		_exit(127);
	}
	close(failed[0]);
	report(STARTED, 0);
	close(0);
	close(1);
	close(2);

	for (;;) {
		int sig = sigwaitinfo(&all, NULL);
		if (sig < 0)
			continue;
		if (sig != SIGCHLD) {
			kill(-worker, sig); /* its session is its own group */
			continue;
		}
		int status;
		pid_t pid;
		while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
			if (pid != worker)
				continue;
			if (WIFSIGNALED(status))
				report(SIGNALED, WTERMSIG(status));
			else
				report(EXITED, WEXITSTATUS(status));
			_exit(0);
		}
	}
}
