// SPDX-License-Identifier: Apache-2.0

#include "fault.h"

#ifdef DDLEMU_FAULTS

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// DDLEMU_FAULT is one of
//
//	delay NS             each message is delivered NS later
//	slow PERCENT         all bytes take PERCENT longer than the rate asked for says
//	late N NS            one in N is delivered NS later
//	stall NS PERIOD      the thread that sends and receives stands still for NS in
//	                     every PERIOD
//	flip N               one message in N has a byte changed
//	early BYTES          this many bytes are written before they are due
//	lose N               one send in N is dropped
//	leakfd N             each connection leaves N descriptors open
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

// is says whether the fault is of this kind.
static int is(const char *kind)
{
	if (!fault.read)
		read_fault();
	return strcmp(fault.kind, kind) == 0;
}

void fault_stall(int64_t now)
{
	if (!is("stall") || now % fault.b >= fault.a)
		return;
	int64_t until = now - now % fault.b + fault.a;
	struct timespec t;
	do
		clock_gettime(CLOCK_MONOTONIC, &t);
	while (t.tv_sec * 1000000000ll + t.tv_nsec < until);
}

int64_t fault_rate(int64_t dur) { return is("slow") ? dur + dur * fault.a / 100 : dur; }

int64_t fault_delay(uint64_t i)
{
	if (is("delay"))
		return fault.a;
	if (is("late") && i % (uint64_t)fault.a == 0)
		return fault.b;
	return 0;
}

void fault_flip(uint64_t i, char *data, uint64_t size)
{
	if (is("flip") && size > 0 && (i + 1) % (uint64_t)fault.a == 0)
		data[size / 2] ^= 0x10;
}

uint64_t fault_early(void) { return is("early") ? (uint64_t)fault.a : 0; }

// What is lost looks sent.
static struct lost {
	struct ddlemu_request request;
	uint64_t size;
} lost;

static int test_lost(struct ddlemu_request *request, int *done, size_t *size)
{
	*done = 1;
	if (size != NULL)
		*size = ((struct lost *)request)->size;
	return DDLEMU_SUCCESS;
}

bool fault_lose(uint64_t size, struct ddlemu_request **request)
{
	static const struct ddlemu_ops ops = { .test = test_lost };
	static struct ddlemu_comm nowhere = { .ops = &ops };
	static long long sends;
	if (!is("lose") || ++sends % fault.a != 0)
		return false;
	lost = (struct lost){ .request.comm = &nowhere, .size = size };
	*request = &lost.request;
	return true;
}

void fault_leak(void)
{
	for (long long i = 0; is("leakfd") && i < fault.a; i++)
		if (dup(0) < 0)
			abort();
}

#endif
