// SPDX-License-Identifier: Apache-2.0
//
// What the software CUDA says of each message's purpose, and of its kernels (shaper/fabric/ledger/calls.h).

#include "purpose.h"

#include <unistd.h>

#include "../shaper/fabric/ledger/calls.h"
#include "glue.h"
#include "internal/transport/slots.h"

struct ddlemu_ledger_view purposes; // set once
const struct ddlemu_clock *purpose_clock;
int has_purpose_ledger;
int is_profiled; // NCCL has begun to call the profiler

void net_set_ledger(void *next, void *records, uint64_t mask, const void *virtual_clock)
{
	purposes = (struct ddlemu_ledger_view){ next, records, mask };
	purpose_clock = virtual_clock == NULL ? NULL : ((const struct ddlemu_clock_view *)virtual_clock)->clock;
	__atomic_store_n(&has_purpose_ledger, 1, __ATOMIC_RELEASE);
}

// --- kernels of the software CUDA

static __thread uint64_t launched_kernel, running_kernel; // by this thread; 0: none

static struct ddlemu_kernel_record *kernel_at(uint64_t number)
{
	return (struct ddlemu_kernel_record *)ledger_at(&purposes, number);
}

static uint64_t note_kernel(struct ddlemu_kernel_record k)
{
	uint64_t number;
	struct ddlemu_kernel_record *r = (struct ddlemu_kernel_record *)ledger_begin(&purposes, &number);
	k.number = r->number; // ledger_end sets it
	k.kind = DDLEMU_KERNEL;
	*r = k;
	ledger_end((struct ddlemu_record *)r, number);
	return number;
}

static uint64_t launch_kernel(uint64_t stream)
{
	launched_kernel =
		note_kernel((struct ddlemu_kernel_record){ .stream = (uint32_t)stream, .launched = purpose_now() });
	return launched_kernel;
}

void purpose_group(uint32_t group)
{
	if (ledger_has(&purposes, launched_kernel))
		kernel_at(launched_kernel)->group = group;
	launched_kernel = 0;
}

static void begin_kernel(uint64_t kernel)
{
	running_kernel = kernel;
	if (ledger_has(&purposes, kernel))
		kernel_at(kernel)->begun = purpose_now();
}

static void end_kernel(uint64_t kernel)
{
	running_kernel = 0;
	if (ledger_has(&purposes, kernel))
		kernel_at(kernel)->ended = purpose_now();
}

static void stream_computed(uint64_t stream, int64_t begun, int64_t ended)
{
	note_kernel((struct ddlemu_kernel_record){ .stream = (uint32_t)stream, .begun = begun, .ended = ended });
}

// --- tasks and their parts

// The number of a function that NCCL has given none.
#define ALL_GATHER_V 11

// NCCL's profiler says the same as a kernel, except for broadcasts: these have no events.
static uint32_t kernel_task(struct ddlemu_task_record t)
{
	const bool is_broadcast = t.func == 0 || t.func == ALL_GATHER_V;
	if (__atomic_load_n(&is_profiled, __ATOMIC_ACQUIRE) && !is_broadcast)
		return 0;
	uint64_t number;
	struct ddlemu_task_record *r = (struct ddlemu_task_record *)ledger_begin(&purposes, &number);
	t.number = r->number; // ledger_end sets it
	t.kind = DDLEMU_KERNEL_TASK;
	t.begun = purpose_now();
	*r = t;
	ledger_end((struct ddlemu_record *)r, number);
	if (ledger_has(&purposes, running_kernel))
		kernel_at(running_kernel)->kernel_group = t.group;
	return (uint32_t)number;
}

static uint32_t kernel_op(uint32_t task, int channel, int sends)
{
	uint64_t number;
	struct ddlemu_op_record *r = (struct ddlemu_op_record *)ledger_begin(&purposes, &number);
	*r = (struct ddlemu_op_record){ .number = r->number,
		.kind = DDLEMU_OP,
		.task = task,
		.pid = getpid(),
		.rank = -1,
		.peer = -1,
		.channel = (uint16_t)channel,
		.sends = (uint16_t)sends,
		.begun = purpose_now() };
	ledger_end((struct ddlemu_record *)r, number);
	return (uint32_t)number;
}

static void kernel_receives(const void *slot, uint32_t op)
{
	const uint64_t number = ddlemu_slot_record(slot);
	if (ledger_has(&purposes, number))
		ledger_at(&purposes, number)->op = op;
}

const void *net_ledger_calls(void)
{
	static const struct ddlemu_ledger_calls calls = {
		.version = DDLEMU_LEDGER_CALLS_VERSION,
		.task = kernel_task,
		.op = kernel_op,
		.sends = ddlemu_slot_sends,
		.receives = kernel_receives,
		.launch = launch_kernel,
		.begin = begin_kernel,
		.end = end_kernel,
		.computed = stream_computed,
	};
	return &calls;
}
