// SPDX-License-Identifier: Apache-2.0
//
// A stand-in for the CUDA runtime and NCCL in one library, for tests of ddlemu-rank and of the bench without either.
// "Device" memory is host memory. A collective runs within its call, over a file that all ranks map, with arithmetic
// that is independent of ddlemu-rank's checks. It is slow, and supports at most 16 ranks and 4 MiB per buffer.
//
//   FAKENCCL_DIR     folder of the shared file
//   FAKENCCL_OP_US   time of each collective in addition to its copies
//   FAKENCCL_FAULT   KIND:N[:R]  at the N-th collective of rank R (default: of every rank), counted from 0:
//                      corrupt   one bit of the first output element is flipped
//                      async     NCCL reports ncclRemoteError; the stream ends only when the communicator is aborted
//                      hang      the stream never ends and no error is reported
//                      die       the process is killed
//                      initfail  ncclCommInitRank fails (N is ignored)
//                      nonet     the same, after the plugin has said why it does not start (N is 0)

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MAX_RANKS = 16, SLOT = 4 << 20, REMOTE_ERROR = 6, INTERNAL_ERROR = 3, INVALID_USAGE = 5 };

struct shared {
	atomic_int arrived, generation, broken;
	atomic_int pid[MAX_RANKS];
	size_t offset[MAX_RANKS][MAX_RANKS];
	char slots[MAX_RANKS][SLOT];
};

struct comm {
	int rank, ranks, ops;
	struct shared *shared;
	FILE *log;
};

typedef struct {
	char internal[128];
} unique_id;

static atomic_int async_error, aborted, stuck, hung;

static void sleep_us(long us)
{
	struct timespec t = { us / 1000000, us % 1000000 * 1000 };
	nanosleep(&t, NULL);
}

// ---- CUDA runtime

int cudaGetDeviceCount(int *count) { return *count = 2, 0; }
int cudaSetDevice(int device) { return device < 2 ? 0 : 101; }
int cudaMalloc(void **ptr, size_t bytes) { return (*ptr = malloc(bytes + 1)) == NULL ? 2 : 0; }
int cudaFree(void *ptr) { return free(ptr), 0; }
int cudaMemcpy(void *dst, const void *src, size_t bytes, int kind) { return (void)kind, memcpy(dst, src, bytes), 0; }
int cudaMemcpyAsync(void *dst, const void *src, size_t bytes, int kind, void *stream)
{
	return (void)stream, cudaMemcpy(dst, src, bytes, kind);
}
int cudaStreamCreateWithFlags(void **stream, unsigned flags) { return (void)flags, *stream = &stuck, 0; }
int cudaStreamDestroy(void *stream) { return (void)stream, 0; }
int cudaStreamSynchronize(void *stream)
{
	if (stream == NULL)
		return 0; // the default stream, on which only copies run
	while (atomic_load(&hung) || (atomic_load(&stuck) && !atomic_load(&aborted)))
		sleep_us(1000);
	return 0;
}
int cudaStreamWaitEvent(void *stream, void *event, unsigned flags) { return (void)stream, (void)event, (void)flags, 0; }
int cudaLaunchHostFunc(void *stream, void (*function)(void *), void *data)
{
	(void)stream;
	function(data);
	return 0;
}
int cudaEventCreate(void **event);
int cudaEventCreateWithFlags(void **event, unsigned flags) { return (void)flags, cudaEventCreate(event); }
int cudaEventSynchronize(void *event) { return (void)event, 0; }
int cudaEventCreate(void **event) { return (*event = calloc(1, sizeof(struct timespec))) == NULL ? 2 : 0; }
int cudaEventDestroy(void *event) { return free(event), 0; }
int cudaEventRecord(void *event, void *stream) { return (void)stream, clock_gettime(CLOCK_MONOTONIC, event); }
int cudaEventElapsedTime(float *ms, void *start, void *stop)
{
	const struct timespec *a = start, *b = stop;
	*ms = (float)((double)(b->tv_sec - a->tv_sec) * 1e3 + (double)(b->tv_nsec - a->tv_nsec) / 1e6);
	return 0;
}
const char *cudaGetErrorString(int result) { return result == 101 ? "invalid device ordinal" : "fake CUDA error"; }

// ---- NCCL: communicators

int ncclGetVersion(int *version) { return *version = 22203, 0; }
const char *ncclGetErrorString(int result)
{
	return result == REMOTE_ERROR ? "remote process exited or there was a network error" : "fake NCCL error";
}
const char *ncclGetLastError(void *comm) { return (void)comm, ""; }
int ncclGetUniqueId(unique_id *id)
{
	int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	ssize_t n = read(fd, id->internal, sizeof(id->internal));
	return close(fd), n == sizeof(id->internal) ? 0 : 2;
}

// fault says whether FAKENCCL_FAULT has this kind for this call.
static int fault(const struct comm *c, const char *kind)
{
	char name[32];
	int op = 0, rank = -1;
	const char *text = getenv("FAKENCCL_FAULT");
	if (text == NULL || sscanf(text, "%31[a-z]:%d:%d", name, &op, &rank) < 1 || strcmp(name, kind) != 0)
		return 0;
	return (rank < 0 || rank == c->rank) && (strcmp(kind, "initfail") == 0 || op == c->ops);
}

static int peer_is_gone(const struct comm *c)
{
	for (int r = 0; r < c->ranks; r++) {
		int pid = atomic_load(&c->shared->pid[r]);
		if (pid != 0 && kill(pid, 0) != 0 && errno == ESRCH)
			return 1;
	}
	return 0;
}

// barrier waits for all ranks. It returns -1 if one has ended.
static int barrier(struct comm *c)
{
	struct shared *s = c->shared;
	int generation = atomic_load(&s->generation);
	if (atomic_fetch_add(&s->arrived, 1) + 1 == c->ranks) {
		atomic_store(&s->arrived, 0);
		atomic_fetch_add(&s->generation, 1);
		return 0;
	}
	for (int spins = 1; atomic_load(&s->generation) == generation; spins++) {
		if (spins % 1000 == 0 && peer_is_gone(c))
			return -1;
		if (spins > 2000)
			sleep_us(100);
		else
			sched_yield();
	}
	return 0;
}

static FILE *open_log(void)
{
	const char *level = getenv("NCCL_DEBUG"), *path = getenv("NCCL_DEBUG_FILE");
	if (level == NULL || strcmp(level, "INFO") != 0)
		return NULL;
	FILE *log = path != NULL ? fopen(path, "w") : fdopen(dup(STDOUT_FILENO), "w");
	if (log != NULL)
		setbuf(log, NULL);
	return log;
}

int ncclCommInitRank(void **out, int ranks, unique_id id, int rank)
{
	struct comm *c = calloc(1, sizeof(*c));
	char path[512];
	snprintf(path, sizeof(path), "%s/%02x%02x%02x%02x%02x%02x", getenv("FAKENCCL_DIR"), (uint8_t)id.internal[0],
		(uint8_t)id.internal[1], (uint8_t)id.internal[2], (uint8_t)id.internal[3], (uint8_t)id.internal[4],
		(uint8_t)id.internal[5]);
	if (c == NULL || ranks > MAX_RANKS)
		return INVALID_USAGE;
	c->rank = rank;
	c->ranks = ranks;
	if (fault(c, "initfail"))
		return INTERNAL_ERROR;
	if (fault(c, "nonet")) {
		fprintf(stderr, "ddlemu: traffic of this rank will NOT be emulated: the reason\n");
		return INVALID_USAGE;
	}
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || ftruncate(fd, sizeof(struct shared)) != 0)
		return 2;
	c->shared = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (c->shared == MAP_FAILED)
		return 2;
	atomic_store(&c->shared->pid[rank], getpid());
	c->log = open_log();
	if (c->log != NULL) {
		if (rank == 0)
			fprintf(c->log, "host:1:1 [0] NCCL INFO NCCL version 2.22.3+cuda12.4\n");
		fprintf(c->log,
			"host:1:1 [0] NCCL INFO comm 0x1 rank %d nRanks %d nNodes %d localRanks 1 localRank 0 MNNVL 0\n",
			rank, ranks, ranks);
		fprintf(c->log, "host:1:1 [0] NCCL INFO Ring 00 : %d -> %d -> %d\n", (rank + ranks - 1) % ranks, rank,
			(rank + 1) % ranks);
	}
	*out = c;
	return barrier(c) != 0 ? REMOTE_ERROR : 0;
}

int ncclCommDestroy(void *comm)
{
	struct comm *c = comm;
	if (barrier(c) != 0)
		return REMOTE_ERROR;
	atomic_store(&c->shared->pid[c->rank], 0);
	if (c->log != NULL)
		fclose(c->log);
	munmap(c->shared, sizeof(struct shared));
	free(c);
	return 0;
}
int ncclCommAbort(void *comm) { return (void)comm, atomic_store(&aborted, 1), 0; }
int ncclCommGetAsyncError(void *comm, int *error) { return (void)comm, *error = atomic_load(&async_error), 0; }

// ---- NCCL: arithmetic

static float bf16_to_float(uint16_t v)
{
	uint32_t bits = (uint32_t)v << 16;
	float f;
	return memcpy(&f, &bits, 4), f;
}

static uint16_t float_to_bf16(float f)
{
	uint32_t bits;
	memcpy(&bits, &f, 4);
	return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16); // to nearest, ties to even
}

#define REDUCE_INT(T) \
	for (size_t i = 0; i < n; i++) { \
		T a = ((T *)acc)[i], b = ((const T *)in)[i]; \
		((T *)acc)[i] = op == 1 ? (T)((uint64_t)a * (uint64_t)b) \
			: op == 2       ? (a > b ? a : b) \
			: op == 3       ? (a < b ? a : b) \
					: (T)((uint64_t)a + (uint64_t)b); \
	} \
	break

#define REDUCE_FLOAT(T) \
	for (size_t i = 0; i < n; i++) { \
		T a = ((T *)acc)[i], b = ((const T *)in)[i]; \
		((T *)acc)[i] = op == 1 ? a * b : op == 2 ? (a > b ? a : b) : op == 3 ? (a < b ? a : b) : a + b; \
	} \
	break

static void reduce(int type, int op, void *acc, const void *in, size_t n)
{
	switch (type) {
	case 0:
		REDUCE_INT(int8_t);
	case 1:
		REDUCE_INT(uint8_t);
	case 2:
		REDUCE_INT(int32_t);
	case 3:
		REDUCE_INT(uint32_t);
	case 4:
		REDUCE_INT(int64_t);
	case 5:
		REDUCE_INT(uint64_t);
	case 6:
		REDUCE_FLOAT(_Float16);
	case 7:
		REDUCE_FLOAT(float);
	case 8:
		REDUCE_FLOAT(double);
	case 9:
		for (size_t i = 0; i < n; i++) {
			float a = bf16_to_float(((uint16_t *)acc)[i]), b = bf16_to_float(((const uint16_t *)in)[i]);
			((uint16_t *)acc)[i] = float_to_bf16(op == 1 ? a * b
					: op == 2                    ? (a > b ? a : b)
					: op == 3                    ? (a < b ? a : b)
								     : a + b);
		}
	}
}

#define SCALE(T, expression) \
	for (size_t i = 0; i < n; i++) { \
		T v = ((T *)x)[i]; \
		((T *)x)[i] = (expression); \
	} \
	break

// scale does ncclAvg as NCCL does: floats are multiplied by 1/ranks before they are added, integer sums divided after.
static void scale(int type, int before, int ranks, void *x, size_t n)
{
	if (before != (type >= 6))
		return;
	switch (type) {
	case 0:
		SCALE(int8_t, v / (int8_t)ranks);
	case 1:
		SCALE(uint8_t, v / (uint8_t)ranks);
	case 2:
		SCALE(int32_t, v / ranks);
	case 3:
		SCALE(uint32_t, v / (uint32_t)ranks);
	case 4:
		SCALE(int64_t, v / ranks);
	case 5:
		SCALE(uint64_t, v / (uint64_t)ranks);
	case 6:
		SCALE(_Float16, v *(_Float16)(1.0f / (float)ranks));
	case 7:
		SCALE(float, v * (1.0f / (float)ranks));
	case 8:
		SCALE(double, v * (1.0 / ranks));
	case 9:
		SCALE(uint16_t, float_to_bf16(bf16_to_float(v) * bf16_to_float(float_to_bf16(1.0f / (float)ranks))));
	}
}

static size_t size_of(int type)
{
	static const size_t sizes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2 };
	return sizes[type];
}

// ---- NCCL: collectives

// begin is called at the beginning of every collective. It returns -1 if the collective must not run.
static int begin(struct comm *c, int function, size_t bytes)
{
	if (c->log != NULL && c->rank == 0 && function >= 0)
		fprintf(c->log, "host:1:1 [0] NCCL INFO %ld Bytes -> Algo 1 proto 2 time 12.500000\n", (long)bytes);
	if (getenv("FAKENCCL_OP_US") != NULL)
		sleep_us(atol(getenv("FAKENCCL_OP_US")));
	if (fault(c, "die"))
		raise(SIGKILL);
	if (fault(c, "hang"))
		atomic_store(&hung, 1);
	if (fault(c, "async")) {
		atomic_store(&stuck, 1);
		atomic_store(&async_error, REMOTE_ERROR);
	}
	return atomic_load(&stuck) || atomic_load(&hung) || bytes > SLOT ? -1 : 0;
}

static int lost(void)
{
	atomic_store(&stuck, 1);
	atomic_store(&async_error, REMOTE_ERROR);
	return 0;
}

static int end(struct comm *c, void *recv, size_t bytes)
{
	if (barrier(c) != 0)
		return lost();
	if (fault(c, "corrupt") && bytes > 0)
		*(char *)recv ^= 1;
	c->ops++;
	return 0;
}

static int publish(struct comm *c, const void *send, size_t bytes)
{
	memcpy(c->shared->slots[c->rank], send, bytes);
	return barrier(c);
}

// reduce_slots reduces elements from ... from+n-1 of all ranks' slots into out.
static void reduce_slots(struct comm *c, int type, int op, size_t from, size_t n, void *out)
{
	size_t size = size_of(type);
	char *part = malloc(n * size + 1), *acc = malloc(n * size + 1);
	for (int r = 0; r < c->ranks; r++) {
		char *into = r == 0 ? acc : part;
		memcpy(into, c->shared->slots[r] + from * size, n * size);
		if (op == 4)
			scale(type, 1, c->ranks, into, n);
		if (r > 0)
			reduce(type, op, acc, part, n);
	}
	if (op == 4)
		scale(type, 0, c->ranks, acc, n);
	memcpy(out, acc, n * size);
	free(part);
	free(acc);
}

int ncclAllReduce(const void *send, void *recv, size_t count, int type, int op, void *comm, void *stream)
{
	struct comm *c = comm;
	size_t bytes = count * size_of(type);
	(void)stream;
	if (begin(c, 4, bytes) != 0)
		return 0;
	if (publish(c, send, bytes) != 0)
		return lost();
	reduce_slots(c, type, op, 0, count, recv);
	return end(c, recv, bytes);
}

int ncclReduce(const void *send, void *recv, size_t count, int type, int op, int root, void *comm, void *stream)
{
	struct comm *c = comm;
	size_t bytes = count * size_of(type);
	(void)stream;
	if (begin(c, 1, bytes) != 0)
		return 0;
	if (publish(c, send, bytes) != 0)
		return lost();
	if (c->rank == root)
		reduce_slots(c, type, op, 0, count, recv);
	return end(c, recv, bytes);
}

int ncclReduceScatter(const void *send, void *recv, size_t count, int type, int op, void *comm, void *stream)
{
	struct comm *c = comm;
	size_t bytes = count * size_of(type);
	(void)stream;
	if (begin(c, 3, bytes * (size_t)c->ranks) != 0)
		return 0;
	if (publish(c, send, bytes * (size_t)c->ranks) != 0)
		return lost();
	reduce_slots(c, type, op, count * (size_t)c->rank, count, recv);
	return end(c, recv, bytes);
}

int ncclAllGather(const void *send, void *recv, size_t count, int type, void *comm, void *stream)
{
	struct comm *c = comm;
	size_t bytes = count * size_of(type);
	(void)stream;
	if (begin(c, 2, bytes * (size_t)c->ranks) != 0)
		return 0;
	if (publish(c, send, bytes) != 0)
		return lost();
	for (int r = 0; r < c->ranks; r++)
		memcpy((char *)recv + bytes * (size_t)r, c->shared->slots[r], bytes);
	return end(c, recv, bytes * (size_t)c->ranks);
}

int ncclBroadcast(const void *send, void *recv, size_t count, int type, int root, void *comm, void *stream)
{
	struct comm *c = comm;
	size_t bytes = count * size_of(type);
	(void)stream;
	if (begin(c, 0, bytes) != 0)
		return 0;
	if (publish(c, send, c->rank == root ? bytes : 0) != 0)
		return lost();
	memmove(recv, c->shared->slots[root], bytes);
	return end(c, recv, bytes);
}

// ---- NCCL: grouped send and receive

static struct {
	struct comm *comm;
	int sends, recvs;
	struct {
		int peer;
		size_t bytes;
		const void *from;
		void *to;
	} send[MAX_RANKS], recv[MAX_RANKS];
} group;

int ncclGroupStart(void) { return memset(&group, 0, sizeof(group)), 0; }
int ncclSend(const void *buffer, size_t count, int type, int peer, void *comm, void *stream)
{
	(void)stream;
	group.comm = comm;
	group.send[group.sends].peer = peer;
	group.send[group.sends].bytes = count * size_of(type);
	group.send[group.sends++].from = buffer;
	return 0;
}
int ncclRecv(void *buffer, size_t count, int type, int peer, void *comm, void *stream)
{
	(void)stream;
	group.comm = comm;
	group.recv[group.recvs].peer = peer;
	group.recv[group.recvs].bytes = count * size_of(type);
	group.recv[group.recvs++].to = buffer;
	return 0;
}
int ncclGroupEnd(void)
{
	struct comm *c = group.comm;
	size_t used = 0, first = group.recvs > 0 ? group.recv[0].bytes : 0;
	if (begin(c, -1, 0) != 0)
		return 0;
	for (int i = 0; i < group.sends; i++) {
		memcpy(c->shared->slots[c->rank] + used, group.send[i].from, group.send[i].bytes);
		c->shared->offset[c->rank][group.send[i].peer] = used;
		used += group.send[i].bytes;
	}
	if (barrier(c) != 0)
		return lost();
	for (int i = 0; i < group.recvs; i++) {
		int peer = group.recv[i].peer;
		memcpy(group.recv[i].to, c->shared->slots[peer] + c->shared->offset[peer][c->rank],
			group.recv[i].bytes);
	}
	return end(c, group.recvs > 0 ? group.recv[0].to : NULL, first);
}
