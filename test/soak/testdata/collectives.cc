// SPDX-License-Identifier: Apache-2.0
// All collectives one after another, in sizes at which NCCL changes its algorithm or protocol.
#include <algorithm>

#include "soak.h"

Members everybody()
{
	Members members;
	for (int r = 0; r < ranks; r++)
		members.push_back(r);
	return members;
}

static uint32_t sum(uint64_t key, const Members &members, size_t i)
{
	uint32_t s = 0;
	for (int r : members)
		s += word(key, r, i);
	return s;
}

static int index_in(const Members &members)
{
	return static_cast<int>(std::find(members.begin(), members.end(), rank) - members.begin());
}

void all_reduce(ncclComm_t comm, const Members &members, cudaStream_t stream, uint64_t key, size_t count)
{
	Buffer b(count * 4);
	b.put(inputs(key, rank, count));
	NCCL(ncclAllReduce(b.at(), b.at(), count, ncclUint32, ncclSum, comm, stream));
	wait_for(comm, stream);
	expect("AllReduce", b, count, [&](size_t i) { return sum(key, members, i); });
}

void all_gather(ncclComm_t comm, const Members &members, cudaStream_t stream, uint64_t key, size_t count)
{
	Buffer from(count * 4), to(count * 4 * members.size());
	from.put(inputs(key, rank, count));
	NCCL(ncclAllGather(from.at(), to.at(), count, ncclUint32, comm, stream));
	wait_for(comm, stream);
	expect("AllGather", to, count * members.size(),
		[&](size_t i) { return word(key, members[i / count], i % count); });
}

void reduce_scatter(ncclComm_t comm, const Members &members, cudaStream_t stream, uint64_t key, size_t count)
{
	Buffer from(count * 4 * members.size()), to(count * 4);
	from.put(inputs(key, rank, count * members.size()));
	NCCL(ncclReduceScatter(from.at(), to.at(), count, ncclUint32, ncclSum, comm, stream));
	wait_for(comm, stream);
	const size_t first = static_cast<size_t>(index_in(members)) * count;
	expect("ReduceScatter", to, count, [&](size_t i) { return sum(key, members, first + i); });
}

void broadcast(ncclComm_t comm, const Members &members, cudaStream_t stream, uint64_t key, size_t count, int root)
{
	Buffer b(count * 4);
	if (members[root] == rank)
		b.put(inputs(key, rank, count));
	NCCL(ncclBroadcast(b.at(), b.at(), count, ncclUint32, root, comm, stream));
	wait_for(comm, stream);
	expect("Broadcast", b, count, [&](size_t i) { return word(key, members[root], i); });
}

void reduce(ncclComm_t comm, const Members &members, cudaStream_t stream, uint64_t key, size_t count, int root)
{
	Buffer from(count * 4), to(count * 4);
	from.put(inputs(key, rank, count));
	NCCL(ncclReduce(from.at(), to.at(), count, ncclUint32, ncclSum, root, comm, stream));
	wait_for(comm, stream);
	if (members[root] == rank)
		expect("Reduce", to, count, [&](size_t i) { return sum(key, members, i); });
}

// collectives WHICH LARGEST ROUNDS: all, allreduce (Tree has no other), scatter (PAT has AllGather and ReduceScatter).
// LARGEST is in words.
int collectives(const Args &args)
{
	if (args.size() != 3)
		return 2;
	const std::string &which = args[0];
	const size_t largest = strtoul(args[1].c_str(), nullptr, 10);
	const int rounds = atoi(args[2].c_str());
	const ncclComm_t comm = new_comm();
	const cudaStream_t stream = new_stream();
	const Members members = everybody();
	uint64_t key = mix(seed);
	for (int round = 0; round < rounds; round++) {
		for (size_t count : { size_t(1), size_t(31), size_t(1027), size_t(16384), size_t(100003), largest }) {
			const int root = static_cast<int>(key % members.size());
			if (which != "scatter")
				all_reduce(comm, members, stream, key++, count);
			if (which == "allreduce")
				continue;
			all_gather(comm, members, stream, key++, count);
			reduce_scatter(comm, members, stream, key++, count);
			if (which == "scatter")
				continue;
			broadcast(comm, members, stream, key++, count, root);
			reduce(comm, members, stream, key++, count, root);
		}
	}
	// PAT has no AllReduce, so the last collective of scatter serves as the barrier.
	if (which == "scatter")
		NCCL(ncclCommDestroy(comm));
	else
		end_comm(comm, stream);
	CUDA(cudaStreamDestroy(stream));
	return 0;
}
