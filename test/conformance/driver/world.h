// SPDX-License-Identifier: Apache-2.0
//
// The two ranks of a case: two processes on two emulated nodes, with one thread that
// runs the case or with several that run it at once, as NCCL's communicators do.
// Between them are sockets, as NCCL's bootstrap is.
#ifndef CONFORMANCE_WORLD_H
#define CONFORMANCE_WORLD_H

#include <stddef.h>
#include <stdint.h>

#include "net.h"

#define TEAM 4 // threads of a rank, where a case is run by several
#define LANES 2 // sockets between the ranks, for each of these threads
#define PATIENCE 45 // seconds that a rank waits for anything

enum mode { ALONE, TOGETHER };

struct options {
	const char *lib;
	int version;
	enum mode mode;
	uint64_t seed;
};

// One thread of one rank.
struct end {
	int rank; // 0 or 1
	int thread;
	const struct options *opt;
	struct net net;
	int lane[LANES];
};

struct test_case {
	const char *name;
	void (*run)(struct end *);
	int together; // several threads may run it at once
	int first, last; // versions, 0: all
	const char *why; // not the others
	int slow; // too long for every run of the tests
	long mebibytes; // of memory that have to be free
	const char *env[6]; // beside what every case has
	// What the ranks must and must not have written to stderr by their end.
	const char *says, *never_says[3];
};

// Runs a case and says how it went in one line; returns the exit status.
enum outcome { PASS, FAIL, SKIP };
enum outcome run_case(const struct test_case *, const struct options *);

// Ends the case. Where several things fail, the first is told.
_Noreturn void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
// Says what this rank is at, for when it never gets further.
void doing(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

// Loads the plugin and inits it, once for all threads of the rank.
void begin(struct end *);

void put(struct end *, int lane, const void *, size_t);
void get(struct end *, int lane, void *, size_t);
// Returns when the other rank is here too.
void meet(struct end *, int lane);

int64_t now_ns(void);

#endif
