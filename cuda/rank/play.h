// SPDX-License-Identifier: Apache-2.0
//
// The playing of a program: streams, dependencies, computation, and the times of the operations.

#ifndef DDLEMU_RANK_PLAY_H
#define DDLEMU_RANK_PLAY_H

#include <stdint.h>

#include "operation.h"
#include "program.h"

struct played {
	int64_t begin, end; // times of the clock
	uint64_t checked, wrong; // elements
	int wrong_op; // the first operation with wrong elements; -1 for none
	struct mismatch mismatch; // in it
};

// Makes the streams, buffers and events that the program needs. This and play end the process after an error.
void play_prepare(struct program *program);

// Launches all operations in their order, and waits until they have ended. It begins at start, a time of
// CLOCK_MONOTONIC, or at once if that is 0. scale stretches computation on the real clock. A program is played
// once.
void play(struct program *program, double scale, int64_t start, struct played *out);

// Destroys the streams and their buffers. Call it before the communicators end.
void play_close(void);

#endif
