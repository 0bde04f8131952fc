// SPDX-License-Identifier: Apache-2.0
// The life of communicators: many at once, split, and made and destroyed over and over.
#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include <algorithm>

#include "soak.h"

// comms N: N communicators at once, each with a stream, work in flight on all of them.
int comms(const Args &args)
{
	if (args.size() != 1)
		return 2;
	const size_t n = strtoul(args[0].c_str(), nullptr, 10), count = 20011;
	std::vector<ncclComm_t> all(n);
	std::vector<cudaStream_t> streams(n);
	std::vector<Buffer> buffers;
	for (size_t i = 0; i < n; i++) {
		all[i] = new_comm();
		streams[i] = new_stream();
		buffers.emplace_back(count * 4);
	}
	for (int round = 0; round < 3; round++) {
		const uint64_t key = mix(seed + static_cast<uint64_t>(round));
		for (size_t i = 0; i < n; i++) {
			buffers[i].put(inputs(key + i, rank, count));
			NCCL(ncclAllReduce(
				buffers[i].at(), buffers[i].at(), count, ncclUint32, ncclSum, all[i], streams[i]));
		}
		for (size_t i = 0; i < n; i++) {
			wait_for(all[i], streams[i]);
			expect("AllReduce of one of many", buffers[i], count, [&](size_t k) {
				uint32_t s = 0;
				for (int r = 0; r < ranks; r++)
					s += word(key + i, r, k);
				return s;
			});
		}
	}
	// In another order than they were made.
	for (size_t i = 0; i < n; i++)
		NCCL(ncclCommDestroy(all[(i * 7 + 3) % n]));
	for (cudaStream_t s : streams)
		CUDA(cudaStreamDestroy(s));
	return 0;
}

// split ROUNDS: into halves, a reversed copy, and all ranks but one; with separate resources and with the parent's;
// used in turns, and destroyed before and after the parent.
int split(const Args &args)
{
	if (args.size() != 1)
		return 2;
	const cudaStream_t stream = new_stream();
	uint64_t key = mix(seed);
	for (int round = 0; round < atoi(args[0].c_str()); round++) {
		const ncclComm_t parent = new_comm();
		Members half, reversed, most;
		for (int r = 0; r < ranks; r++) {
			if (r % 2 == rank % 2)
				half.push_back(r);
			reversed.insert(reversed.begin(), r);
			if (r != 0)
				most.push_back(r);
		}
		ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
		config.splitShare = round % 2;
		ncclComm_t halves, back, others;
		NCCL(ncclCommSplit(parent, rank % 2, rank, &halves, &config));
		NCCL(ncclCommSplit(parent, 0, ranks - rank, &back, &config));
		NCCL(ncclCommSplit(parent, rank == 0 ? NCCL_SPLIT_NOCOLOR : 7, rank, &others, &config));
		for (size_t count : { size_t(3), size_t(5003), size_t(200003) }) {
			all_reduce(parent, everybody(), stream, key++, count);
			all_reduce(halves, half, stream, key++, count);
			all_gather(back, reversed, stream, key++, count);
			if (others)
				reduce_scatter(others, most, stream, key++, count);
			else
				key++;
		}
		NCCL(ncclCommDestroy(halves));
		all_reduce(parent, everybody(), stream, key++, 1001);
		if (others)
			NCCL(ncclCommDestroy(others));
		if (config.splitShare == 0) {
			NCCL(ncclCommDestroy(parent));
			all_gather(back, reversed, stream, key++, 1001);
			NCCL(ncclCommDestroy(back));
		} else {
			key++;
			NCCL(ncclCommDestroy(back));
			NCCL(ncclCommDestroy(parent));
		}
	}
	CUDA(cudaStreamDestroy(stream));
	return 0;
}

static int entries(const char *folder)
{
	DIR *d = opendir(folder);
	int n = 0;
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

// Resources is the resources of a process.
struct Resources {
	int threads, files, shared; // shared: mappings of memfds and of what lies in /dev/shm
	long host, memory; // KiB: private, and shared with others
};

static Resources resources()
{
	Resources h = { entries("/proc/self/task"), entries("/proc/self/fd"), 0, 0, 0 };
	char line[512];
	FILE *f = fopen("/proc/self/status", "r");
	while (fgets(line, sizeof line, f)) {
		if (!strncmp(line, "RssAnon:", 8))
			h.host = atol(line + 8);
		if (!strncmp(line, "RssShmem:", 9))
			h.memory = atol(line + 9);
	}
	fclose(f);
	f = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof line, f))
		if (strstr(line, "/dev/shm/") || strstr(line, "/memfd:"))
			h.shared++;
	fclose(f);
	return h;
}

// cycle ROUNDS FIRST: communicators one after another. Compares the resources after all rounds with those after the
// first FIRST rounds. Allowed: no more descriptors or shared mappings; 64 KiB of shared memory, or SHARED_KIB; 4
// threads, which Go's runtime starts when it needs them and keeps; and 1 MiB plus 32 KiB per round of private memory,
// which the C library's allocator and Go's heap keep. LEAK leaks a descriptor each round: the test must fail.
int cycle(const Args &args)
{
	if (args.size() != 2)
		return 2;
	const int rounds = atoi(args[0].c_str()), first = atoi(args[1].c_str());
	const cudaStream_t stream = new_stream();
	Resources before = {};
	for (int round = 1; round <= rounds; round++) {
		const ncclComm_t comm = new_comm();
		all_reduce(comm, everybody(), stream, mix(seed) + static_cast<uint64_t>(round), 10007);
		NCCL(ncclCommDestroy(comm));
		if (getenv("LEAK") && open("/dev/null", O_RDONLY) < 0)
			return 2;
		if (round == first)
			before = resources();
	}
	const Resources after = resources();
	say("rounds %d to %d: threads %d to %d, descriptors %d to %d, shared mappings %d to %d, memory %ld to %ld KiB, shared "
	    "memory %ld to %ld KiB",
		first, rounds, before.threads, after.threads, before.files, after.files, before.shared, after.shared,
		before.host, after.host, before.memory, after.memory);
	CUDA(cudaStreamDestroy(stream));
	const long allowed = 1024 + 32 * (rounds - first);
	const char *kib = getenv("SHARED_KIB");
	const long shared = kib ? atol(kib) : 64;
	const bool flat = after.threads <= before.threads + 4 && after.files <= before.files &&
		after.shared <= before.shared && after.memory <= before.memory + shared &&
		after.host <= before.host + allowed;
	if (!flat)
		say("LEAK: something grew");
	return flat ? 0 : 1;
}
