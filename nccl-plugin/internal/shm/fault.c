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
//	slow PERCENT         serialization takes PERCENT longer than the link's rate says
//	late N NS            one message in N is delivered NS later
//	stall NS PERIOD      the calling thread stops for NS in every PERIOD ns
//	hold NS PERIOD       the same, for threads that play what a node does on a real clock
//	flip N               one message in N has a byte changed
//	early BYTES          BYTES bytes are copied before they are due
//	lose N               one send in N is dropped
//	leakfd N             each connection leaves N descriptors open
//	clock US N           shaper/engine/clock/delay.h
//	scheduler N          the same file
//	gpu 1                the software CUDA counts as a GPU with NVIDIA's driver (nccl-plugin/gpu.c)
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

// is_fault says whether the fault is of this kind.
static int is_fault(const char *kind)
{
	if (!fault.read)
		read_fault();
	return strcmp(fault.kind, kind) == 0;
}

// stall stops the calling thread, if the fault is of this kind and it is time to.
static void stall(const char *kind, int64_t now)
{
	if (!is_fault(kind) || now % fault.b >= fault.a)
		return;
	int64_t until = now - now % fault.b + fault.a;
	struct timespec t;
	do
		clock_gettime(CLOCK_MONOTONIC, &t);
	while (t.tv_sec * 1000000000ll + t.tv_nsec < until);
}

void fault_stall(int64_t now) { stall("stall", now); }

void fault_hold(int64_t now) { stall("hold", now); }

int64_t fault_rate(int64_t dur) { return is_fault("slow") ? dur + dur * fault.a / 100 : dur; }

int64_t fault_delay(uint64_t i)
{
	if (is_fault("delay"))
		return fault.a;
	if (is_fault("late") && i % (uint64_t)fault.a == 0)
		return fault.b;
	return 0;
}

void fault_flip(uint64_t i, char *data, uint64_t size)
{
	if (is_fault("flip") && size > 0 && (i + 1) % (uint64_t)fault.a == 0)
		data[size / 2] ^= 0x10;
}

uint64_t fault_early(void) { return is_fault("early") ? (uint64_t)fault.a : 0; }

// The request of a dropped send: it is complete at once.
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
	if (!is_fault("lose") || ++sends % fault.a != 0)
		return false;
	lost = (struct lost){ .request.comm = &nowhere, .size = size };
	*request = &lost.request;
	return true;
}

void fault_leak(void)
{
	for (long long i = 0; is_fault("leakfd") && i < fault.a; i++)
		if (dup(0) < 0)
			abort();
}

#endif
