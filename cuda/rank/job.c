// SPDX-License-Identifier: Apache-2.0

#include "job.h"

#include <stdio.h>
#include <string.h>

// A byte that is not what a check expects, whatever the seed: outputs start out as this.
enum { SPOILED = 0xa5 };

static int reduces(const struct job *job)
{
	return job->coll == COLL_ALL_REDUCE || job->coll == COLL_REDUCE_SCATTER || job->coll == COLL_REDUCE;
}

int job_check(struct job *job, char *err, size_t err_size)
{
	size_t ranks = (size_t)job->ranks;
	job->send_elements = job->recv_elements = job->count;
	switch (job->coll) {
	case COLL_ALL_GATHER:
		job->recv_elements = job->count * ranks;
		break;
	case COLL_REDUCE_SCATTER:
		job->send_elements = job->count * ranks;
		break;
	case COLL_ALLTOALL:
		job->send_elements = job->recv_elements = job->count * ranks;
		break;
	default:
		break;
	}
	if (job->root < 0 || job->root >= job->ranks) {
		snprintf(err, err_size, "root %d is not a rank (there are %d)", job->root, job->ranks);
		return -1;
	}
	if (job->in_place && (job->coll == COLL_SENDRECV || job->coll == COLL_ALLTOALL)) {
		snprintf(err, err_size, "this collective has no in-place form");
		return -1;
	}
	return 0;
}

size_t job_bytes(const struct job *job)
{
	size_t most = job->send_elements > job->recv_elements ? job->send_elements : job->recv_elements;
	return most * type_size(job->type);
}

int job_repeatable(const struct job *job) { return !job->in_place || !reduces(job); }

// Where this rank's input lies.
static char *input_of(const struct job *job, const struct buffers *b)
{
	if (!job->in_place)
		return b->send;
	size_t part = job->count * type_size(job->type) * (size_t)job->rank;
	return job->coll == COLL_ALL_GATHER ? b->recv + part : b->recv;
}

// Where this rank's output lies.
static char *output_of(const struct job *job, const struct buffers *b)
{
	size_t part = job->count * type_size(job->type) * (size_t)job->rank;
	return job->in_place && job->coll == COLL_REDUCE_SCATTER ? b->recv + part : b->recv;
}

static struct pattern pattern_of(const struct job *job)
{
	struct pattern p = { job->type, job->op, reduces(job), job->ranks, job->seed };
	return p;
}

static cuda_result spoil(char *dst, size_t bytes, void *stage)
{
	memset(stage, SPOILED, bytes < STAGE_BYTES ? bytes : STAGE_BYTES);
	for (size_t done = 0; done < bytes; done += STAGE_BYTES) {
		size_t some = bytes - done < STAGE_BYTES ? bytes - done : STAGE_BYTES;
		cuda_result result = api.cudaMemcpy(dst + done, stage, some, CUDA_COPY_HOST_TO_DEVICE);
		if (result != 0)
			return result;
	}
	return 0;
}

static cuda_result write_input(const struct job *job, const struct buffers *b)
{
	size_t size = type_size(job->type), per_stage = STAGE_BYTES / size;
	if (job->coll == COLL_BROADCAST && job->rank != job->root)
		return 0; // only the root has an input
	struct pattern p = pattern_of(job);
	char *input = input_of(job, b);
	for (size_t done = 0; done < job->send_elements; done += per_stage) {
		size_t some = job->send_elements - done < per_stage ? job->send_elements - done : per_stage;
		pattern_input(&p, job->rank, done, some, b->stage);
		cuda_result result =
			api.cudaMemcpy(input + done * size, b->stage, some * size, CUDA_COPY_HOST_TO_DEVICE);
		if (result != 0)
			return result;
	}
	return 0;
}

cuda_result job_fill(struct job *job, const struct buffers *b, uint64_t seed)
{
	job->seed = seed;
	job->filled = 1;
	job->launches = 0;
	cuda_result result = spoil(b->recv, job_bytes(job), b->stage);
	if (result == 0)
		result = write_input(job, b);
	// A copy from pageable memory may return before it is at the device, and the collective's stream does not wait
	// for the default one.
	if (result == 0)
		result = api.cudaStreamSynchronize(NULL);
	return result;
}

static nccl_result launch_sendrecv(
	const struct job *job, const char *send, char *recv, nccl_comm comm, cuda_stream stream)
{
	int next = (job->rank + 1) % job->ranks, prev = (job->rank + job->ranks - 1) % job->ranks;
	nccl_result result = api.ncclGroupStart();
	if (result == NCCL_SUCCESS)
		result = api.ncclSend(send, job->count, job->type, next, comm, stream);
	if (result == NCCL_SUCCESS)
		result = api.ncclRecv(recv, job->count, job->type, prev, comm, stream);
	nccl_result end = api.ncclGroupEnd();
	return result != NCCL_SUCCESS ? result : end;
}

static nccl_result launch_alltoall(
	const struct job *job, const char *send, char *recv, nccl_comm comm, cuda_stream stream)
{
	size_t part = job->count * type_size(job->type);
	nccl_result result = api.ncclGroupStart();
	for (int r = 0; r < job->ranks && result == NCCL_SUCCESS; r++) {
		result = api.ncclSend(send + part * (size_t)r, job->count, job->type, r, comm, stream);
		if (result == NCCL_SUCCESS)
			result = api.ncclRecv(recv + part * (size_t)r, job->count, job->type, r, comm, stream);
	}
	nccl_result end = api.ncclGroupEnd();
	return result != NCCL_SUCCESS ? result : end;
}

nccl_result job_launch(struct job *job, const struct buffers *b, nccl_comm comm, cuda_stream stream)
{
	const char *send = input_of(job, b);
	char *recv = output_of(job, b);
	job->launches++;
	switch (job->coll) {
	case COLL_ALL_REDUCE:
		return api.ncclAllReduce(send, recv, job->count, job->type, job->op, comm, stream);
	case COLL_ALL_GATHER:
		return api.ncclAllGather(send, recv, job->count, job->type, comm, stream);
	case COLL_REDUCE_SCATTER:
		return api.ncclReduceScatter(send, recv, job->count, job->type, job->op, comm, stream);
	case COLL_BROADCAST:
		return api.ncclBroadcast(send, recv, job->count, job->type, job->root, comm, stream);
	case COLL_REDUCE:
		return api.ncclReduce(send, recv, job->count, job->type, job->op, job->root, comm, stream);
	case COLL_SENDRECV:
		return launch_sendrecv(job, send, recv, comm, stream);
	case COLL_ALLTOALL:
		return launch_alltoall(job, send, recv, comm, stream);
	}
	return NCCL_SUCCESS;
}

// Checks n output elements from index at on, that lie in host memory at got; none crosses a boundary between the
// parts of different ranks.
static void verify_part(const struct job *job, size_t at, size_t n, const void *got, struct mismatch *m)
{
	struct pattern p = pattern_of(job);
	size_t rank = (size_t)job->rank, ranks = (size_t)job->ranks;
	switch (job->coll) {
	case COLL_ALL_REDUCE:
	case COLL_REDUCE:
		pattern_check_reduced(&p, at, n, got, at, m);
		break;
	case COLL_REDUCE_SCATTER:
		pattern_check_reduced(&p, rank * job->count + at, n, got, at, m);
		break;
	case COLL_ALL_GATHER:
		pattern_check_moved(&p, (int)(at / job->count), at % job->count, n, got, at, m);
		break;
	case COLL_BROADCAST:
		pattern_check_moved(&p, job->root, at, n, got, at, m);
		break;
	case COLL_SENDRECV:
		pattern_check_moved(&p, (int)((rank + ranks - 1) % ranks), at, n, got, at, m);
		break;
	case COLL_ALLTOALL:
		pattern_check_moved(&p, (int)(at / job->count), rank * job->count + at % job->count, n, got, at, m);
		break;
	}
}

cuda_result job_verify(const struct job *job, const struct buffers *b, struct mismatch *found, uint64_t *checked)
{
	size_t size = type_size(job->type), per_stage = STAGE_BYTES / size;
	memset(found, 0, sizeof(*found));
	*checked = 0;
	if (job->coll == COLL_REDUCE && job->rank != job->root)
		return 0; // only the root has an output
	int parts = job->coll == COLL_ALL_GATHER || job->coll == COLL_ALLTOALL;
	const char *output = output_of(job, b);
	for (size_t at = 0; at < job->recv_elements;) {
		size_t some = job->recv_elements - at < per_stage ? job->recv_elements - at : per_stage;
		if (parts && some > job->count - at % job->count)
			some = job->count - at % job->count;
		cuda_result result =
			api.cudaMemcpy(b->stage, output + at * size, some * size, CUDA_COPY_DEVICE_TO_HOST);
		if (result != 0)
			return result;
		verify_part(job, at, some, b->stage, found);
		at += some;
	}
	*checked = job->recv_elements;
	return 0;
}
