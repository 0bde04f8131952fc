// SPDX-License-Identifier: Apache-2.0
//
// What a rank plays of a job (the commands load and play): a file of lines, each a verb and words key=value as in the
// protocol, in the order in which the host thread launches:
//
//   calc stream= ns= after=
//   call stream= after= comm= coll= type= op= root= count= check=
//   group stream= after=
//     call comm= coll= type= op= root= count= check=      of the group: one ncclGroupStart ... ncclGroupEnd
//   end
//   wait after=
//
// A program can have one memory of int32, which its sends and receives share: then the first line is
//
//   memory count= clear=                                    clear=1: with values that no input has
//   call ... at=                                            coll=send or coll=recv, type=int32: an offset in the memory
//
// and a group has lines with work on it, which the rank does before the calls if they stand before the first one, and
// behind them otherwise:
//
//   copy to= from= count=
//   add to= from= count=                                    adds those at from to those at to
//   input to= first= count= reduced= seed=                  elements of this rank's input, see pattern.h
//   expect from= first= count= reduced= source= seed=       compares with the input of rank source, or with the sum of
//   all
//
// Offsets and counts are numbers of elements. calc computes for ns: of virtual time, or of real time times the scale of
// the command. call is a collective of types.h, or coll=send or coll=recv, whose root is the peer. Ranks are the ranks
// of the communicator. wait makes the host thread wait.
//
// stream is a number below STREAMS_MAX. The operations on a stream run in their order. after lists operations that must
// have ended too, such as after=3,17: all lines are numbered from 0, but end and the calls of a group. Without after,
// wait waits for all operations before it. check is a seed: the call gets an input made from it, and all elements of
// the output are compared; without check its buffers have any values.
//
// The file of times is made before the program begins, so that what a rank has played is known if it is ended. It has
// numbers of 64 bits, in ns of the clock: when the program began, and for each operation, in their order, when its
// stream, and the operations of after, had come to it, and when it ended. For wait that is when the host thread came to
// it and went on. 0: not yet.

#ifndef DDLEMU_RANK_PROGRAM_H
#define DDLEMU_RANK_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#include "api.h"
#include "operation.h"

enum { STREAMS_MAX = 256 };

enum op_kind { OP_CALC, OP_CALL, OP_WAIT };

// A call of NCCL within an operation.
struct part {
	struct operation operation;
	size_t offset; // of its buffers in those of the stream, or in the memory of the program
	int in_memory;
	int check;
	int64_t seed;
};

enum work_kind { WORK_COPY, WORK_ADD, WORK_INPUT, WORK_EXPECT };

// Work on the memory of the program, in elements of int32.
struct work {
	enum work_kind kind;
	size_t to, from, count;
	uint64_t first; // of the input
	int reduced, source;
	int64_t seed;
};

struct program;

// When an operation ran, in the file of times.
struct times {
	int64_t ready, end;
};

struct op {
	enum op_kind kind;
	int stream;
	int64_t ns; // of OP_CALC
	int first_part, parts; // of OP_CALL
	int grouped;
	int first_work, works, works_before; // works_before of the works are done before the calls
	int first_after, afters;
	int named; // another operation waits for it
	cuda_event event; // recorded after it, if it is named
	struct times *times;
	struct program *program;
};

struct program {
	struct op *ops;
	struct part *parts;
	struct work *works;
	int *afters;
	int op_count, part_count, work_count, after_count;
	size_t memory; // elements of int32
	int clear;
	int streams; // one more than the largest number
	size_t stream_bytes[STREAMS_MAX]; // of the buffers
	int64_t *file; // of times: begin, then a struct times for each operation
};

// Reads a program. Ends the process with session_fail if it cannot be read.
void program_read(struct program *program, const char *path);

// Makes the file of times, in which the program's operations note them from then on.
void program_make_times(struct program *program, const char *path);

void program_free(struct program *program);

#endif
