// SPDX-License-Identifier: Apache-2.0

#include "fault.h"

#ifdef DDLEMU_FAULTS

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// DDLEMU_FAULT is one of
//
//	delay NS             each message is delivered NS later
//	slow PERCENT         all bytes take PERCENT longer than the rate asked for says
//	late N NS            one in N is delivered NS later
//	stall NS PERIOD      the thread that sends and receives stands still for NS in
//	                     every PERIOD
static struct {
	char kind[16];
	long long a, b;
	int read;
} fault;

static void read_fault(void)
{
	const char *s = getenv("DDLEMU_FAULT");
	if (s != NULL && sscanf(s, "%15s %lld %lld", fault.kind, &fault.a, &fault.b) < 2)
		abort();
	fault.read = 1;
}

void fault_stall(int64_t now)
{
	if (!fault.read)
		read_fault();
	if (strcmp(fault.kind, "stall") != 0 || now % fault.b >= fault.a)
		return;
	int64_t until = now - now % fault.b + fault.a;
	struct timespec t;
	do
		clock_gettime(CLOCK_MONOTONIC, &t);
	while (t.tv_sec * 1000000000ll + t.tv_nsec < until);
}

int64_t fault_rate(int64_t dur)
{
	if (!fault.read)
		read_fault();
	return strcmp(fault.kind, "slow") == 0 ? dur + dur * fault.a / 100 : dur;
}

int64_t fault_delay(uint64_t i)
{
	if (!fault.read)
		read_fault();
	if (strcmp(fault.kind, "delay") == 0)
		return fault.a;
	if (strcmp(fault.kind, "late") == 0 && i % (uint64_t)fault.a == 0)
		return fault.b;
	return 0;
}

#endif
