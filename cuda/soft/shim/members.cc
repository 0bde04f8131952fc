// SPDX-License-Identifier: Apache-2.0
// Linked into NCCL: which ranks of the job the members of a communicator are, where nodes cost time. A kernel knows its
// peers by their ranks in the communicator only, and the links within a node are between ranks of the job.
//
// The members tell each other a hash of their process (ncclPeerInfo.pidHash). NCCL adds a number of the communicator to
// it, and only compares what comes out: equal ones on one host are of one process. So its lower bits are here the rank
// in the job, and the differences between members equal the differences of their ranks.
#include <nccl.h>
#include <stdint.h>

#include <map>
#include <mutex>
#include <vector>

#include "../runtime/kernels.h"

struct ncclKernelPlan;
struct ncclTopoSystem;

#define HASH "_Z10getPidHashv"
#define LAUNCH "_Z16ncclLaunchKernelP8ncclCommP14ncclKernelPlan"

// The layout of ncclComm and ncclPeerInfo, from the disassembly of Debian's objects: ncclTransportP2pSetup and
// fillInfo. The number of ranks is behind the rank, and the first field of a peer is its rank in the communicator.
#if DDLEMU_NCCL_VERSION == 22203
#define TOPOLOGY "_Z17ncclTopoGetSystemP8ncclCommPP14ncclTopoSystem"
constexpr size_t kPeers = 0x3498, kRank = 0x34250, kPeerSize = 0x68;
#elif DDLEMU_NCCL_VERSION == 22907
#define TOPOLOGY "_Z17ncclTopoGetSystemP8ncclCommPP14ncclTopoSystemPKc"
constexpr size_t kPeers = 0x68a0, kRank = 0x1206d8, kPeerSize = 0x80;
#else
#error "the layout of ncclComm and ncclPeerInfo in this version of NCCL is not known"
#endif
constexpr size_t kPidHash = 0x18;

uint64_t real_hash() __asm__("__real_" HASH);
uint64_t wrap_hash() __asm__("__wrap_" HASH);
ncclResult_t real_topology(const char *, ncclTopoSystem **, const char *) __asm__("__real_" TOPOLOGY);
ncclResult_t wrap_topology(const char *, ncclTopoSystem **, const char *) __asm__("__wrap_" TOPOLOGY);
ncclResult_t real_launch(const char *, ncclKernelPlan *) __asm__("__real_" LAUNCH);
ncclResult_t wrap_launch(const char *, ncclKernelPlan *) __asm__("__wrap_" LAUNCH);

namespace {

constexpr int kRankBits = 20;

template <typename T>
T read(const char *p, size_t offset)
{
	T value;
	__builtin_memcpy(&value, p + offset, sizeof value);
	return value;
}

struct Members {
	unsigned number; // of the communicator
	std::vector<int> ranks;
};

// The communicators by address. Never destroyed: threads may run until the process ends.
struct Known {
	std::mutex mu;
	std::map<const char *, Members> comms;
	unsigned made = 0;
};

Known &known()
{
	static auto *all = new Known;
	return *all;
}

// Returns the ranks in the job of a communicator's members; none if its memory is not as expected.
std::vector<int> read_members(const char *comm, int own)
{
	const char *peers = read<const char *>(comm, kPeers);
	const int rank = read<int>(comm, kRank), n = read<int>(comm, kRank + sizeof rank);
	const auto hash = [&](int i) { return read<uint64_t>(peers + static_cast<size_t>(i) * kPeerSize, kPidHash); };
	std::vector<int> ranks;
	for (int i = 0; i < n; i++) {
		if (read<int>(peers + static_cast<size_t>(i) * kPeerSize, 0) != i)
			return {};
		const auto distance = static_cast<uint32_t>(hash(i) - hash(rank)) << (32 - kRankBits);
		ranks.push_back(own + (static_cast<int>(distance) >> (32 - kRankBits)));
	}
	return ranks;
}

} // namespace

uint64_t wrap_hash()
{
	const uint64_t hash = real_hash();
	const int rank = ddlemuSoftJobRank();
	return rank < 0 ? hash : hash << kRankBits | static_cast<uint64_t>(rank);
}

// The first thing that NCCL does when the members of a new communicator know each other. 2.22 has no file.
ncclResult_t wrap_topology(const char *comm, ncclTopoSystem **system, const char *file)
{
	if (const int own = ddlemuSoftJobRank(); own >= 0) {
		std::lock_guard<std::mutex> lock(known().mu);
		known().comms[comm] = { known().made++, read_members(comm, own) };
	}
	return real_topology(comm, system, file);
}

ncclResult_t wrap_launch(const char *comm, ncclKernelPlan *plan)
{
	if (ddlemuSoftJobRank() < 0)
		return real_launch(comm, plan);
	Members members;
	{
		std::lock_guard<std::mutex> lock(known().mu);
		members = known().comms[comm];
	}
	ddlemuSoftMembers(members.ranks.data(), static_cast<int>(members.ranks.size()), members.number);
	const ncclResult_t result = real_launch(comm, plan);
	ddlemuSoftMembers(nullptr, 0, 0);
	return result;
}
