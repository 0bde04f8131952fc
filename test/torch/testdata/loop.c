// SPDX-License-Identifier: Apache-2.0
// A loop of blocking AllReduces in C, on a communicator that the caller has: what NCCL and the software CUDA take.
#include <sched.h>
#include <stddef.h>
#include <time.h>

enum { SUCCESS = 0, IN_PROGRESS = 7, FLOAT = 7, SUM = 0 }; // ncclInProgress, ncclFloat32, ncclSum

typedef int all_reduce(const void *, void *, size_t, int, int, void *, void *);
typedef int async_error(void *, int *);
typedef int synchronize(void *);

// settle waits until a communicator that does not block has started its operation.
static int settle(async_error *ask, void *comm)
{
	for (int state = IN_PROGRESS;; sched_yield()) {
		if (ask(comm, &state) != SUCCESS)
			return -1;
		if (state != IN_PROGRESS)
			return state;
	}
}

// all_reduces makes n calls, each followed by a wait for the stream. Returns the seconds, or less than 0 after an
// error.
double all_reduces(all_reduce *reduce, async_error *ask, synchronize *wait, void *comm, void *stream, void *data,
	size_t count, int n)
{
	struct timespec begin, end;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int i = 0; i < n; i++) {
		const int result = reduce(data, data, count, FLOAT, SUM, comm, stream);
		if ((result != SUCCESS && result != IN_PROGRESS) || settle(ask, comm) != SUCCESS || wait(stream) != 0)
			return -1;
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	return (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
}
