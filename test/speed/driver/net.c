// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "net.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../../nccl-plugin/abi.h"
#include "bare.h"
#include "peer.h"

// NCCL has at most 8 steps per channel in flight, and at most 32 requests.
enum { STEPS = 8, REQUESTS = 32, CONNECTIONS = 128, BUFFER = 64 << 20, ROUNDS = 1000 };

static struct net_v8 *net;
static void *comms[CONNECTIONS], *handles_mr[CONNECTIONS];
static char *buffer;

static void check(int result, const char *what)
{
	if (result != 0) {
		fprintf(stderr, "speed: %s gave %d\n", what, result);
		_exit(1);
	}
}

static void no_log(int level, unsigned long flags, const char *file, int line, const char *fmt, ...)
{
	(void)level, (void)flags, (void)file, (void)line, (void)fmt;
}

static void load(void)
{
	setenv("RANK", side == 0 ? "0" : "1", 1);
	setenv("WORLD_SIZE", "2", 1);
	void *library = dlopen(getenv("SPEED_PLUGIN"), RTLD_NOW | RTLD_LOCAL);
	if (library == NULL || (net = dlsym(library, "ncclNetPlugin_v8")) == NULL) {
		fprintf(stderr, "speed: load the plugin: %s\n", dlerror());
		_exit(1);
	}
	check(net->init(no_log), "init");
	buffer = aligned_alloc(4096, BUFFER);
	memset(buffer, 1, BUFFER);
}

// connect_one makes connection i over NIC dev. The side from sends.
static void connect_one(int i, int dev, int from)
{
	void *listen = NULL, *device = NULL;
	if (side != from)
		check(net->listen(dev, shared->handles[i], &listen), "listen");
	barrier();
	while (comms[i] == NULL) {
		check(side == from ? net->connect(dev, shared->handles[i], &comms[i], &device)
				   : net->accept(listen, &comms[i], &device),
			"connect");
		sched_yield();
	}
	if (listen != NULL)
		check(net->close_listen(listen), "closeListen");
	check(net->reg_mr(comms[i], buffer, BUFFER, NET_PTR_HOST, &handles_mr[i]), "regMr");
	barrier();
}

static void *post(int i, char *data, size_t size)
{
	void *request = NULL;
	int n = (int)size, tag = 0;
	void *p = data;
	if (side == 0)
		check(net->isend(comms[i], data, n, tag, handles_mr[i], &request), "isend");
	else
		check(net->irecv(comms[i], 1, &p, &n, &tag, &handles_mr[i], &request), "irecv");
	return request;
}

static int is_done(void *request)
{
	int done = 0, size;
	check(net->test(request, &done, &size), "test");
	return done;
}

// stream is the messages in flight of one connection, oldest first.
struct stream {
	void *request[REQUESTS];
	uint64_t posted, done;
	size_t size;
	int connection, depth;
};

// iterate posts what it can, tests the oldest message and returns the number of completed messages.
static int iterate(struct stream *s, uint64_t last)
{
	if (s->posted < last && s->posted - s->done < (uint64_t)s->depth) {
		char *data = buffer + (s->size > BUFFER / 2 ? 0 : s->posted % (BUFFER / s->size) * s->size);
		if ((s->request[s->posted % REQUESTS] = post(s->connection, data, s->size)) != NULL)
			s->posted++;
	}
	if (s->posted == s->done || !is_done(s->request[s->done % REQUESTS]))
		return 0;
	s->done++;
	return 1;
}

// run_streams moves messages messages on each of n connections.
static void run_streams(struct stream *s, int n, uint64_t messages)
{
	uint64_t left = messages * (uint64_t)n;
	while (left > 0) {
		int done = 0;
		for (int i = 0; i < n; i++)
			done += iterate(&s[i], messages);
		left -= (uint64_t)done;
		if (done == 0)
			sched_yield(); // as NCCL's progress thread does
	}
}

static size_t message;
static int count;
static int links;
static double limit;

static void throughput_side(void)
{
	load();
	connect_one(0, 0, 0);
	struct stream s = { .size = message, .depth = STEPS };
	barrier();
	int64_t start = now_ns();
	run_streams(&s, 1, total_of(message) / message);
	if (side == 1)
		printf("plugin %zu %.0f\n", message, (double)total_of(message) / ((double)(now_ns() - start) / 1e9));
	barrier();
}

void net_throughput(size_t n)
{
	message = n;
	together(throughput_side);
}

// wait_for tests until a request is done, without yielding.
static void wait_for(void *request)
{
	unsigned rounds = 0;
	while (!is_done(request))
		if (++rounds % 256 == 0)
			sched_yield();
}

static void pingpong_side(void)
{
	enum { TURNS = 20000 };
	load();
	connect_one(0, 0, 0);
	connect_one(1, 0, 1);
	barrier();
	int64_t start = now_ns();
	int me = side;
	for (int i = 0; i < 2 * TURNS; i++) {
		int sender = i % 2; // of this message, on connection i % 2
		void *request;
		side = me == sender ? 0 : 1; // post sends for side 0
		while ((request = post(sender, buffer, 8)) == NULL)
			;
		wait_for(request);
	}
	side = me;
	if (side == 1)
		printf("pingpong 8 %.1f\n", (double)(now_ns() - start) / (2.0 * TURNS));
	barrier();
}

void net_pingpong(void) { together(pingpong_side); }

static void rate_side(void)
{
	enum { MESSAGES = 500000 };
	load();
	connect_one(0, 0, 0);
	struct stream s = { .size = 8, .depth = REQUESTS };
	barrier();
	int64_t start = now_ns();
	run_streams(&s, 1, MESSAGES);
	if (side == 1)
		printf("rate 8 %.0f\n", MESSAGES / ((double)(now_ns() - start) / 1e9));
	barrier();
}

void net_rate(void) { together(rate_side); }

// timed_posts posts REQUESTS messages and returns the time in ns.
static int64_t timed_posts(void **request)
{
	int64_t start = now_ns();
	for (int i = 0; i < REQUESTS; i++)
		request[i] = post(0, buffer + 64 * i, 8);
	return now_ns() - start;
}

// timed_tests tests messages that have arrived and returns the time in ns.
static int64_t timed_tests(void **request)
{
	int64_t start = now_ns();
	for (int i = 0; i < REQUESTS; i++)
		wait_for(request[i]);
	return now_ns() - start;
}

static void calls_side(void)
{
	void *request[REQUESTS];
	int64_t posts = 0, tests = 0;
	load();
	connect_one(0, 0, 0);
	for (int round = 0; round < ROUNDS; round++) {
		for (int end = 1; end >= 0; end--) { // the receiver posts first, and tests first
			if (side == end)
				posts += timed_posts(request);
			barrier();
		}
		for (int end = 1; end >= 0; end--) {
			if (side == end)
				tests += timed_tests(request);
			barrier();
		}
	}
	const double each = (double)ROUNDS * REQUESTS;
	printf("%s 8 %.1f\n%s 8 %.1f\n", side == 0 ? "isend" : "irecv", (double)posts / each,
		side == 0 ? "test_send" : "test_recv", (double)tests / each);
	fflush(stdout);
	barrier();
}

void net_calls(void) { together(calls_side); }

static void idle_side(void)
{
	load();
	for (int i = 0; i < count; i++)
		connect_one(i, 0, i % 2);
	double before = cpu_seconds();
	struct timespec pause = { 2, 0 };
	nanosleep(&pause, NULL);
	if (side == 1)
		printf("idle %d %.4f\n", count, (cpu_seconds() - before) / 2);
	fflush(stdout);
	barrier();
}

void net_idle(int connections)
{
	count = connections;
	together(idle_side);
}

static void spread_side(void)
{
	struct stream s[CONNECTIONS] = { 0 };
	load();
	for (int i = 0; i < count; i++) {
		connect_one(i, 0, 0);
		s[i] = (struct stream){ .size = 64 << 10, .depth = STEPS, .connection = i };
	}
	const uint64_t each = 8192 / (uint64_t)count;
	barrier();
	int64_t start = now_ns();
	run_streams(s, count, each);
	if (side == 1)
		printf("connections %d %.0f\n", count,
			(double)(each * (uint64_t)count * (64 << 10)) / ((double)(now_ns() - start) / 1e9));
	fflush(stdout);
	barrier();
}

void net_spread(int connections)
{
	count = connections;
	together(spread_side);
}

// Each flow streams for limit seconds; flow i uses NIC i % links. The receiver begins to count after a tenth of the
// time, when all flows run.
static void flows_side(void)
{
	struct stream s[CONNECTIONS] = { 0 };
	uint64_t before[CONNECTIONS] = { 0 };
	load();
	for (int i = 0; i < count; i++) {
		connect_one(i, i % links, 0);
		s[i] = (struct stream){ .size = 128 << 10, .depth = STEPS, .connection = i };
	}
	barrier();
	int64_t start = now_ns(), from = start + (int64_t)(limit * 1e8), until = start + (int64_t)(limit * 1e9),
		counted = 0, now;
	double cpu = 0;
	while ((now = now_ns()) < until) {
		int done = 0;
		for (int i = 0; i < count; i++)
			done += iterate(&s[i], UINT64_MAX);
		if (counted == 0 && now >= from) {
			counted = now;
			cpu = cpu_seconds();
			for (int i = 0; i < count; i++)
				before[i] = s[i].done;
		}
		if (done == 0)
			sched_yield();
	}
	double seconds = (double)(now - counted) / 1e9, bytes = 0;
	for (int i = 0; i < count; i++) {
		double got = (double)((s[i].done - before[i]) * s[i].size);
		bytes += got;
		if (side == 1)
			printf("flow %d %.0f\n", i, got / seconds);
	}
	shared->result[side] = cpu_seconds() - cpu;
	barrier();
	if (side == 1)
		printf("flows_cpu %d %.3f\n", count, (shared->result[0] + shared->result[1]) / (bytes / 1e9));
	fflush(stdout);
	barrier();
}

void net_flows(int n, int flows, double seconds)
{
	links = n;
	count = flows;
	limit = seconds;
	together(flows_side);
}
