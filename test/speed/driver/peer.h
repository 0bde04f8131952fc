// SPDX-License-Identifier: Apache-2.0
//
// Two processes that measure together: a page that both map, a barrier in it, and a clock.
#ifndef DDLEMU_SPEED_PEER_H
#define DDLEMU_SPEED_PEER_H

#include <stddef.h>
#include <stdint.h>

struct shared {
	uint64_t arrived[2]; // barrier: number of arrivals of each side
	char handles[128][128]; // plugin handles, from the receiver to the sender
	_Alignas(128) uint64_t ball; // the cache line that bounces
	_Alignas(128) uint64_t written;
	_Alignas(128) uint64_t consumed;
	uint64_t address; // of the other side's buffer
	int32_t pid;
	double result[2];
};

extern struct shared *shared;
extern int side; // 0 sends, 1 receives

// together runs f in two processes on separate cores, and returns when both have ended.
void together(void (*f)(void));

void barrier(void);
int64_t now_ns(void);
double cpu_seconds(void); // of this process

// relax is called in each round of a wait. After a while it yields.
void relax(unsigned *rounds);

// map_shared returns memory that both sides of later calls of together see.
void *map_shared(size_t size);

void fail(const char *what) __attribute__((noreturn));

#endif
