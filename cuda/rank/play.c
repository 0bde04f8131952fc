// SPDX-License-Identifier: Apache-2.0
//
// Host functions on the streams note the times and fill and check the buffers. CUDA lets them call nothing of CUDA, so
// only memory that is also the host's is filled and checked. On a virtual clock all of that takes no time.

#define _GNU_SOURCE
#include "play.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "clock.h"
#include "protocol.h"
#include "session.h"

// A stream with its buffers, kept from one program to the next.
struct lane {
	int made;
	cuda_stream stream;
	struct buffers buffers;
};

static struct lane lanes[STREAMS_MAX];
static char *memory; // of programs that have one
static size_t memory_bytes;
static double scale_now; // of the program that is played
static struct played *played;
static pthread_mutex_t results = PTHREAD_MUTEX_INITIALIZER; // protects *played
static atomic_int done; // operations that have ended
static _Atomic int64_t next_report; // CLOCK_MONOTONIC

enum { SPIN_NS = 60000, REPORT_NS = 300000000 };

// A sleeping thread can wake up late by tens of microseconds, so the last of them are not slept.
static void sleep_until(int64_t when)
{
	int64_t wake = when - SPIN_NS;
	struct timespec t = { wake / 1000000000, wake % 1000000000 };
	if (monotonic_ns() < wake)
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
	while (monotonic_ns() < when)
		sched_yield();
}

static void report(void)
{
	int count = atomic_fetch_add(&done, 1) + 1;
	int64_t now = monotonic_ns(), next = atomic_load(&next_report);
	if (now >= next && atomic_compare_exchange_strong(&next_report, &next, now + REPORT_NS))
		protocol_reply("progress done=%d", count);
}

static void end_op(struct op *op)
{
	op->times->end = fabric_now();
	report();
}

static void compute(void *data)
{
	struct op *op = data;
	op->times->ready = fabric_now();
	if (api.ddlemu_compute == NULL || api.ddlemu_compute(op->ns) != 0)
		sleep_until(op->times->ready + (int64_t)((double)op->ns * scale_now));
	end_op(op);
}

static struct buffers part_buffers(const struct op *op, const struct part *part)
{
	if (part->in_memory)
		return (struct buffers){ .send = memory + part->offset, .recv = memory + part->offset, .direct = 1 };
	struct buffers b = lanes[op->stream].buffers;
	b.send += part->offset;
	b.recv += part->offset;
	return b;
}

static struct pattern work_pattern(const struct work *w, const struct operation *o)
{
	return (struct pattern){
		.type = TYPE_INT32, .op = OP_SUM, .reduced = w->reduced, .ranks = o->ranks, .seed = (uint64_t)w->seed
	};
}

// Copies, adds, or writes input.
static void work(const struct work *w, const struct operation *o)
{
	uint32_t *to = (uint32_t *)memory + w->to;
	const uint32_t *from = (const uint32_t *)memory + w->from;
	if (w->kind == WORK_COPY) {
		memmove(to, from, w->count * sizeof(*to));
	} else if (w->kind == WORK_ADD) {
		for (size_t i = 0; i < w->count; i++)
			to[i] += from[i];
	} else if (w->kind == WORK_INPUT) {
		struct pattern p = work_pattern(w, o);
		pattern_input(&p, o->rank, w->first, w->count, to);
	}
}

static void note_checked(const struct op *op, uint64_t checked, const struct mismatch *found)
{
	int number = (int)(op - op->program->ops);
	pthread_mutex_lock(&results);
	played->checked += checked;
	played->wrong += found->wrong;
	if (found->wrong > 0 && (played->wrong_op < 0 || number < played->wrong_op)) {
		played->wrong_op = number;
		played->mismatch = *found;
	}
	pthread_mutex_unlock(&results);
}

static void check_work(const struct op *op, const struct work *w, const struct operation *o)
{
	struct pattern p = work_pattern(w, o);
	struct mismatch found = { 0 };
	const uint32_t *got = (const uint32_t *)memory + w->from;
	if (w->reduced)
		pattern_check_reduced(&p, w->first, w->count, got, w->from, &found);
	else
		pattern_check_moved(&p, w->source, w->first, w->count, got, w->from, &found);
	note_checked(op, w->count, &found);
}

static void do_works(const struct op *op, int first, int end)
{
	for (int i = first; i < end; i++)
		work(&op->program->works[op->first_work + i], &op->program->parts[op->first_part].operation);
}

static void begin_call(void *data)
{
	struct op *op = data;
	for (int i = 0; i < op->parts; i++) {
		struct part *part = &op->program->parts[op->first_part + i];
		struct buffers b = part_buffers(op, part);
		if (part->check)
			operation_fill(&part->operation, &b, (uint64_t)part->seed);
	}
	op->times->ready = fabric_now();
	do_works(op, 0, op->works_before);
}

static void check_part(const struct op *op, const struct part *part)
{
	struct buffers b = part_buffers(op, part);
	struct mismatch found;
	uint64_t checked;
	operation_verify(&part->operation, &b, &found, &checked);
	note_checked(op, checked, &found);
}

static void end_call(void *data)
{
	struct op *op = data;
	do_works(op, op->works_before, op->works);
	int64_t now = fabric_now();
	for (int i = 0; i < op->works; i++) {
		const struct work *w = &op->program->works[op->first_work + i];
		if (w->kind == WORK_EXPECT)
			check_work(op, w, &op->program->parts[op->first_part].operation);
	}
	for (int i = 0; i < op->parts; i++) {
		const struct part *part = &op->program->parts[op->first_part + i];
		if (part->check)
			check_part(op, part);
	}
	end_op(op);
	op->times->end = now;
}

static void make_area(char **area, size_t bytes)
{
	if (*area != NULL)
		session_check_cuda(api.cudaFree(*area), "cudaFree");
	session_check_cuda(api.cudaMalloc((void **)area, bytes), "cudaMalloc");
}

static void make_lane(struct lane *lane, size_t bytes)
{
	struct buffers *b = &lane->buffers;
	if (!lane->made) {
		session_check_cuda(api.cudaStreamCreateWithFlags(&lane->stream, CUDA_STREAM_NON_BLOCKING),
			"cudaStreamCreateWithFlags");
		b->stage = malloc(STAGE_BYTES);
		if (b->stage == NULL)
			session_fail("system", "no memory for a staging buffer");
		b->direct = 1;
		lane->made = 1;
	}
	if (bytes > b->bytes) {
		make_area(&b->send, bytes);
		make_area(&b->recv, bytes);
		b->bytes = bytes;
	}
}

static void make_memory(const struct program *p)
{
	if (api.ddlemuSoftNow == NULL)
		session_fail("usage", "a program with a memory needs the software CUDA");
	size_t bytes = p->memory * sizeof(uint32_t);
	if (bytes > memory_bytes) {
		make_area(&memory, bytes);
		memory_bytes = bytes;
	}
	if (p->clear)
		memset(memory, 0xa5, bytes);
}

void play_prepare(struct program *p)
{
	for (int i = 0; i < p->part_count; i++)
		if (p->parts[i].check && api.ddlemuSoftNow == NULL)
			session_fail("usage", "a program with checks needs the software CUDA");
	if (p->memory > 0)
		make_memory(p);
	prctl(PR_SET_TIMERSLACK, 1); // also of the streams' threads, which this thread starts
	for (int s = 0; s < p->streams; s++)
		make_lane(&lanes[s], p->stream_bytes[s]);
	for (int i = 0; i < p->op_count; i++)
		if (p->ops[i].named && p->ops[i].kind != OP_WAIT)
			session_check_cuda(api.cudaEventCreateWithFlags(&p->ops[i].event, CUDA_EVENT_DISABLE_TIMING),
				"cudaEventCreateWithFlags");
}

static nccl_result launch_parts(const struct op *op)
{
	nccl_result result = NCCL_SUCCESS;
	for (int i = 0; i < op->parts && result == NCCL_SUCCESS; i++) {
		struct part *part = &op->program->parts[op->first_part + i];
		struct buffers b = part_buffers(op, part);
		result = operation_launch(&part->operation, &b, lanes[op->stream].stream);
	}
	return result;
}

static void launch_call(struct op *op)
{
	cuda_stream stream = lanes[op->stream].stream;
	session_check_cuda(api.cudaLaunchHostFunc(stream, begin_call, op), "cudaLaunchHostFunc");
	session_enter_nccl();
	if (op->grouped)
		session_check_nccl(api.ncclGroupStart(), "ncclGroupStart");
	nccl_result result = launch_parts(op);
	if (op->grouped) {
		nccl_result end = api.ncclGroupEnd();
		result = result != NCCL_SUCCESS ? result : end;
	}
	session_leave_nccl();
	session_check_nccl(result, "start a call of NCCL");
	session_check_cuda(api.cudaLaunchHostFunc(stream, end_call, op), "cudaLaunchHostFunc");
}

static void synchronize_streams(const struct program *p)
{
	for (int s = 0; s < p->streams; s++)
		session_check_cuda(api.cudaStreamSynchronize(lanes[s].stream), "cudaStreamSynchronize");
}

static void wait_on_host(const struct program *p, struct op *op)
{
	op->times->ready = fabric_now();
	for (int i = 0; i < op->afters; i++) {
		const struct op *before = &p->ops[p->afters[op->first_after + i]];
		if (before->kind != OP_WAIT) // it has ended before this one was launched
			session_check_cuda(api.cudaEventSynchronize(before->event), "cudaEventSynchronize");
	}
	if (op->afters == 0)
		synchronize_streams(p);
	end_op(op);
}

static void launch(const struct program *p, struct op *op)
{
	if (op->kind == OP_WAIT) {
		wait_on_host(p, op);
		return;
	}
	cuda_stream stream = lanes[op->stream].stream;
	for (int i = 0; i < op->afters; i++) {
		const struct op *before = &p->ops[p->afters[op->first_after + i]];
		if (before->kind != OP_WAIT && before->stream != op->stream)
			session_check_cuda(api.cudaStreamWaitEvent(stream, before->event, 0), "cudaStreamWaitEvent");
	}
	if (op->kind == OP_CALC)
		session_check_cuda(api.cudaLaunchHostFunc(stream, compute, op), "cudaLaunchHostFunc");
	else
		launch_call(op);
	if (op->named)
		session_check_cuda(api.cudaEventRecord(op->event, stream), "cudaEventRecord");
}

void play(struct program *program, double scale, int64_t start, struct played *out)
{
	memset(out, 0, sizeof(*out));
	out->wrong_op = -1;
	scale_now = scale;
	played = out;
	atomic_store(&done, 0);
	atomic_store(&next_report, monotonic_ns() + REPORT_NS);
	wait_for_start(start);
	out->begin = *program->file = fabric_now();
	for (int i = 0; i < program->op_count; i++)
		launch(program, &program->ops[i]);
	synchronize_streams(program);
	out->end = fabric_now();
	for (int i = 0; i < program->op_count; i++)
		if (program->ops[i].event != NULL)
			session_check_cuda(api.cudaEventDestroy(program->ops[i].event), "cudaEventDestroy");
}

void play_close(void)
{
	if (memory != NULL)
		session_check_cuda(api.cudaFree(memory), "cudaFree");
	memory = NULL;
	memory_bytes = 0;
	for (int s = 0; s < STREAMS_MAX; s++) {
		struct lane *lane = &lanes[s];
		if (!lane->made)
			continue;
		session_check_cuda(api.cudaStreamDestroy(lane->stream), "cudaStreamDestroy");
		if (lane->buffers.bytes > 0) {
			session_check_cuda(api.cudaFree(lane->buffers.send), "cudaFree");
			session_check_cuda(api.cudaFree(lane->buffers.recv), "cudaFree");
		}
		free(lane->buffers.stage);
		memset(lane, 0, sizeof(*lane));
	}
}
