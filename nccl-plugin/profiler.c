// SPDX-License-Identifier: Apache-2.0
//
// A profiler that tells the ledger what each message is for: its collective or send, and the part of it that the
// message's connection carries. It does nothing if the process writes no ledger. forward.c exports it.
//
// NCCL's threads call it. No call waits, or allocates memory but for a new communicator. A handle is a number, of a
// group or of a record in the ledger, and the kind of its event: NCCL only passes it back.

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "glue.h"
#include "internal/transport/transport.h"
#include "profiler.h"
#include "purpose.h"

#include "_cgo_export.h"

// --- handles

enum handle_kind { GROUP, TASK, OP, STEP, CHANNEL };

static void *handle_of(uint64_t number, enum handle_kind kind) { return (void *)(uintptr_t)(number << 3 | kind); }
static uint64_t number_of_handle(const void *handle) { return (uintptr_t)handle >> 3; }
static enum handle_kind kind_of(const void *handle) { return (uintptr_t)handle & 7; }

// --- names

static const char *const functions[] = { "Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "SendRecv",
	"Send", "Recv", "AlltoAll", "Scatter", "Gather", "AllGatherV" };
static const char *const algorithms[] = { "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE",
	"PAT" };
static const char *const protocols[] = { "LL", "LL128", "SIMPLE" };
static const char *const datatypes[] = { "ncclInt8", "ncclUint8", "ncclInt32", "ncclUint32", "ncclInt64", "ncclUint64",
	"ncclFloat16", "ncclFloat32", "ncclFloat64", "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2" };

static uint8_t number_in(const char *const *names, size_t n, const char *name)
{
	for (size_t i = 0; name != NULL && i < n; i++)
		if (strcasecmp(names[i], name) == 0)
			return (uint8_t)i;
	return DDLEMU_UNKNOWN;
}

#define NUMBER_IN(names, name) number_in(names, sizeof(names) / sizeof *(names), name)

// --- records

// A communicator.
struct context {
	uint64_t comm; // 0 before version 4, where each event says it
	int ranks, rank;
};

// new_group is the handle of tasks that are planned together.
static void *new_group(void)
{
	static uint64_t groups;
	uint64_t group = __atomic_add_fetch(&groups, 1, __ATOMIC_RELAXED);
	purpose_group((uint32_t)group);
	return handle_of(group, GROUP);
}

// note_task makes the record of a task, which is planned with its group, and returns its handle.
static void *note_task(const struct context *c, const void *group, struct ddlemu_task_record t)
{
	uint64_t number;
	struct ddlemu_task_record *r = (struct ddlemu_task_record *)ledger_begin(&purposes, &number);
	t.number = r->number; // ledger_end sets it
	t.kind = DDLEMU_TASK;
	t.group = (uint32_t)number_of_handle(group);
	if (c->comm != 0)
		t.comm = c->comm;
	t.ranks = c->ranks;
	t.rank = c->rank;
	t.begun = purpose_now();
	*r = t;
	ledger_end((struct ddlemu_record *)r, number);
	return handle_of(number, TASK);
}

static void *note_op(const struct prof_event *e)
{
	const struct prof_proxy_op *p = &e->proxy_op;
	uint64_t number;
	struct ddlemu_op_record *r = (struct ddlemu_op_record *)ledger_begin(&purposes, &number);
	*r = (struct ddlemu_op_record){ .number = r->number,
		.kind = DDLEMU_OP,
		.task = (uint32_t)number_of_handle(e->parent),
		.pid = p->pid,
		.rank = e->rank,
		.peer = p->peer,
		.channel = p->channel,
		.sends = p->sends != 0,
		.steps = (uint32_t)p->steps,
		.chunk = (uint32_t)p->chunk,
		.begun = purpose_now() };
	ledger_end((struct ddlemu_record *)r, number);
	return handle_of(number, OP);
}

static void *note_channel(const struct prof_event *e, bool has_gpu_time)
{
	uint64_t number;
	struct ddlemu_channel_record *r = (struct ddlemu_channel_record *)ledger_begin(&purposes, &number);
	*r = (struct ddlemu_channel_record){ .number = r->number,
		.kind = DDLEMU_CHANNEL,
		.task = (uint32_t)number_of_handle(e->parent),
		.channel = e->kernel_channel.channel,
		.begun = purpose_now(),
		.gpu_begun = has_gpu_time ? e->kernel_channel.begun : 0 };
	ledger_end((struct ddlemu_record *)r, number);
	return handle_of(number, CHANNEL);
}

// --- what differs between the versions

typedef void *(*task_noter)(const struct context *, const struct prof_event *);

static void *coll_v1(const struct context *c, const struct prof_event *e)
{
	const struct prof_coll_v1 *x = &e->coll_v1;
	return note_task(c, e->parent,
		(struct ddlemu_task_record){ .func = x->func,
			.algo = x->algo,
			.proto = x->proto,
			.datatype = x->datatype,
			.comm = x->comm,
			.seq = x->seq,
			.count = x->count,
			.peer = x->root,
			.channels = x->channels });
}

#define NAMED_COLL(x) \
	.func = NUMBER_IN(functions, (x)->func), .algo = NUMBER_IN(algorithms, (x)->algo), \
	.proto = NUMBER_IN(protocols, (x)->proto), .datatype = NUMBER_IN(datatypes, (x)->datatype), .seq = (x)->seq, \
	.count = (x)->count, .peer = (x)->root, .channels = (x)->channels

static void *coll_v2(const struct context *c, const struct prof_event *e)
{
	const struct prof_coll_v2 *x = &e->coll_v2;
	return note_task(c, e->parent, (struct ddlemu_task_record){ NAMED_COLL(x), .comm = x->comm });
}

static void *coll_v3(const struct context *c, const struct prof_event *e)
{
	const struct prof_coll_v3 *x = &e->coll_v3;
	return note_task(c, e->parent, (struct ddlemu_task_record){ NAMED_COLL(x), .comm = x->comm });
}

static void *coll_v4(const struct context *c, const struct prof_event *e)
{
	return note_task(c, e->parent, (struct ddlemu_task_record){ NAMED_COLL(&e->coll_v4) });
}

static void *coll_v5(const struct context *c, const struct prof_event *e)
{
	return note_task(c, e->coll_v4.group, (struct ddlemu_task_record){ NAMED_COLL(&e->coll_v4) });
}

// A send or receive of the program has no algorithm, and NCCL does not say its protocol.
#define P2P(x) .algo = DDLEMU_UNKNOWN, .proto = DDLEMU_UNKNOWN, .count = (x)->count, .peer = (x)->peer
#define NAMED_P2P(x) P2P(x), .func = NUMBER_IN(functions, (x)->func), .datatype = NUMBER_IN(datatypes, (x)->datatype)

static void *p2p_v1(const struct context *c, const struct prof_event *e)
{
	const struct prof_p2p_v1 *x = &e->p2p_v1;
	return note_task(c, e->parent,
		(struct ddlemu_task_record){ P2P(x), .func = x->func, .datatype = x->datatype, .comm = x->comm });
}

static void *p2p_v2(const struct context *c, const struct prof_event *e)
{
	const struct prof_p2p_v2 *x = &e->p2p_v2;
	return note_task(c, e->parent, (struct ddlemu_task_record){ NAMED_P2P(x), .comm = x->comm });
}

#define P2P_V4(x) NAMED_P2P(x), .channels = (x)->channels

static void *p2p_v4(const struct context *c, const struct prof_event *e)
{
	return note_task(c, e->parent, (struct ddlemu_task_record){ P2P_V4(&e->p2p_v4) });
}

static void *p2p_v5(const struct context *c, const struct prof_event *e)
{
	return note_task(c, e->p2p_v4.group, (struct ddlemu_task_record){ P2P_V4(&e->p2p_v4) });
}

// --- the calls

int ddlemu_profiler_init(void **context, uint64_t comm, int ranks, int rank)
{
	*context = NULL;
	if (net_records() && !net_forked())
		netRecord(ranks, rank);
	if (!has_purposes() || net_forked())
		return DDLEMU_SUCCESS;
	struct context *c = malloc(sizeof *c);
	if (c == NULL)
		return DDLEMU_SYSTEM_ERROR;
	*c = (struct context){ comm, ranks, rank };
	*context = c;
	__atomic_store_n(&is_profiled, 1, __ATOMIC_RELEASE);
	return DDLEMU_SUCCESS;
}

int ddlemu_profiler_mask(void)
{
	return PROF_GROUP | PROF_COLL | PROF_P2P | PROF_PROXY_OP |
		(net_records() ? PROF_KERNEL_CHANNEL : PROF_PROXY_STEP);
}

// start makes the handle of an event. NCCL uses memory again without clearing it, so *handle is always written. The
// context is NULL if the event does not need it.
static int start(void *context, void **handle, struct prof_event *e, task_noter coll, task_noter p2p, bool has_gpu_time)
{
	*handle = NULL;
	if (!has_purposes() || net_forked())
		return DDLEMU_SUCCESS;
	switch ((uint8_t)e->type) {
	case PROF_GROUP:
		*handle = new_group();
		break;
	case PROF_COLL:
		if (context != NULL)
			*handle = coll(context, e);
		break;
	case PROF_P2P:
		if (context != NULL)
			*handle = p2p(context, e);
		break;
	case PROF_PROXY_OP:
		*handle = note_op(e);
		break;
	case PROF_KERNEL_CHANNEL:
		if (kind_of(e->parent) == TASK)
			*handle = note_channel(e, has_gpu_time);
		break;
	case PROF_PROXY_STEP:
		if (e->parent != NULL)
			*handle = handle_of(number_of_handle(e->parent), STEP);
		break;
	}
	return DDLEMU_SUCCESS;
}

static int start_v1(void *context, void **handle, struct prof_event *e)
{
	return start(context, handle, e, coll_v1, p2p_v1, false);
}

static int start_v2(void *context, void **handle, struct prof_event *e)
{
	return start(context, handle, e, coll_v2, p2p_v2, false);
}

static int start_v3(void *context, void **handle, struct prof_event *e)
{
	return start(context, handle, e, coll_v3, p2p_v2, false);
}

static int start_v4(void *context, void **handle, struct prof_event *e)
{
	return start(context, handle, e, coll_v4, p2p_v4, true);
}

static int start_v5(void *context, void **handle, struct prof_event *e)
{
	*handle = NULL;
	return e->type > UINT8_MAX ? DDLEMU_SUCCESS : start(context, handle, e, coll_v5, p2p_v5, true);
}

static int stop(void *handle)
{
	const uint64_t number = number_of_handle(handle);
	if (net_forked() || !ledger_has(&purposes, number))
		return DDLEMU_SUCCESS;
	if (kind_of(handle) == OP)
		((struct ddlemu_op_record *)ledger_at(&purposes, number))->ended = purpose_now();
	else if (kind_of(handle) == CHANNEL)
		((struct ddlemu_channel_record *)ledger_at(&purposes, number))->ended = purpose_now();
	return DDLEMU_SUCCESS;
}

static void end_on_gpu(uint64_t channel, const struct prof_kernel_ended *at)
{
	if (at != NULL && !net_forked() && ledger_has(&purposes, channel))
		((struct ddlemu_channel_record *)ledger_at(&purposes, channel))->gpu_ended = at->ended;
}

// record_state says what the request is for that this thread has just posted.
static int record_state(void *handle, int state, void *args)
{
	if (kind_of(handle) == CHANNEL && state == PROF_KERNEL_ENDED)
		end_on_gpu(number_of_handle(handle), args);
	if (kind_of(handle) != STEP || (state != PROF_SEND_WAIT && state != PROF_RECV_WAIT) || net_forked())
		return DDLEMU_SUCCESS;
	struct ddlemu_calls *calls = ddlemu_calls();
	struct ddlemu_request *r = calls->posted;
	calls->posted = NULL;
	if (r != NULL && ledger_has(&purposes, r->record))
		ledger_at(&purposes, r->record)->op = (uint32_t)number_of_handle(handle);
	return DDLEMU_SUCCESS;
}

static int finalize(void *context)
{
	free(context);
	return DDLEMU_SUCCESS;
}

#define CALLS(version) \
	{ .start_event = start_v##version, .stop_event = stop, .record_state = record_state, .finalize = finalize }

const struct prof_calls ddlemu_profiler[] = { CALLS(1), CALLS(2), CALLS(3), CALLS(4), CALLS(5), CALLS(5) };
