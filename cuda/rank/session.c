// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "session.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "protocol.h"

struct session session;

enum { WATCH_EVERY_MS = 100, ABORT_MS = 1000, LEAVE_NCCL_MS = 300 };

static pthread_mutex_t comm_lock = PTHREAD_MUTEX_INITIALIZER; // protects session.comms and comm_count
static pthread_t main_thread;
static atomic_int in_nccl;
static atomic_flag ending = ATOMIC_FLAG_INIT;
static _Atomic(const char *) command = "start";

static void sleep_ms(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
	nanosleep(&t, NULL);
}

void session_set_command(const char *verb) { atomic_store(&command, verb); }

void session_enter_nccl(void) { atomic_store(&in_nccl, 1); }
void session_leave_nccl(void) { atomic_store(&in_nccl, 0); }

static void *exit_after_timeout(void *unused)
{
	(void)unused;
	sleep_ms(ABORT_MS);
	_exit(1);
}

// Returns to the first caller, which ends the process. Any other thread waits for that.
static void begin_exit(void)
{
	while (atomic_flag_test_and_set(&ending))
		pause();
}

__attribute__((noreturn)) static void abort_and_exit(void)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, exit_after_timeout, NULL) != 0)
		_exit(1);
	for (int waited = 0; !pthread_equal(pthread_self(), main_thread) && atomic_load(&in_nccl); waited++) {
		if (waited == LEAVE_NCCL_MS)
			_exit(1); // the main thread does not return from NCCL; an abort is not safe then
		sleep_ms(1);
	}
	for (int i = 0; i < session.comm_count; i++)
		api.ncclCommAbort(session.comms[i].comm);
	_exit(1);
}

void session_fail(const char *name, const char *format, ...)
{
	begin_exit();
	char message[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	protocol_reply("error cmd=%s name=%s msg=%s", atomic_load(&command), name, message);
	fprintf(stderr, "%s: %s\n", atomic_load(&command), message);
	abort_and_exit();
}

void session_orphaned(void)
{
	begin_exit();
	abort_and_exit();
}

void session_check_cuda(cuda_result result, const char *what)
{
	if (result != 0)
		session_fail("cuda", "%s: %s (CUDA error %d)", what, api.cudaGetErrorString(result), result);
}

void session_check_nccl(nccl_result result, const char *what)
{
	if (result == NCCL_SUCCESS)
		return;
	const char *last = api.ncclGetLastError != NULL ? api.ncclGetLastError(NULL) : NULL;
	if (last != NULL && *last != '\0')
		session_fail(nccl_result_name(result), "%s: %s: %s", what, api.ncclGetErrorString(result), last);
	session_fail(nccl_result_name(result), "%s: %s", what, api.ncclGetErrorString(result));
}

void session_check_async(void)
{
	nccl_result first = NCCL_SUCCESS;
	pthread_mutex_lock(&comm_lock);
	for (int i = 0; i < session.comm_count && first == NCCL_SUCCESS; i++) {
		nccl_result error = NCCL_SUCCESS, result = api.ncclCommGetAsyncError(session.comms[i].comm, &error);
		if (result != NCCL_SUCCESS)
			error = result;
		if (error != NCCL_IN_PROGRESS)
			first = error;
	}
	pthread_mutex_unlock(&comm_lock);
	session_check_nccl(first, "NCCL reports an asynchronous error");
}

void session_closing(void) { atomic_flag_test_and_set(&ending); }

static void *watch(void *unused)
{
	(void)unused;
	for (;;) {
		sleep_ms(WATCH_EVERY_MS);
		session_check_async();
	}
	return NULL;
}

void session_watch(void)
{
	main_thread = pthread_self();
	pthread_t thread;
	if (pthread_create(&thread, NULL, watch, NULL) != 0)
		session_fail("system", "start the watching thread");
	pthread_detach(thread);
}

struct communicator *session_comm(const char *name)
{
	for (int i = 0; i < session.comm_count; i++)
		if (strcmp(session.comms[i].name, name) == 0)
			return &session.comms[i];
	return NULL;
}

static void make_stream(void)
{
	session_check_cuda(
		api.cudaStreamCreateWithFlags(&session.stream, CUDA_STREAM_NON_BLOCKING), "cudaStreamCreateWithFlags");
	session_check_cuda(api.cudaEventCreate(&session.start), "cudaEventCreate");
	session_check_cuda(api.cudaEventCreate(&session.stop), "cudaEventCreate");
}

void session_init(const char *name, int device, int ranks, int rank, const nccl_unique_id *id)
{
	if (session_comm(name) != NULL)
		session_fail("usage", "there is a communicator%s%s already", *name != '\0' ? " " : "", name);
	if (session.comm_count == COMMS_MAX || strlen(name) >= COMM_NAME_MAX)
		session_fail("usage", "more than %d communicators, or a name of more than %d bytes", COMMS_MAX,
			COMM_NAME_MAX - 1);
	session_check_cuda(api.cudaSetDevice(device), "cudaSetDevice");
	struct communicator made = { .rank = rank, .ranks = ranks };
	strcpy(made.name, name);
	session_enter_nccl();
	nccl_result result = api.ncclCommInitRank(&made.comm, ranks, *id, rank);
	session_leave_nccl();
	session_check_nccl(result, "ncclCommInitRank");
	if (session.comm_count == 0)
		make_stream();
	pthread_mutex_lock(&comm_lock);
	session.comms[session.comm_count++] = made;
	pthread_mutex_unlock(&comm_lock);
}

void session_close(void)
{
	if (session.comm_count == 0)
		return;
	while (session.comm_count > 0) {
		pthread_mutex_lock(&comm_lock);
		nccl_comm comm = session.comms[--session.comm_count].comm;
		pthread_mutex_unlock(&comm_lock);
		session_enter_nccl();
		nccl_result result = api.ncclCommDestroy(comm);
		session_leave_nccl();
		session_check_nccl(result, "ncclCommDestroy");
	}
	session_check_cuda(api.cudaEventDestroy(session.start), "cudaEventDestroy");
	session_check_cuda(api.cudaEventDestroy(session.stop), "cudaEventDestroy");
	session_check_cuda(api.cudaStreamDestroy(session.stream), "cudaStreamDestroy");
}

void session_reserve(size_t bytes)
{
	struct buffers *b = &session.buffers;
	if (b->stage == NULL)
		b->stage = malloc(STAGE_BYTES);
	if (b->stage == NULL)
		session_fail("system", "no memory for a staging buffer");
	if (bytes <= b->bytes)
		return;
	if (b->send != NULL)
		session_check_cuda(api.cudaFree(b->send), "cudaFree");
	if (b->recv != NULL)
		session_check_cuda(api.cudaFree(b->recv), "cudaFree");
	session_check_cuda(api.cudaMalloc((void **)&b->send, bytes), "cudaMalloc");
	session_check_cuda(api.cudaMalloc((void **)&b->recv, bytes), "cudaMalloc");
	b->bytes = bytes;
}
