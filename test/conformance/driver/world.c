// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "traffic.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// How long a case may take in all, in seconds.
#define LIMIT 120

// What the ranks report to the process that started them.
static struct report {
	int failed;
	char why[1024];
	char doing[2][128];
} *report;

static __thread int my_rank = -1;

void fail(const char *fmt, ...)
{
	if (!__atomic_exchange_n(&report->failed, 1, __ATOMIC_ACQ_REL)) {
		size_t n = 0;
		if (my_rank >= 0)
			n = (size_t)snprintf(report->why, sizeof report->why, "rank %d: ", my_rank);
		va_list args;
		va_start(args, fmt);
		vsnprintf(report->why + n, sizeof report->why - n, fmt, args);
		va_end(args);
	}
	_exit(1);
}

void doing(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	if (my_rank >= 0)
		vsnprintf(report->doing[my_rank], sizeof report->doing[0], fmt, args);
	va_end(args);
}

int64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

// --- between the ranks

// gone fails the case because the other rank has ended, after a pause: the process that started the ranks then sees
// first how the other rank ended, which says more.
static _Noreturn void gone(const char *how)
{
	sleep(5);
	fail("the other rank %s", how);
}

void put(struct end *e, int lane, const void *data, size_t n)
{
	if (send(e->lane[lane], data, n, MSG_NOSIGNAL) != (ssize_t)n)
		gone("can't be told anything");
}

void get(struct end *e, int lane, void *data, size_t n)
{
	ssize_t got = recv(e->lane[lane], data, n, MSG_WAITALL);
	if (got < 0 && errno == EAGAIN)
		fail("the other rank sent nothing for %d s", PATIENCE);
	if (got != (ssize_t)n)
		gone("is gone");
}

void meet(struct end *e, int lane)
{
	char c = 0;
	put(e, lane, &c, 1);
	get(e, lane, &c, 1);
}

// --- a rank

void begin(struct end *e)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static struct net net;
	doing("load the plugin and init it");
	pthread_mutex_lock(&lock);
	if (net.table == NULL) {
		net_load(&net, e->opt->lib, e->opt->version);
		CHECK(net_init(&net, 1));
	}
	e->net = net;
	pthread_mutex_unlock(&lock);
}

struct start {
	const struct test_case *c;
	struct end *e;
};

static void *thread(void *arg)
{
	struct start *s = arg;
	my_rank = s->e->rank;
	s->c->run(s->e);
	doing("end the process");
	return NULL;
}

// rank runs the case in one process.
static _Noreturn void rank(const struct test_case *c, struct end *ends, int threads, int out)
{
	char text[8];
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(out, 1);
	dup2(out, 2);
	snprintf(text, sizeof text, "%d", ends->rank);
	setenv("RANK", text, 1);
	setenv("WORLD_SIZE", "2", 1);
	for (int i = 0; c->env[i] != NULL; i++)
		putenv((char *)c->env[i]);
	pthread_t t[TEAM];
	struct start s[TEAM];
	for (int i = 0; i < threads; i++) {
		s[i] = (struct start){ c, &ends[i] };
		if (pthread_create(&t[i], NULL, thread, &s[i]) != 0)
			fail("start a thread");
	}
	for (int i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	exit(0);
}

// --- the process that started them

static void close_lanes(struct end ends[TEAM])
{
	for (int i = 0; i < TEAM * LANES; i++)
		close(ends[i / LANES].lane[i % LANES]);
}

static void open_lanes(struct end ends[2][TEAM])
{
	struct timeval patience = { .tv_sec = PATIENCE };
	for (int i = 0; i < TEAM * LANES; i++) {
		int pair[2];
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
			fail("socketpair: %s", strerror(errno));
		for (int k = 0; k < 2; k++) {
			setsockopt(pair[k], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
			ends[k][i / LANES].lane[i % LANES] = pair[k];
		}
	}
}

static void note(const char *fmt, ...)
{
	if (report->failed)
		return;
	report->failed = 1;
	va_list args;
	va_start(args, fmt);
	vsnprintf(report->why, sizeof report->why, fmt, args);
	va_end(args);
}

// wait_for waits for the ranks and ends both when one has failed.
static void wait_for(const pid_t pid[2])
{
	int64_t end = now_ns() + LIMIT * 1000000000ll;
	int left = 2, gone[2] = { 0 };
	while (left > 0) {
		for (int i = 0; i < 2; i++) {
			int status;
			if (gone[i] || waitpid(pid[i], &status, WNOHANG) != pid[i])
				continue;
			gone[i] = 1;
			left--;
			if (WIFSIGNALED(status))
				note("rank %d was killed by signal %d (%s): it was to %s", i, WTERMSIG(status),
					strsignal(WTERMSIG(status)), report->doing[i]);
			else if (WEXITSTATUS(status) != 0)
				note("rank %d exited with %d: it was to %s", i, WEXITSTATUS(status), report->doing[i]);
		}
		if (left > 0 && now_ns() > end)
			note("not done after %d s: rank 0 was to %s, rank 1 was to %s", LIMIT, report->doing[0],
				report->doing[1]);
		for (int i = 0; i < 2 && report->failed; i++)
			if (!gone[i])
				kill(pid[i], SIGKILL);
		usleep(1000);
	}
}

// check_stderr checks what the ranks wrote to stderr, and prints it when the case has failed.
static void check_stderr(const struct test_case *c, int out)
{
	static char text[1 << 16];
	ssize_t n = pread(out, text, sizeof text - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	if (c->says != NULL && strstr(text, c->says) == NULL)
		note("nothing on stderr says %s", c->says);
	for (int i = 0; c->never_says[i] != NULL; i++)
		if (strstr(text, c->never_says[i]) != NULL)
			note("stderr says %s", c->never_says[i]);
	if (report->failed)
		fputs(text, stderr);
}

// available is the memory that is free without swapping.
static long available(void)
{
	char line[128];
	long kib = 0;
	FILE *f = fopen("/proc/meminfo", "r");
	while (f != NULL && fgets(line, sizeof line, f) != NULL)
		if (sscanf(line, "MemAvailable: %ld kB", &kib) == 1)
			break;
	if (f != NULL)
		fclose(f);
	return kib >> 10;
}

enum outcome run_case(const struct test_case *c, const struct options *o)
{
	if ((c->first && o->version < c->first) || (c->last && o->version > c->last)) {
		printf("SKIP %s\n", c->why);
		return SKIP;
	}
	if (c->mebibytes > 0 && available() < c->mebibytes) {
		printf("SKIP needs %ld MiB of memory, %ld are free\n", c->mebibytes, available());
		return SKIP;
	}
	report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int out = memfd_create("output", MFD_CLOEXEC);
	if (report == MAP_FAILED || out < 0) {
		perror("conformance");
		return FAIL;
	}
	struct end ends[2][TEAM];
	for (int i = 0; i < 2 * TEAM; i++)
		ends[i / TEAM][i % TEAM] = (struct end){ .rank = i / TEAM, .thread = i % TEAM, .opt = o };
	open_lanes(ends);
	pid_t pid[2];
	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		if (pid[i] < 0)
			fail("fork: %s", strerror(errno));
		if (pid[i] == 0) {
			close_lanes(ends[1 - i]);
			rank(c, ends[i], o->mode == TOGETHER ? TEAM : 1, out);
		}
	}
	close_lanes(ends[0]);
	close_lanes(ends[1]);
	wait_for(pid);
	check_stderr(c, out);
	printf(report->failed ? "FAIL %s\n" : "PASS\n", report->why);
	return report->failed ? FAIL : PASS;
}
