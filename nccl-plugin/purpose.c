// SPDX-License-Identifier: Apache-2.0
//
// What the kernels of the software CUDA say of each message's purpose (shaper/ledger/calls.h).

#include "purpose.h"

#include <unistd.h>

#include "../shaper/ledger/calls.h"
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
	};
	return &calls;
}
