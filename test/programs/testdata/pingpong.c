// SPDX-License-Identifier: Apache-2.0
// An MPI program of 4 ranks. It checks that they are on 2 hosts and that sums over all ranks are right. It prints the
// shortest time of a message from rank 0 to the last rank in us: half of a round trip.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kRounds = 40, kLongest = 100000 };

static void fail(const char *what, int got, int want)
{
	fprintf(stderr, "%s: got %d, want %d\n", what, got, want);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

// Ranks on one host share memory. Each host must have 2 ranks.
static void check_hosts(void)
{
	MPI_Comm host;
	int ranks;
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
	MPI_Comm_size(host, &ranks);
	if (ranks != 2)
		fail("ranks on this host", ranks, 2);
	MPI_Comm_free(&host);
}

static void check_allreduce(int rank, int world, int n)
{
	int *in = malloc(n * sizeof *in), *sum = malloc(n * sizeof *sum);
	if (!in || !sum)
		abort();
	for (int i = 0; i < n; i++)
		in[i] = (rank + 1) * i;
	MPI_Allreduce(in, sum, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	for (int i = 0; i < n; i++)
		if (sum[i] != world * (world + 1) / 2 * i)
			fail("sum", sum[i], world * (world + 1) / 2 * i);
	free(in);
	free(sum);
}

static double ping(int rank, int peer)
{
	char byte = 0;
	double start = MPI_Wtime();
	if (rank < peer) {
		MPI_Send(&byte, 1, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
		MPI_Recv(&byte, 1, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	} else {
		MPI_Recv(&byte, 1, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		MPI_Send(&byte, 1, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
	}
	return MPI_Wtime() - start;
}

int main(int argc, char **argv)
{
	int rank, world;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &world);
	if (world != 4)
		fail("ranks", world, 4);
	check_hosts();
	for (int n = 1; n <= kLongest; n *= 10)
		check_allreduce(rank, world, n);
	double best = 1e9;
	if (rank == 0 || rank == world - 1)
		for (int i = 0; i < kRounds; i++) {
			double t = ping(rank, world - 1 - rank);
			if (t < best)
				best = t;
		}
	if (rank == 0)
		printf("allreduce ok\nlatency %.1f us\n", best / 2 * 1e6);
	MPI_Finalize();
	return 0;
}
