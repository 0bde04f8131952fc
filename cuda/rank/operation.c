// SPDX-License-Identifier: Apache-2.0

#include "operation.h"

#include <stdio.h>
#include <string.h>

// The initial value of every output byte.
enum { UNWRITTEN = 0xa5 };

static int reduces(const struct operation *operation)
{
	return operation->coll == COLL_ALL_REDUCE || operation->coll == COLL_REDUCE_SCATTER ||
		operation->coll == COLL_REDUCE;
}

static int has_in_place(enum collective coll)
{
	return coll != COLL_SENDRECV && coll != COLL_ALLTOALL && coll != COLL_SEND && coll != COLL_RECV;
}

int operation_check(struct operation *operation, char *err, size_t err_size)
{
	size_t ranks = (size_t)operation->ranks;
	operation->send_elements = operation->recv_elements = operation->count;
	switch (operation->coll) {
	case COLL_ALL_GATHER:
	case COLL_HYPERCUBE:
		operation->recv_elements = operation->count * ranks;
		break;
	case COLL_REDUCE_SCATTER:
		operation->send_elements = operation->count * ranks;
		break;
	case COLL_ALLTOALL:
		operation->send_elements = operation->recv_elements = operation->count * ranks;
		break;
	case COLL_GATHER:
		operation->recv_elements = operation->rank == operation->root ? operation->count * ranks : 0;
		break;
	case COLL_SCATTER:
		operation->send_elements = operation->rank == operation->root ? operation->count * ranks : 0;
		break;
	case COLL_SEND:
		operation->recv_elements = 0;
		break;
	case COLL_RECV:
		operation->send_elements = 0;
		break;
	default:
		break;
	}
	if (operation->root < 0 || operation->root >= operation->ranks) {
		snprintf(err, err_size, "root %d is not a rank (there are %d)", operation->root, operation->ranks);
		return -1;
	}
	if (operation->in_place && !has_in_place(operation->coll)) {
		snprintf(err, err_size, "this collective has no in-place form");
		return -1;
	}
	if (operation->coll == COLL_HYPERCUBE && (ranks & (ranks - 1)) != 0) {
		snprintf(err, err_size, "a hypercube needs a power of two of ranks, not %d", operation->ranks);
		return -1;
	}
	return 0;
}

size_t operation_bytes(const struct operation *operation)
{
	size_t most = operation->send_elements > operation->recv_elements ? operation->send_elements
									  : operation->recv_elements;
	// In place, the share of a rank that is not the root has its place in a buffer for the shares of all.
	if (operation->in_place && (operation->coll == COLL_GATHER || operation->coll == COLL_SCATTER))
		most = operation->count * (size_t)operation->ranks;
	return most * type_size(operation->type);
}

int operation_repeatable(const struct operation *operation) { return !operation->in_place || !reduces(operation); }

// Returns the address of this rank's input.
static char *input_of(const struct operation *operation, const struct buffers *b)
{
	if (!operation->in_place)
		return b->send;
	size_t share = operation->count * type_size(operation->type) * (size_t)operation->rank;
	int has_place = operation->coll == COLL_ALL_GATHER || operation->coll == COLL_GATHER ||
		operation->coll == COLL_HYPERCUBE;
	return has_place ? b->recv + share : b->recv;
}

// Returns the address of this rank's output.
static char *output_of(const struct operation *operation, const struct buffers *b)
{
	size_t share = operation->count * type_size(operation->type) * (size_t)operation->rank;
	int has_place = operation->coll == COLL_REDUCE_SCATTER || operation->coll == COLL_SCATTER;
	return operation->in_place && has_place ? b->recv + share : b->recv;
}

static struct pattern pattern_of(const struct operation *operation)
{
	struct pattern p = { operation->type, operation->op, reduces(operation), operation->ranks, operation->seed };
	return p;
}

static cuda_result copy(const struct buffers *b, void *dst, const void *src, size_t bytes, int kind)
{
	if (!b->direct)
		return api.cudaMemcpy(dst, src, bytes, kind);
	memcpy(dst, src, bytes);
	return 0;
}

static cuda_result mark_unwritten(const struct buffers *b, size_t bytes)
{
	memset(b->stage, UNWRITTEN, bytes < STAGE_BYTES ? bytes : STAGE_BYTES);
	for (size_t done = 0; done < bytes; done += STAGE_BYTES) {
		size_t some = bytes - done < STAGE_BYTES ? bytes - done : STAGE_BYTES;
		cuda_result result = copy(b, b->recv + done, b->stage, some, CUDA_COPY_HOST_TO_DEVICE);
		if (result != 0)
			return result;
	}
	return 0;
}

static cuda_result write_input(const struct operation *operation, const struct buffers *b)
{
	size_t size = type_size(operation->type), per_stage = STAGE_BYTES / size;
	if (operation->coll == COLL_BROADCAST && operation->rank != operation->root)
		return 0; // only the root has an input
	struct pattern p = pattern_of(operation);
	char *input = input_of(operation, b);
	for (size_t done = 0; done < operation->send_elements; done += per_stage) {
		size_t some = operation->send_elements - done < per_stage ? operation->send_elements - done : per_stage;
		pattern_input(&p, operation->rank, done, some, b->stage);
		cuda_result result = copy(b, input + done * size, b->stage, some * size, CUDA_COPY_HOST_TO_DEVICE);
		if (result != 0)
			return result;
	}
	return 0;
}

cuda_result operation_fill(struct operation *operation, const struct buffers *b, uint64_t seed)
{
	operation->seed = seed;
	operation->filled = 1;
	operation->launches = 0;
	cuda_result result = mark_unwritten(b, operation_bytes(operation));
	if (result == 0)
		result = write_input(operation, b);
	// A copy from pageable memory can return before the data is on the device, and the collective's stream does not
	// wait for the default stream.
	if (result == 0 && !b->direct)
		result = api.cudaStreamSynchronize(NULL);
	return result;
}

static nccl_result launch_sendrecv(
	const struct operation *operation, const char *send, char *recv, nccl_comm comm, cuda_stream stream)
{
	int next = (operation->rank + 1) % operation->ranks,
	    prev = (operation->rank + operation->ranks - 1) % operation->ranks;
	nccl_result result = api.ncclGroupStart();
	if (result == NCCL_SUCCESS)
		result = api.ncclSend(send, operation->count, operation->type, next, comm, stream);
	if (result == NCCL_SUCCESS)
		result = api.ncclRecv(recv, operation->count, operation->type, prev, comm, stream);
	nccl_result end = api.ncclGroupEnd();
	return result != NCCL_SUCCESS ? result : end;
}

// The ranks exchange count elements with the peers for which sends or receives is not 0.
struct exchange {
	int sends, receives;
};

static struct exchange exchange_with(const struct operation *operation, int peer)
{
	int is_root = operation->rank == operation->root, with_root = peer == operation->root;
	switch (operation->coll) {
	case COLL_GATHER:
		return (struct exchange){ with_root, is_root };
	case COLL_SCATTER:
		return (struct exchange){ is_root, with_root };
	default:
		return (struct exchange){ 1, 1 };
	}
}

static nccl_result launch_exchanges(
	const struct operation *operation, const char *send, char *recv, nccl_comm comm, cuda_stream stream)
{
	size_t share = operation->count * type_size(operation->type);
	size_t to = operation->coll == COLL_GATHER ? 0 : share, from = operation->coll == COLL_SCATTER ? 0 : share;
	nccl_result result = api.ncclGroupStart();
	for (int r = 0; r < operation->ranks && result == NCCL_SUCCESS; r++) {
		struct exchange with = exchange_with(operation, r);
		if (with.sends)
			result =
				api.ncclSend(send + to * (size_t)r, operation->count, operation->type, r, comm, stream);
		if (with.receives && result == NCCL_SUCCESS)
			result = api.ncclRecv(
				recv + from * (size_t)r, operation->count, operation->type, r, comm, stream);
	}
	nccl_result end = api.ncclGroupEnd();
	return result != NCCL_SUCCESS ? result : end;
}

// Calls NCCL's function, if it has one. As in nccl-tests, a call of no elements is none.
static nccl_result launch_rooted(
	const struct operation *operation, const char *send, char *recv, nccl_comm comm, cuda_stream stream)
{
	nccl_result (*function)(const void *, void *, size_t, int, int, nccl_comm, cuda_stream) =
		operation->coll == COLL_GATHER ? api.ncclGather : api.ncclScatter;
	if (operation->count == 0)
		return NCCL_SUCCESS;
	if (function != NULL)
		return function(send, recv, operation->count, operation->type, operation->root, comm, stream);
	return launch_exchanges(operation, send, recv, comm, stream);
}

// Exchanges what this rank has, the shares of distance ranks, with the rank at that distance.
static nccl_result launch_exchange_at(
	const struct operation *operation, int distance, char *recv, nccl_comm comm, cuda_stream stream)
{
	size_t share = operation->count * type_size(operation->type), count = operation->count * (size_t)distance;
	int peer = operation->rank ^ distance, from = operation->rank & ~(distance - 1);
	nccl_result result = api.ncclGroupStart();
	if (result == NCCL_SUCCESS)
		result = api.ncclSend(recv + share * (size_t)from, count, operation->type, peer, comm, stream);
	if (result == NCCL_SUCCESS)
		result = api.ncclRecv(
			recv + share * (size_t)(from ^ distance), count, operation->type, peer, comm, stream);
	nccl_result end = api.ncclGroupEnd();
	return result != NCCL_SUCCESS ? result : end;
}

// The exchanges are groups of their own, one after another on the stream.
static nccl_result launch_hypercube(
	const struct operation *operation, const char *send, char *recv, nccl_comm comm, cuda_stream stream)
{
	size_t share = operation->count * type_size(operation->type);
	char *own = recv + share * (size_t)operation->rank;
	nccl_result result = NCCL_SUCCESS;
	if (own != send && !operation->decides &&
		api.cudaMemcpyAsync(own, send, share, CUDA_COPY_DEVICE_TO_DEVICE, stream) != 0)
		return NCCL_UNHANDLED_CUDA_ERROR;
	for (int distance = 1; distance < operation->ranks; distance *= 2) {
		result = launch_exchange_at(operation, distance, recv, comm, stream);
		int refused = operation->decides && result == NCCL_UNHANDLED_CUDA_ERROR; // so will be the next one
		if (result != NCCL_SUCCESS && !refused)
			break;
	}
	return result;
}

nccl_result operation_launch(struct operation *operation, const struct buffers *b, cuda_stream stream)
{
	nccl_comm comm = operation->comm;
	const char *send = input_of(operation, b);
	char *recv = output_of(operation, b);
	operation->launches++;
	switch (operation->coll) {
	case COLL_ALL_REDUCE:
		return api.ncclAllReduce(send, recv, operation->count, operation->type, operation->op, comm, stream);
	case COLL_ALL_GATHER:
		return api.ncclAllGather(send, recv, operation->count, operation->type, comm, stream);
	case COLL_REDUCE_SCATTER:
		return api.ncclReduceScatter(
			send, recv, operation->count, operation->type, operation->op, comm, stream);
	case COLL_BROADCAST:
		return api.ncclBroadcast(send, recv, operation->count, operation->type, operation->root, comm, stream);
	case COLL_REDUCE:
		return api.ncclReduce(
			send, recv, operation->count, operation->type, operation->op, operation->root, comm, stream);
	case COLL_SENDRECV:
		return launch_sendrecv(operation, send, recv, comm, stream);
	case COLL_ALLTOALL:
		return launch_exchanges(operation, send, recv, comm, stream);
	case COLL_GATHER:
	case COLL_SCATTER:
		return launch_rooted(operation, send, recv, comm, stream);
	case COLL_HYPERCUBE:
		return launch_hypercube(operation, send, recv, comm, stream);
	case COLL_SEND:
		return api.ncclSend(send, operation->count, operation->type, operation->root, comm, stream);
	case COLL_RECV:
		return api.ncclRecv(recv, operation->count, operation->type, operation->root, comm, stream);
	}
	return NCCL_SUCCESS;
}

// Compares n output elements in host memory at got. at is the index of the first. All of them are from the same rank.
static void verify_block(const struct operation *operation, size_t at, size_t n, const void *got, struct mismatch *m)
{
	struct pattern p = pattern_of(operation);
	size_t rank = (size_t)operation->rank, ranks = (size_t)operation->ranks;
	switch (operation->coll) {
	case COLL_ALL_REDUCE:
	case COLL_REDUCE:
		pattern_check_reduced(&p, at, n, got, at, m);
		break;
	case COLL_REDUCE_SCATTER:
		pattern_check_reduced(&p, rank * operation->count + at, n, got, at, m);
		break;
	case COLL_ALL_GATHER:
	case COLL_GATHER:
	case COLL_HYPERCUBE:
		pattern_check_moved(&p, (int)(at / operation->count), at % operation->count, n, got, at, m);
		break;
	case COLL_BROADCAST:
	case COLL_RECV:
		pattern_check_moved(&p, operation->root, at, n, got, at, m);
		break;
	case COLL_SCATTER:
		pattern_check_moved(&p, operation->root, rank * operation->count + at, n, got, at, m);
		break;
	case COLL_SEND:
		break;
	case COLL_SENDRECV:
		pattern_check_moved(&p, (int)((rank + ranks - 1) % ranks), at, n, got, at, m);
		break;
	case COLL_ALLTOALL:
		pattern_check_moved(&p, (int)(at / operation->count), rank * operation->count + at % operation->count,
			n, got, at, m);
		break;
	}
}

cuda_result operation_verify(
	const struct operation *operation, const struct buffers *b, struct mismatch *found, uint64_t *checked)
{
	size_t size = type_size(operation->type), per_stage = STAGE_BYTES / size;
	memset(found, 0, sizeof(*found));
	*checked = 0;
	if (operation->coll == COLL_REDUCE && operation->rank != operation->root)
		return 0; // only the root has an output
	int per_rank = operation->coll == COLL_ALL_GATHER || operation->coll == COLL_ALLTOALL ||
		operation->coll == COLL_GATHER || operation->coll == COLL_HYPERCUBE;
	const char *output = output_of(operation, b);
	for (size_t at = 0; at < operation->recv_elements;) {
		size_t some = operation->recv_elements - at < per_stage ? operation->recv_elements - at : per_stage;
		if (per_rank && some > operation->count - at % operation->count)
			some = operation->count - at % operation->count;
		cuda_result result = copy(b, b->stage, output + at * size, some * size, CUDA_COPY_DEVICE_TO_HOST);
		if (result != 0)
			return result;
		verify_block(operation, at, some, b->stage, found);
		at += some;
	}
	*checked = operation->recv_elements;
	return 0;
}
