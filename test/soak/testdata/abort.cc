// SPDX-License-Identifier: Apache-2.0
// ncclCommAbort in every phase of a communicator's life. Afterwards a new communicator of the same process must work.
#include <unistd.h>

#include <algorithm>

#include "soak.h"

static void aborted(const char *phase, ncclComm_t comm, cudaStream_t stream)
{
	const double start = now();
	NCCL(ncclCommAbort(comm));
	CUDA(cudaStreamSynchronize(stream));
	say("aborted %s after %.3f s", phase, now() - start);
}

// begin starts to make a communicator without blocking.
static ncclComm_t begin()
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	config.blocking = 0;
	ncclComm_t comm;
	const ncclUniqueId id = next_id();
	const ncclResult_t said = ncclCommInitRankConfig(&comm, ranks, id, rank, &config);
	if (said != ncclInProgress)
		NCCL(said);
	return comm;
}

// at_once: abort before anything was sent.
static void at_once(cudaStream_t stream) { aborted("at once", new_comm(), stream); }

// while_joining: abort while the other ranks never join.
static void while_joining(cudaStream_t stream)
{
	if (rank != 0) {
		next_id();
		return;
	}
	const ncclComm_t comm = begin();
	usleep(200000);
	aborted("while joining", comm, stream);
}

// while_connecting: abort while all ranks connect, each rank at another time.
static void while_connecting(cudaStream_t stream, Random &random)
{
	const ncclComm_t comm = begin();
	for (int r = 0; r < ranks; r++) {
		const unsigned wait = static_cast<unsigned>(random.below(300000));
		if (r == rank)
			usleep(wait);
	}
	aborted("while connecting", comm, stream);
}

// alone: abort while this rank waits for what the others never post.
static void alone(cudaStream_t stream)
{
	const ncclComm_t comm = new_comm();
	all_reduce(comm, everybody(), stream, 1, 1000);
	Buffer b(4 << 20);
	if (rank == 0) {
		NCCL(ncclAllReduce(b.at(), b.at(), b.size() / 4, ncclUint32, ncclSum, comm, stream));
		usleep(100000);
		if (cudaStreamQuery(stream) != cudaErrorNotReady) {
			say("a collective of one rank ended");
			exit(1);
		}
	}
	aborted("alone", comm, stream);
}

// in_flight: abort with megabytes in flight in all directions.
static void in_flight(cudaStream_t stream, Random &random)
{
	const ncclComm_t comm = new_comm();
	Buffer b(32 << 20);
	for (int i = 0; i < 8; i++)
		NCCL(ncclAllReduce(b.at(), b.at(), b.size() / 4, ncclUint32, ncclSum, comm, stream));
	usleep(static_cast<unsigned>(random.below(100000)));
	aborted("in flight", comm, stream);
}

// one_side: one rank aborts. The others get an error of the net, and abort too.
static void one_side(cudaStream_t stream, Random &random)
{
	const ncclComm_t comm = new_comm();
	Buffer b(32 << 20);
	for (int i = 0; i < 8; i++)
		NCCL(ncclAllReduce(b.at(), b.at(), b.size() / 4, ncclUint32, ncclSum, comm, stream));
	const unsigned wait = static_cast<unsigned>(random.below(50000));
	if (rank == 0) {
		usleep(wait);
	} else {
		const double start = now();
		ncclResult_t said = ncclSuccess;
		while (said == ncclSuccess && cudaStreamQuery(stream) == cudaErrorNotReady && now() < start + 30) {
			usleep(1000);
			NCCL(ncclCommGetAsyncError(comm, &said));
		}
		say("after %.3f s: %s", now() - start, ncclGetErrorString(said));
		if (said == ncclSuccess)
			exit(1);
	}
	aborted("one side", comm, stream);
}

// with_sends: abort with groups of Send and Recv in flight.
static void with_sends(cudaStream_t stream, Random &random)
{
	const ncclComm_t comm = new_comm();
	std::vector<Exchange> flying;
	for (int i = 0; i < 6; i++)
		flying.push_back(exchange(comm, stream, random, 8, 200000));
	usleep(static_cast<unsigned>(random.below(50000)));
	aborted("with sends", comm, stream);
}

// split: abort a communicator that was split off. Its parent goes on.
static void split_off(cudaStream_t stream)
{
	const ncclComm_t whole = new_comm();
	ncclComm_t half;
	NCCL(ncclCommSplit(whole, 0, rank, &half, nullptr));
	Buffer b(16 << 20);
	NCCL(ncclAllReduce(b.at(), b.at(), b.size() / 4, ncclUint32, ncclSum, half, stream));
	aborted("a split communicator", half, stream);
	all_reduce(whole, everybody(), stream, 2, 100003);
	NCCL(ncclCommDestroy(whole));
}

// finished: abort after everything was complete and finalised.
static void finished(cudaStream_t stream)
{
	const ncclComm_t comm = new_comm();
	all_reduce(comm, everybody(), stream, 3, 100003);
	NCCL(ncclCommFinalize(comm));
	aborted("finished", comm, stream);
}

// abort [PHASE...]: these phases, or all. After each, a new communicator must work.
int abort_in(const Args &args)
{
	Random random{ mix(seed) };
	const cudaStream_t stream = new_stream();
	uint64_t key = mix(seed);
	int done = 0;
	const auto phase = [&](const char *name, auto &&run) {
		if (!args.empty() && std::find(args.begin(), args.end(), name) == args.end())
			return;
		run();
		const ncclComm_t comm = new_comm();
		all_reduce(comm, everybody(), stream, key++, 100003);
		NCCL(ncclCommDestroy(comm));
		done++;
	};
	phase("at-once", [&] { at_once(stream); });
	phase("joining", [&] { while_joining(stream); });
	phase("connecting", [&] { while_connecting(stream, random); });
	phase("alone", [&] { alone(stream); });
	phase("in-flight", [&] { in_flight(stream, random); });
	phase("one-side", [&] { one_side(stream, random); });
	phase("sends", [&] { with_sends(stream, random); });
	phase("split", [&] { split_off(stream); });
	phase("finished", [&] { finished(stream); });
	CUDA(cudaStreamDestroy(stream));
	return done > 0 ? 0 : 2;
}
