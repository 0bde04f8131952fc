// SPDX-License-Identifier: Apache-2.0
//
// The line protocol with the parent. A line is a verb and words key=value, separated by single spaces; a value has no
// space in it (paths have %20 for it), but for msg, which is last and runs to the end of the line.
//
//   parent                                         this process answers
//   (start)                                        hello protocol= pid= cudart= nccl= version= devices=
//   uniqueid                                       ok id=HEX
//   init rank= ranks= device= id=HEX               ok ns=
//   reserve bytes=                                 ok                  (device buffers of at least that size)
//   prepare coll= type= op= root= count= inplace=  ok bytes=
//   fill seed=                                     ok
//   run iters= start=                              ok wall_ns= device_ns= late_ns=
//   check                                          ok checked= wrong= first= got= want=
//   destroy | abort                                ok
//   quit                                           ok, then exit status 0
//
// start is the CLOCK_MONOTONIC time in nanoseconds at which to begin, 0 for at once. wall_ns and device_ns are for
// all iterations together: the first from the first call until the stream is known to be done, the second between two
// events on the stream. late_ns is how long after start the first call was made.
//
// An error is "error cmd= name= msg=" at any time, with cmd the command that was being served, and then exit status
// 1: every error ends the process. Wrong use (flags) is exit status 2. At end of file on the input the process ends.

#ifndef DDLEMU_RANK_PROTOCOL_H
#define DDLEMU_RANK_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

enum { PROTOCOL_VERSION = 1, PROTOCOL_LINE_MAX = 4096, PROTOCOL_WORDS_MAX = 16 };

// A command, split in place.
struct command {
	char line[PROTOCOL_LINE_MAX];
	const char *verb;
	int words;
	const char *keys[PROTOCOL_WORDS_MAX], *values[PROTOCOL_WORDS_MAX];
};

// Takes the protocol's two descriptors for itself: later reads of standard input see nothing, and later writes to
// standard output (NCCL's log, say) go to standard error. Starts the reading thread; on_end runs on it at end of file.
// Returns 0, or -1 with errno set.
int protocol_open(void (*on_end)(void));

// Waits for the next command. Only one thread may call it.
void protocol_next(struct command *command);

// The value of a key, or NULL.
const char *protocol_value(const struct command *command, const char *key);

// Reads a whole number between low and high. Returns 0, or -1.
int protocol_number(const struct command *command, const char *key, int64_t low, int64_t high, int64_t *out);

// Writes one line to the parent. Safe from any thread.
__attribute__((format(printf, 1, 2))) void protocol_reply(const char *format, ...);

#endif
