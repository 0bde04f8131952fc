// SPDX-License-Identifier: Apache-2.0
//
// The protocol with the parent: lines of text. A line is a verb and words key=value, separated by single spaces. A
// value has no spaces (paths have %20 instead), except for msg, which is last and extends to the end of the line.
//
//   command of the parent                          reply of this process
//   (start)                                        hello protocol= pid= cudart= nccl= version= devices= decides=
//   uniqueid                                       ok id=HEX
//   init comm= rank= ranks= device= id=HEX         ok ns=
//   reserve bytes=                                 ok                  (device buffers of at least that size)
//   prepare comm= coll= type= op= root= count= inplace=
//                                                  ok bytes=
//   fill seed=                                     ok
//   run iters= start=                              ok wall_ns= device_ns= late_ns=
//   decide comm= coll= type= op= root= count= inplace= more=
//                                                  ok                  (only if hello has decides=1)
//   check                                          ok checked= wrong= first= got= want=
//   load program=PATH                              ok
//   play times=PATH scale= start=                  ok begin= end= checked= wrong= op= first= got= want=
//   destroy                                        ok
//   quit                                           ok, then exit status 0
//
// comm is the name of a communicator, at most 63 bytes; without it that is "". A process can have several, each with
// ranks of its own. destroy ends all of them.
//
// start is the CLOCK_MONOTONIC time in nanoseconds of the first call; 0 means at once. wall_ns and device_ns are the
// times of all iterations together: wall_ns from the first call until cudaStreamSynchronize returns, device_ns between
// two events on the stream. late_ns is the time from start to the first call.
//
// load reads the operations of a file, play runs them once and writes to another file when each of them ran. program.h
// specifies both files. begin and end are the times of the clock at the first launch and after the last operation.
// checked and wrong count elements; the other values are of the first operation with wrong ones. While it runs, lines
// "progress done=" can come before the reply, with the number of operations that have ended.
//
// decide makes NCCL decide on a collective and log that, without a kernel and without proxies: no data moves, and the
// buffers may be smaller than the collective. It is no reserve, prepare or run, and needs none of them. After more=1
// the next decide is in one group with it; NCCL decides when the last one of the group, with more=0, is there.
//
// Every error ends the process. At any time it can write "error cmd= name= msg=", where cmd is the current command, and
// exit with status 1. The exit status for wrong flags is 2. At end of file on its input the process ends.

#ifndef DDLEMU_RANK_PROTOCOL_H
#define DDLEMU_RANK_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

enum { PROTOCOL_VERSION = 1, PROTOCOL_LINE_MAX = 4096, PROTOCOL_WORDS_MAX = 16 };

// A command. The strings point into line.
struct command {
	char line[PROTOCOL_LINE_MAX];
	const char *verb;
	int words;
	const char *keys[PROTOCOL_WORDS_MAX], *values[PROTOCOL_WORDS_MAX];
};

// Reserves standard input and output for the protocol: later reads of standard input return nothing, and later writes
// to standard output, such as NCCL's log, go to standard error. Starts the reading thread, which calls on_end at end of
// file. Returns 0, or -1 with errno set.
int protocol_open(void (*on_end)(void));

// Waits for the next command. Only one thread may call it.
void protocol_next(struct command *command);

// Splits line, which it changes, into the verb and words.
void protocol_split(struct command *command);

// Returns the value of a key, or NULL.
const char *protocol_value(const struct command *command, const char *key);

// Parses an integer between low and high. Returns 0, or -1.
int protocol_number(const struct command *command, const char *key, int64_t low, int64_t high, int64_t *out);

// Writes one line to the parent. Safe from any thread.
__attribute__((format(printf, 1, 2))) void protocol_reply(const char *format, ...);

#endif
