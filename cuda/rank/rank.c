// SPDX-License-Identifier: Apache-2.0
//
// ddlemu-rank: one rank of `ddlemu bench`. It loads a CUDA runtime and an NCCL at run time and serves its parent's
// commands (protocol.h): create a communicator, run and time a collective, check every element.

#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "api.h"
#include "clock.h"
#include "operation.h"
#include "play.h"
#include "program.h"
#include "protocol.h"
#include "session.h"

enum { LIBRARIES_MAX = 8 };

// Waits until nothing is left to happen on all ranks, if the clock is virtual: then all ranks begin the next command at
// the same virtual time, and nothing is on its way. Until the next command this rank keeps the clock from moving.
static void settle(void)
{
	if (api.ddlemuSoftSettle != NULL)
		api.ddlemuSoftSettle(); // fails if the clock is real, which needs no settling
}

static int64_t number(const struct command *c, const char *key, int64_t low, int64_t high)
{
	int64_t value;
	if (protocol_number(c, key, low, high, &value) != 0)
		session_fail("usage", "%s needs %s between %" PRId64 " and %" PRId64, c->verb, key, low, high);
	return value;
}

static int named(const struct command *c, const char *key, int (*by_name)(const char *))
{
	const char *name = protocol_value(c, key);
	int value = by_name(name);
	if (value < 0)
		session_fail("usage", "%s: unknown %s=%s", c->verb, key, name != NULL ? name : "");
	return value;
}

static void do_uniqueid(const struct command *c, struct operation *operation)
{
	(void)c, (void)operation;
	nccl_unique_id id;
	char hex[2 * NCCL_UNIQUE_ID_BYTES + 1];
	session_enter_nccl();
	nccl_result result = api.ncclGetUniqueId(&id);
	session_leave_nccl();
	session_check_nccl(result, "ncclGetUniqueId");
	for (int i = 0; i < NCCL_UNIQUE_ID_BYTES; i++)
		sprintf(hex + 2 * i, "%02x", (unsigned char)id.internal[i]);
	protocol_reply("ok id=%s", hex);
}

static void read_id(const struct command *c, nccl_unique_id *id)
{
	const char *hex = protocol_value(c, "id");
	if (hex == NULL || strlen(hex) != 2 * NCCL_UNIQUE_ID_BYTES)
		session_fail("usage", "init needs id, 128 bytes in hex");
	for (int i = 0; i < NCCL_UNIQUE_ID_BYTES; i++) {
		unsigned byte;
		if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
			session_fail("usage", "init needs id, 128 bytes in hex");
		id->internal[i] = (char)byte;
	}
}

// The name of the communicator that a command is for: "" if it says none.
static const char *comm_name(const struct command *c)
{
	const char *name = protocol_value(c, "comm");
	return name != NULL ? name : "";
}

static void do_init(const struct command *c, struct operation *operation)
{
	(void)operation;
	nccl_unique_id id;
	read_id(c, &id);
	int ranks = (int)number(c, "ranks", 1, 1 << 20);
	int rank = (int)number(c, "rank", 0, ranks - 1);
	int device = (int)number(c, "device", 0, 1 << 20);
	int64_t begin = monotonic_ns();
	session_init(comm_name(c), device, ranks, rank, &id);
	protocol_reply("ok ns=%" PRId64, monotonic_ns() - begin);
}

static void read_operation(const struct command *c, struct operation *operation)
{
	char why[128];
	const struct communicator *comm = session_comm(comm_name(c));
	if (comm == NULL)
		session_fail("usage", "%s: there is no communicator %s: init first", c->verb, comm_name(c));
	memset(operation, 0, sizeof(*operation));
	operation->coll = (enum collective)named(c, "coll", coll_by_name);
	operation->type = (enum data_type)named(c, "type", type_by_name);
	operation->op = (enum red_op)named(c, "op", op_by_name);
	operation->root = (int)number(c, "root", 0, 1 << 20);
	operation->count = (size_t)number(c, "count", 0, (int64_t)1 << 48);
	operation->in_place = (int)number(c, "inplace", 0, 1);
	operation->rank = comm->rank;
	operation->ranks = comm->ranks;
	operation->comm = comm->comm;
	if (operation_check(operation, why, sizeof(why)) != 0)
		session_fail("usage", "%s: %s", c->verb, why);
}

static void do_prepare(const struct command *c, struct operation *operation)
{
	read_operation(c, operation);
	session_reserve(operation_bytes(operation));
	protocol_reply("ok bytes=%zu", operation_bytes(operation));
}

static void do_fill(const struct command *c, struct operation *operation)
{
	int64_t seed = number(c, "seed", 0, INT64_MAX);
	session_check_cuda(operation_fill(operation, &session.buffers, (uint64_t)seed), "copy the input to the device");
	protocol_reply("ok");
}

static void do_run(const struct command *c, struct operation *operation)
{
	int64_t iters = number(c, "iters", 1, 1 << 30), start = number(c, "start", 0, INT64_MAX);
	int64_t late = wait_for_start(start);
	int64_t begin = fabric_now();
	session_check_cuda(api.cudaEventRecord(session.start, session.stream), "cudaEventRecord");
	session_enter_nccl();
	for (int64_t i = 0; i < iters; i++)
		session_check_nccl(
			operation_launch(operation, &session.buffers, session.stream), "start the collective");
	session_leave_nccl();
	session_check_cuda(api.cudaEventRecord(session.stop, session.stream), "cudaEventRecord");
	session_check_cuda(api.cudaStreamSynchronize(session.stream), "cudaStreamSynchronize");
	int64_t wall = fabric_now() - begin;
	session_check_async(); // after an error NCCL ends its kernels, so the stream is done too
	settle();
	float device_ms;
	session_check_cuda(api.cudaEventElapsedTime(&device_ms, session.start, session.stop), "cudaEventElapsedTime");
	protocol_reply("ok wall_ns=%" PRId64 " device_ns=%.0f late_ns=%" PRId64, wall, (double)device_ms * 1e6, late);
}

// Makes a call, the first of a group if it opens one, the last if it closes it.
static nccl_result launch_grouped(struct operation *operation, int opens, int closes)
{
	nccl_result result = opens ? api.ncclGroupStart() : NCCL_SUCCESS;
	if (result != NCCL_SUCCESS)
		return result;
	result = operation_launch(operation, &session.buffers, session.stream);
	nccl_result end = closes ? api.ncclGroupEnd() : NCCL_SUCCESS;
	return result != NCCL_SUCCESS ? result : end;
}

// NCCL returns from a collective whose kernel is refused with an error of CUDA, and the communicator stays usable.
static void do_decide(const struct command *c, struct operation *unused)
{
	(void)unused;
	static int in_group;
	int more = (int)number(c, "more", 0, 1);
	if (api.ddlemuSoftRefuseKernels == NULL)
		session_fail("usage", "decide needs the software CUDA");
	struct operation operation;
	read_operation(c, &operation);
	operation.decides = 1;
	session_reserve(1); // some address on the device
	int refused = -api.ddlemuSoftRefuseKernels(1);
	session_enter_nccl();
	nccl_result result = launch_grouped(&operation, more && !in_group, in_group && !more);
	session_leave_nccl();
	in_group = more;
	refused += api.ddlemuSoftRefuseKernels(0);
	if (refused == 0 || result != NCCL_UNHANDLED_CUDA_ERROR) // it may have launched nothing
		session_check_nccl(result, "decide on the collective");
	protocol_reply("ok");
}

static void do_check(const struct command *c, struct operation *operation)
{
	(void)c;
	if (!operation->filled || operation->launches == 0)
		session_fail("usage", "check needs fill and run before it");
	if (operation->launches > 1 && !operation_repeatable(operation))
		session_fail("usage", "an in-place reduction that ran %" PRIu64 " times has no result to check",
			operation->launches);
	struct mismatch found;
	uint64_t checked;
	session_check_cuda(
		operation_verify(operation, &session.buffers, &found, &checked), "copy the output from the device");
	if (found.wrong == 0)
		protocol_reply("ok checked=%" PRIu64 " wrong=0", checked);
	else
		protocol_reply("ok checked=%" PRIu64 " wrong=%" PRIu64 " first=%" PRIu64 " got=%s want=%s", checked,
			found.wrong, found.first, found.got, found.want);
}

// Returns a path, in which %20 stands for a space and %25 for a percent sign.
static const char *path_of(const struct command *c, const char *key)
{
	static char path[PROTOCOL_LINE_MAX];
	const char *text = protocol_value(c, key);
	size_t n = 0;
	if (text == NULL)
		session_fail("usage", "%s needs %s", c->verb, key);
	while (*text != '\0') {
		int escaped = strncmp(text, "%20", 3) == 0 || strncmp(text, "%25", 3) == 0;
		path[n++] = escaped ? (text[2] == '0' ? ' ' : '%') : *text;
		text += escaped ? 3 : 1;
	}
	path[n] = '\0';
	return path;
}

static struct program program; // of load

static void do_load(const struct command *c, struct operation *operation)
{
	(void)operation;
	program_free(&program);
	program_read(&program, path_of(c, "program"));
	play_prepare(&program);
	protocol_reply("ok");
}

static void do_play(const struct command *c, struct operation *operation)
{
	(void)operation;
	const char *text = protocol_value(c, "scale");
	double scale = text != NULL ? strtod(text, NULL) : 0;
	int64_t start = number(c, "start", 0, INT64_MAX);
	if (scale <= 0)
		session_fail("usage", "play needs a scale above 0");
	program_make_times(&program, path_of(c, "times"));
	struct played played;
	play(&program, scale, start, &played);
	session_check_async(); // after an error NCCL ends its kernels, so the streams are done too
	settle();
	program_free(&program);
	protocol_reply("ok begin=%" PRId64 " end=%" PRId64 " checked=%" PRIu64 " wrong=%" PRIu64 " op=%d first=%" PRIu64
		       " got=%s want=%s",
		played.begin, played.end, played.checked, played.wrong, played.wrong_op, played.mismatch.first,
		played.mismatch.got, played.mismatch.want);
}

static void do_reserve(const struct command *c, struct operation *operation)
{
	(void)operation;
	session_reserve((size_t)number(c, "bytes", 0, (int64_t)1 << 48));
	protocol_reply("ok");
}

static void do_destroy(const struct command *c, struct operation *operation)
{
	(void)c;
	memset(operation, 0, sizeof(*operation));
	play_close();
	session_close();
	protocol_reply("ok");
}

static void do_quit(const struct command *c, struct operation *operation)
{
	(void)c, (void)operation;
	session_closing(); // before the reply: after it the parent closes this process's input
	protocol_reply("ok");
	exit(0);
}

static const struct handler {
	const char *verb;
	void (*handle)(const struct command *command, struct operation *operation);
	int needs_comm, needs_operation;
} handlers[] = {
	{ "uniqueid", do_uniqueid, 0, 0 },
	{ "init", do_init, 0, 0 },
	{ "reserve", do_reserve, 0, 0 },
	{ "prepare", do_prepare, 1, 0 },
	{ "fill", do_fill, 1, 1 },
	{ "run", do_run, 1, 1 },
	{ "decide", do_decide, 1, 0 },
	{ "check", do_check, 1, 1 },
	{ "load", do_load, 1, 0 },
	{ "play", do_play, 1, 0 },
	{ "destroy", do_destroy, 0, 0 },
	{ "quit", do_quit, 0, 0 },
};

static void serve(const struct command *c, struct operation *operation)
{
	for (size_t i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++) {
		if (strcmp(c->verb, handlers[i].verb) != 0)
			continue;
		session_set_command(handlers[i].verb);
		if (handlers[i].needs_comm && session.comm_count == 0)
			session_fail("usage", "%s needs a communicator: init first", c->verb);
		if (handlers[i].needs_operation && operation->ranks == 0)
			session_fail("usage", "%s needs prepare before it", c->verb);
		handlers[i].handle(c, operation);
		return;
	}
	session_fail("usage", "there is no command %s", c->verb);
}

static void usage(FILE *out)
{
	fprintf(out,
		"usage: ddlemu-rank --cudart LIBRARY... --nccl LIBRARY...\n"
		"One rank of `ddlemu bench`, which sends it commands on standard input.\n"
		"Each flag may be given several times: the first library that loads is used.\n");
}

// Escapes spaces and percent signs of a path as %20 and %25.
static void escape_path(const char *path, char *out, size_t size)
{
	size_t n = 0;
	for (; *path != '\0' && n + 4 < size; path++) {
		if (*path == ' ' || *path == '%')
			n += (size_t)sprintf(out + n, "%%%02x", *path);
		else
			out[n++] = *path;
	}
	out[n] = '\0';
}

static void send_hello(void)
{
	int version = 0, devices = 0;
	char cudart[1024], nccl[1024];
	escape_path(api.cudart_path, cudart, sizeof(cudart));
	escape_path(api.nccl_path, nccl, sizeof(nccl));
	session_check_nccl(api.ncclGetVersion(&version), "ncclGetVersion");
	session_check_cuda(api.cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
	protocol_reply("hello protocol=%d pid=%d version=%d devices=%d decides=%d cudart=%s nccl=%s", PROTOCOL_VERSION,
		(int)getpid(), version, devices, api.ddlemuSoftRefuseKernels != NULL, cudart, nccl);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "cudart", required_argument, NULL, 'c' },
		{ "nccl", required_argument, NULL, 'n' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	const char *cudart[LIBRARIES_MAX], *nccl[LIBRARIES_MAX];
	int cudart_count = 0, nccl_count = 0, option;
	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'c' && cudart_count < LIBRARIES_MAX) {
			cudart[cudart_count++] = optarg;
		} else if (option == 'n' && nccl_count < LIBRARIES_MAX) {
			nccl[nccl_count++] = optarg;
		} else {
			usage(option == 'h' ? stdout : stderr);
			return option == 'h' ? 0 : 2;
		}
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL); // also ends the process if its reading thread is blocked
	if (protocol_open(session_orphaned) != 0) {
		fprintf(stderr, "open the protocol: %s\n", strerror(errno));
		return 1;
	}
	session_watch();
	char why[512];
	if (api_load(cudart, cudart_count, nccl, nccl_count, why, sizeof(why)) != 0)
		session_fail("load", "%s", why);
	if (api.ddlemuSoftExact != NULL && api.ddlemuSoftExact() != 0)
		session_fail("load", "ddlemuSoftExact failed: another thread of this process has called it before");
	send_hello();
	struct command c;
	struct operation operation = { 0 };
	for (;;) {
		protocol_next(&c);
		serve(&c, &operation);
	}
}
