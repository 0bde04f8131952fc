// SPDX-License-Identifier: Apache-2.0
// A loop of blocking AllReduces in C, on a communicator that the caller has: what NCCL and the software CUDA take.
#include <stddef.h>
#include <time.h>

enum { FLOAT = 7, SUM = 0 }; // ncclFloat32, ncclSum

typedef int all_reduce(const void *, void *, size_t, int, int, void *, void *);
typedef int synchronize(void *);

// all_reduces makes n calls, each followed by a wait for the stream. Returns the seconds, or less than 0 after an error.
double all_reduces(all_reduce *reduce, synchronize *wait, void *comm, void *stream, void *data, size_t count, int n)
{
	struct timespec begin, end;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int i = 0; i < n; i++) {
		const int result = reduce(data, data, count, FLOAT, SUM, comm, stream);
		const int in_progress = 7; // of a communicator that does not block; the wait is for the operation all the same
		if ((result != 0 && result != in_progress) || wait(stream) != 0)
			return -1;
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	return (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
}
