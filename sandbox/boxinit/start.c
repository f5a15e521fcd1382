//go:build ignore

/*
 * What box-init needs of a C library, and no more. glibc's start of a static
 * program asks the processor for everything that it knows of itself, which a
 * virtual machine answers by leaving the guest each time: a third of a
 * millisecond in every sandbox, two and a half times as much as all the rest
 * of an exec. And whatever isn't in PID 1 can't be turned against it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef __x86_64__
#error "system calls of other processors are made in another way"
#endif

static int error; /* there is one thread */

int *__errno_location(void) { return &error; }

static long raw(long nr, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;
	__asm__ volatile("syscall" : "=a"(ret) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
	return ret;
}

static long call(long nr, long a, long b, long c, long d, long e, long f)
{
	long ret = raw(nr, a, b, c, d, e, f);
	if (ret < 0 && ret > -4096) {
		error = (int)-ret;
		return -1;
	}
	return ret;
}

#define CALL(nr, ...) CALL_(nr, ##__VA_ARGS__, 0, 0, 0, 0, 0, 0)
#define CALL_(nr, a, b, c, d, e, f, ...) call(SYS_##nr, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

int main(void);

/* The kernel begins here, with a stack that is aligned to 16 bytes. */
__asm__(".globl _start\n_start:\n\txor %ebp, %ebp\n\tcall main\n\tmov %eax, %edi\n\tcall _exit\n");

void _exit(int code)
{
	for (;;)
		CALL(exit_group, code);
}

long syscall(long nr, ...)
{
	va_list l;
	long a[6];
	va_start(l, nr);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(l, long);
	va_end(l);
	return call(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int open(const char *path, int flags, ...) { return (int)CALL(open, path, flags, 0); } /* nothing is made */
int close(int fd) { return (int)CALL(close, fd); }
ssize_t read(int fd, void *to, size_t n) { return CALL(read, fd, to, n); }
ssize_t write(int fd, const void *from, size_t n) { return CALL(write, fd, from, n); }
ssize_t recvmsg(int fd, struct msghdr *m, int flags) { return CALL(recvmsg, fd, m, flags); }
int pipe2(int fd[2], int flags) { return (int)CALL(pipe2, fd, flags); }
int dup2(int from, int to) { return (int)CALL(dup2, from, to); }
int fstat(int fd, struct stat *st) { return (int)CALL(fstat, fd, st); }
int chdir(const char *path) { return (int)CALL(chdir, path); }
mode_t umask(mode_t mask) { return (mode_t)CALL(umask, mask); }
int execve(const char *path, char *const args[], char *const env[]) { return (int)CALL(execve, path, args, env); }
pid_t fork(void) { return (pid_t)CALL(fork); }
pid_t waitpid(pid_t pid, int *status, int options) { return (pid_t)CALL(wait4, pid, status, options); }
pid_t setsid(void) { return (pid_t)CALL(setsid); }
int kill(pid_t pid, int sig) { return (int)CALL(kill, pid, sig); }
pid_t getpid(void) { return (pid_t)CALL(getpid); }
uid_t getuid(void) { return (uid_t)CALL(getuid); }
uid_t geteuid(void) { return (uid_t)CALL(geteuid); }
gid_t getgid(void) { return (gid_t)CALL(getgid); }

int fcntl(int fd, int what, ...)
{
	va_list l;
	va_start(l, what);
	long arg = va_arg(l, long);
	va_end(l);
	return (int)CALL(fcntl, fd, what, (int)arg);
}

int prctl(int what, ...)
{
	va_list l;
	unsigned long a[4];
	va_start(l, what);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(l, unsigned long);
	va_end(l);
	return (int)CALL(prctl, what, a[0], a[1], a[2], a[3]);
}

/* The kernel's sets of signals have 64 bits. */
int sigfillset(sigset_t *s)
{
	memset(s, 0xff, sizeof *s);
	return 0;
}

int sigprocmask(int how, const sigset_t *set, sigset_t *old) { return (int)CALL(rt_sigprocmask, how, set, old, 8); }
int sigwaitinfo(const sigset_t *set, siginfo_t *info) { return (int)CALL(rt_sigtimedwait, set, info, 0, 8); }

/* Memory is asked for a few times, and goes with the process. It is zero. */
void *malloc(size_t n)
{
	void *p = (void *)CALL(mmap, 0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? NULL : p;
}

void *calloc(size_t n, size_t size)
{
	size_t all;
	if (__builtin_mul_overflow(n, size, &all)) {
		error = ENOMEM;
		return NULL;
	}
	return malloc(all);
}

/* gcc calls these where it likes, so they must not look like themselves to it. */
void *memset(void *to, int c, size_t n)
{
	void *p = to;
	__asm__ volatile("rep stosb" : "+D"(p), "+c"(n) : "a"(c) : "memory");
	return to;
}

void *memcpy(void *to, const void *from, size_t n)
{
	void *p = to;
	__asm__ volatile("rep movsb" : "+D"(p), "+S"(from), "+c"(n) : : "memory");
	return to;
}

void *memchr(const void *in, int c, size_t n)
{
	for (const unsigned char *p = in; n > 0; p++, n--)
		if (*p == (unsigned char)c)
			return (void *)p;
	return NULL;
}
