// SPDX-License-Identifier: Apache-2.0
// All collectives one after another, in sizes at which NCCL changes its algorithm or protocol.
#include <algorithm>

#include "soak.h"

Part everybody()
{
	Part part;
	for (int r = 0; r < ranks; r++)
		part.push_back(r);
	return part;
}

static uint32_t sum(uint64_t key, const Part &part, size_t i)
{
	uint32_t s = 0;
	for (int r : part)
		s += word(key, r, i);
	return s;
}

static int index_in(const Part &part)
{
	return static_cast<int>(std::find(part.begin(), part.end(), rank) - part.begin());
}

void all_reduce(ncclComm_t comm, const Part &part, cudaStream_t stream, uint64_t key, size_t count)
{
	Buffer b(count * 4);
	b.put(inputs(key, rank, count));
	NCCL(ncclAllReduce(b.at(), b.at(), count, ncclUint32, ncclSum, comm, stream));
	wait_for(comm, stream);
	expect("AllReduce", b, count, [&](size_t i) { return sum(key, part, i); });
}

void all_gather(ncclComm_t comm, const Part &part, cudaStream_t stream, uint64_t key, size_t count)
{
	Buffer from(count * 4), to(count * 4 * part.size());
	from.put(inputs(key, rank, count));
	NCCL(ncclAllGather(from.at(), to.at(), count, ncclUint32, comm, stream));
	wait_for(comm, stream);
	expect("AllGather", to, count * part.size(), [&](size_t i) { return word(key, part[i / count], i % count); });
}

void reduce_scatter(ncclComm_t comm, const Part &part, cudaStream_t stream, uint64_t key, size_t count)
{
	Buffer from(count * 4 * part.size()), to(count * 4);
	from.put(inputs(key, rank, count * part.size()));
	NCCL(ncclReduceScatter(from.at(), to.at(), count, ncclUint32, ncclSum, comm, stream));
	wait_for(comm, stream);
	const size_t first = static_cast<size_t>(index_in(part)) * count;
	expect("ReduceScatter", to, count, [&](size_t i) { return sum(key, part, first + i); });
}

void broadcast(ncclComm_t comm, const Part &part, cudaStream_t stream, uint64_t key, size_t count, int root)
{
	Buffer b(count * 4);
	if (part[root] == rank)
		b.put(inputs(key, rank, count));
	NCCL(ncclBroadcast(b.at(), b.at(), count, ncclUint32, root, comm, stream));
	wait_for(comm, stream);
	expect("Broadcast", b, count, [&](size_t i) { return word(key, part[root], i); });
}

void reduce(ncclComm_t comm, const Part &part, cudaStream_t stream, uint64_t key, size_t count, int root)
{
	Buffer from(count * 4), to(count * 4);
	from.put(inputs(key, rank, count));
	NCCL(ncclReduce(from.at(), to.at(), count, ncclUint32, ncclSum, root, comm, stream));
	wait_for(comm, stream);
	if (part[root] == rank)
		expect("Reduce", to, count, [&](size_t i) { return sum(key, part, i); });
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
	const Part part = everybody();
	uint64_t key = mix(seed);
	for (int round = 0; round < rounds; round++) {
		for (size_t count : { size_t(1), size_t(31), size_t(1027), size_t(16384), size_t(100003), largest }) {
			const int root = static_cast<int>(key % part.size());
			if (which != "scatter")
				all_reduce(comm, part, stream, key++, count);
			if (which == "allreduce")
				continue;
			all_gather(comm, part, stream, key++, count);
			reduce_scatter(comm, part, stream, key++, count);
			if (which == "scatter")
				continue;
			broadcast(comm, part, stream, key++, count, root);
			reduce(comm, part, stream, key++, count, root);
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
