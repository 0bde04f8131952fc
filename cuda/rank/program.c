// SPDX-License-Identifier: Apache-2.0

#define _GNU_SOURCE
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "protocol.h"
#include "session.h"

enum { PART_ALIGNMENT = 256 }; // of a part's buffers, in bytes: NCCL is fastest with aligned ones

// The reading of a program.
struct reader {
	struct program *program;
	const char *path;
	int line;
	int in_group;
	struct command command;
};

__attribute__((noreturn)) static void refuse(const struct reader *r, const char *what)
{
	session_fail("usage", "%s:%d: %s: %s", r->path, r->line, r->command.verb, what);
}

// Makes room for one more of count elements, and returns the address of the new one, which is zero.
static void *grow(void **array, int *count, size_t size)
{
	int n = *count;
	if ((n & (n - 1)) == 0) { // full, as the room is the next power of two
		size_t room = n == 0 ? 1 : 2 * (size_t)n;
		void *larger = realloc(*array, room * size);
		if (larger == NULL)
			session_fail("system", "no memory for a program of %d operations", n);
		*array = larger;
	}
	(*count)++;
	return memset((char *)*array + (size_t)n * size, 0, size);
}

static int64_t number_of(const struct reader *r, const char *key, int64_t low, int64_t high)
{
	int64_t value;
	if (protocol_number(&r->command, key, low, high, &value) != 0) {
		char what[128];
		snprintf(what, sizeof(what), "%s must be between %" PRId64 " and %" PRId64, key, low, high);
		refuse(r, what);
	}
	return value;
}

static int name_of(const struct reader *r, const char *key, int (*by_name)(const char *))
{
	int value = by_name(protocol_value(&r->command, key));
	if (value < 0)
		refuse(r, key);
	return value;
}

static void read_afters(struct reader *r, struct op *op)
{
	struct program *p = r->program;
	const char *text = protocol_value(&r->command, "after");
	op->first_after = p->after_count;
	while (text != NULL && *text != '\0') {
		char *rest;
		long number = strtol(text, &rest, 10);
		if (rest == text || (*rest != '\0' && *rest != ',') || number < 0 || number >= p->op_count - 1)
			refuse(r, "after must name operations before this one");
		*(int *)grow((void **)&p->afters, &p->after_count, sizeof(int)) = (int)number;
		p->ops[number].named = 1;
		text = *rest == ',' ? rest + 1 : rest;
	}
	op->afters = p->after_count - op->first_after;
}

static struct op *read_op(struct reader *r, enum op_kind kind)
{
	struct program *p = r->program;
	if (r->in_group)
		refuse(r, "it is in a group");
	struct op *op = grow((void **)&p->ops, &p->op_count, sizeof(*op));
	op->kind = kind;
	op->program = p;
	op->first_part = p->part_count;
	op->first_work = p->work_count;
	if (kind != OP_WAIT) {
		op->stream = (int)number_of(r, "stream", 0, STREAMS_MAX - 1);
		p->streams = op->stream >= p->streams ? op->stream + 1 : p->streams;
	}
	read_afters(r, op);
	return op;
}

// Reads an offset in the memory, from which on there are count elements.
static size_t offset_of(const struct reader *r, const char *key, size_t count)
{
	if (count > r->program->memory)
		refuse(r, "the memory has fewer elements");
	return (size_t)number_of(r, key, 0, (int64_t)(r->program->memory - count));
}

static void place_in_memory(const struct reader *r, struct part *part)
{
	const struct operation *o = &part->operation;
	if ((o->coll != COLL_SEND && o->coll != COLL_RECV) || o->type != TYPE_INT32)
		refuse(r, "at is for sends and receives of int32");
	part->in_memory = 1;
	part->offset = offset_of(r, "at", o->count) * type_size(TYPE_INT32);
}

static void read_memory(const struct reader *r)
{
	r->program->memory = (size_t)number_of(r, "count", 1, (int64_t)1 << 40);
	r->program->clear = (int)number_of(r, "clear", 0, 1);
}

// Reads work on the memory as the last one of the last operation.
static void read_work(struct reader *r, enum work_kind kind)
{
	struct program *p = r->program;
	if (!r->in_group)
		refuse(r, "it is in no group");
	struct work *w = grow((void **)&p->works, &p->work_count, sizeof(*w));
	w->kind = kind;
	w->count = (size_t)number_of(r, "count", 1, (int64_t)1 << 40);
	if (kind != WORK_EXPECT)
		w->to = offset_of(r, "to", w->count);
	if (kind != WORK_INPUT)
		w->from = offset_of(r, "from", w->count);
	if (kind == WORK_INPUT || kind == WORK_EXPECT) {
		w->first = (uint64_t)number_of(r, "first", 0, (int64_t)1 << 48);
		w->reduced = (int)number_of(r, "reduced", 0, 1);
		w->seed = number_of(r, "seed", 0, INT64_MAX);
	}
	if (kind == WORK_EXPECT)
		w->source = (int)number_of(r, "source", 0, INT32_MAX);
	struct op *op = &p->ops[p->op_count - 1];
	op->works++;
	if (op->parts == 0)
		op->works_before++;
}

// Reads a call as the last part of the last operation.
static void read_part(struct reader *r)
{
	struct program *p = r->program;
	struct part *part = grow((void **)&p->parts, &p->part_count, sizeof(*part));
	struct op *op = &p->ops[p->op_count - 1];
	const char *comm_name = protocol_value(&r->command, "comm");
	const struct communicator *comm = session_comm(comm_name != NULL ? comm_name : "");
	if (comm == NULL)
		refuse(r, "there is no such communicator");
	struct operation *operation = &part->operation;
	operation->coll = (enum collective)name_of(r, "coll", coll_by_name);
	operation->type = (enum data_type)name_of(r, "type", type_by_name);
	operation->op = (enum red_op)name_of(r, "op", op_by_name);
	operation->root = (int)number_of(r, "root", 0, INT32_MAX);
	operation->count = (size_t)number_of(r, "count", 0, (int64_t)1 << 48);
	operation->rank = comm->rank;
	operation->ranks = comm->ranks;
	operation->comm = comm->comm;
	char why[128];
	if (operation_check(operation, why, sizeof(why)) != 0)
		refuse(r, why);
	part->check = protocol_value(&r->command, "check") != NULL;
	if (part->check)
		part->seed = number_of(r, "check", 0, INT64_MAX);
	op->parts++;
	if (protocol_value(&r->command, "at") != NULL) {
		place_in_memory(r, part);
		return;
	}
	const struct part *before = op->parts > 1 ? part - 1 : NULL;
	if (before != NULL)
		part->offset = (before->offset + operation_bytes(&before->operation) + PART_ALIGNMENT - 1) /
			PART_ALIGNMENT * PART_ALIGNMENT;
	size_t bytes = part->offset + operation_bytes(operation);
	if (bytes > p->stream_bytes[op->stream])
		p->stream_bytes[op->stream] = bytes;
}

static enum work_kind name_of_work(const struct reader *r, const char *verb)
{
	static const char *const names[] = {
		[WORK_COPY] = "copy", [WORK_ADD] = "add", [WORK_INPUT] = "input", [WORK_EXPECT] = "expect"
	};
	for (int i = 0; i < (int)(sizeof(names) / sizeof(names[0])); i++)
		if (strcmp(verb, names[i]) == 0)
			return (enum work_kind)i;
	refuse(r, "there is no such line");
}

static void read_line(struct reader *r)
{
	const char *verb = r->command.verb;
	if (strcmp(verb, "calc") == 0) {
		read_op(r, OP_CALC)->ns = number_of(r, "ns", 0, INT64_MAX);
	} else if (strcmp(verb, "call") == 0) {
		if (!r->in_group)
			read_op(r, OP_CALL);
		read_part(r);
	} else if (strcmp(verb, "group") == 0) {
		read_op(r, OP_CALL)->grouped = 1;
		r->in_group = 1;
	} else if (strcmp(verb, "end") == 0 && r->in_group) {
		r->in_group = 0;
	} else if (strcmp(verb, "wait") == 0) {
		read_op(r, OP_WAIT);
	} else if (strcmp(verb, "memory") == 0 && r->line == 1) {
		read_memory(r);
	} else {
		read_work(r, name_of_work(r, verb));
	}
}

void program_read(struct program *program, const char *path)
{
	memset(program, 0, sizeof(*program));
	FILE *file = fopen(path, "re");
	if (file == NULL)
		session_fail("system", "open the program %s: %s", path, strerror(errno));
	struct reader r = { .program = program, .path = path };
	while (fgets(r.command.line, sizeof(r.command.line), file) != NULL) {
		r.line++;
		r.command.line[strcspn(r.command.line, "\n")] = '\0';
		protocol_split(&r.command);
		read_line(&r);
	}
	if (ferror(file) || r.in_group)
		session_fail("system", "read the program %s: it is cut", path);
	fclose(file);
}

static size_t times_bytes(const struct program *p)
{
	return sizeof(int64_t) + sizeof(struct times) * (size_t)p->op_count;
}

void program_make_times(struct program *program, const char *path)
{
	const size_t bytes = times_bytes(program);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int failed = fd < 0 || posix_fallocate(fd, 0, (off_t)bytes) != 0;
	void *file = failed ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
	if (file == MAP_FAILED)
		session_fail("system", "make the file of times %s: %s", path, strerror(errno));
	close(fd);
	program->file = file;
	for (int i = 0; i < program->op_count; i++)
		program->ops[i].times = (struct times *)(program->file + 1) + i;
}

void program_free(struct program *program)
{
	if (program->file != NULL)
		munmap(program->file, times_bytes(program));
	free(program->ops);
	free(program->parts);
	free(program->works);
	free(program->afters);
	memset(program, 0, sizeof(*program));
}
