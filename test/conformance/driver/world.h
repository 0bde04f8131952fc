// SPDX-License-Identifier: Apache-2.0
//
// The two ranks of a case: two processes on two emulated nodes. One thread runs the case, or several run it at once, as
// NCCL's communicators do. Sockets connect the ranks, as in NCCL's bootstrap.
#ifndef CONFORMANCE_WORLD_H
#define CONFORMANCE_WORLD_H

#include <stddef.h>
#include <stdint.h>

#include "net.h"

#define TEAM 4 // threads of a rank, if several run a case
#define LANES 2 // sockets between the ranks, for each of these threads
#define PATIENCE 45 // seconds: the longest wait of a rank

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
	const char *why; // it is not for the other versions
	int slow; // runs only with -all
	long mebibytes; // of free memory that it needs
	const char *env[6]; // added to the environment of every case
	// What the ranks must, and must not, write to stderr.
	const char *says, *never_says[3];
};

// Runs a case, prints its result in one line, and returns the exit status.
enum outcome { PASS, FAIL, SKIP };
enum outcome run_case(const struct test_case *, const struct options *);

// Ends the case. Of several failures the first is reported.
_Noreturn void fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
// Notes what this rank is doing, for the report if it hangs.
void doing(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

// Loads the plugin and calls init, once for all threads of the rank.
void begin(struct end *);

void put(struct end *, int lane, const void *, size_t);
void get(struct end *, int lane, void *, size_t);
// Returns when the other rank has called it too.
void meet(struct end *, int lane);

int64_t now_ns(void);

#endif
