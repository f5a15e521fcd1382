//go:build ignore

/*
 * hog takes what a kernel counts for several tasks together.
 *   hog take WHAT      takes as much as it can get, tells how much on the broker's socket, and keeps it
 *   hog need WHAT N    ends with 0 when it gets N
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <mqueue.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const long MOST = 3000000;

static int box = -1; /* where taken things are told */

static long aio(long n)
{
	long got = 0;
	while (got < n) {
		unsigned long ctx = 0;
		if (syscall(SYS_io_setup, 1, &ctx) != 0)
			break;
		got++;
	}
	return got;
}

/* Signals that wait, each of which holds memory of the kernel. */
static long signals(long n)
{
	sigset_t s;
	sigemptyset(&s);
	sigaddset(&s, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &s, NULL);
	long got = 0;
	while (got < n && sigqueue(getpid(), SIGRTMIN, (union sigval){0}) == 0)
		got++;
	return got;
}

static long timers(long n)
{
	long got = 0;
	while (got < n) {
		timer_t t;
		struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
		if (timer_create(CLOCK_MONOTONIC, &e, &t) != 0)
			break;
		got++;
	}
	return got;
}

/* Locked memory, in pieces of 64 KiB. */
static long locked(long n)
{
	long got = 0;
	while (got < n) {
		void *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED || mlock(p, 65536) != 0)
			break;
		got++;
	}
	return got;
}

static long queues(long n)
{
	long got = 0;
	while (got < n) {
		char name[32];
		snprintf(name, sizeof name, "/q%ld", got);
		if (mq_open(name, O_CREAT | O_RDWR, 0600, NULL) < 0)
			break;
		got++;
	}
	return got;
}

static long processes(long n)
{
	long got = 0;
	while (got < n) {
		pid_t p = fork();
		if (p < 0)
			break;
		if (p == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
		got++;
	}
	return got;
}

static long pipes(long n)
{
	long got = 0;
	while (got < n) {
		int fd[2];
		if (pipe(fd) != 0)
			break;
		if (fcntl(fd[1], F_SETPIPE_SZ, 1 << 20) < 0)
			break;
		got++;
	}
	return got;
}

static long inotify(long n)
{
	long got = 0;
	while (got < n && inotify_init1(0) >= 0)
		got++;
	return got;
}

static long watches(long n)
{
	int fd = inotify_init1(0);
	long got = 0;
	while (got < n) {
		char name[64];
		snprintf(name, sizeof name, "/tmp/w%ld", got);
		int f = open(name, O_CREAT | O_WRONLY, 0600);
		if (f < 0)
			break;
		close(f);
		if (inotify_add_watch(fd, name, IN_MODIFY) < 0)
			break;
		got++;
	}
	return got;
}

static long epoll(long n)
{
	int e = epoll_create1(0);
	long got = 0;
	while (got < n) {
		int fd[2];
		if (pipe(fd) != 0)
			break;
		struct epoll_event ev = {.events = EPOLLIN};
		if (epoll_ctl(e, EPOLL_CTL_ADD, fd[0], &ev) != 0)
			break;
		got++;
	}
	return got;
}

/*
 * Open files, by as many processes as that needs: more than the kernel of a
 * machine with a few GB of memory would let all have together (fs.file-max).
 */
static long files(long n)
{
	long got = 0;
	if (n > 400000)
		n = 400000;
	for (;;) {
		int fd = 0;
		long here = 0;
		while (got + here < n && (fd = open("/dev/null", O_RDONLY)) >= 0)
			here++;
		got += here;
		if (got >= n || errno != EMFILE || here < 1000)
			return got;
		pid_t p = fork();
		if (p < 0)
			return got;
		if (p > 0)
			for (;;)
				pause();
		closefrom(box + 1);
	}
}

static long sysv(long n)
{
	long got = 0;
	while (got < n && msgget(IPC_PRIVATE, 0600) >= 0 && semget(IPC_PRIVATE, 1, 0600) >= 0 && shmget(IPC_PRIVATE, 4096, 0600) >= 0)
		got++;
	return got;
}

static const struct {
	const char *name;
	long (*take)(long);
} kinds[] = {{"aio", aio}, {"signals", signals}, {"timers", timers}, {"locked", locked}, {"queues", queues}, {"processes", processes}, {"pipes", pipes},
             {"inotify", inotify}, {"watches", watches}, {"epoll", epoll}, {"files", files}, {"sysv", sysv}};

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		if (strcmp(kinds[i].name, argv[2]) != 0)
			continue;
		if (strcmp(argv[1], "need") == 0) {
			long n = atol(argv[3]), got = kinds[i].take(n);
			if (got < n)
				fprintf(stderr, "%ld of %ld, then: %m\n", got, n);
			return got < n;
		}
		box = socket(AF_UNIX, SOCK_STREAM, 0);
		struct sockaddr_un to = {AF_UNIX, "/run/box/broker.sock"};
		if (connect(box, (struct sockaddr *)&to, sizeof to) != 0)
			return 3;
		long got = kinds[i].take(MOST);
		int why = errno;
		char text[100];
		int n = snprintf(text, sizeof text, "%ld, then: %s\n", got, strerror(why));
		if (write(box, text, n) != n)
			return 4;
		for (;;)
			pause();
	}
	return 2;
}
