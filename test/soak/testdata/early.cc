// SPDX-License-Identifier: Apache-2.0
// A rank that ends before the others.
#include <unistd.h>

#include "soak.h"

// early SECONDS: the last rank destroys its communicator and ends by _exit. The others go on for so long.
int early(const Args &args)
{
	if (args.size() != 1)
		return 2;
	const cudaStream_t stream = new_stream();
	const ncclComm_t all = new_comm();
	ncclComm_t most;
	const bool last = rank == ranks - 1;
	NCCL(ncclCommSplit(all, last ? NCCL_SPLIT_NOCOLOR : 0, rank, &most, nullptr));
	end_comm(all, stream);
	if (last)
		_exit(0);
	Members members = everybody();
	members.pop_back();
	uint64_t key = mix(seed);
	Buffer flag(4);
	for (const double end = now() + atof(args[0].c_str());;) {
		all_reduce(most, members, stream, key++, 65536);
		flag.put({ rank == 0 && now() > end ? 1u : 0u });
		NCCL(ncclAllReduce(flag.at(), flag.at(), 1, ncclUint32, ncclSum, most, stream));
		wait_for(most, stream);
		if (flag.words("flag")[0] != 0)
			break;
	}
	NCCL(ncclCommDestroy(most));
	CUDA(cudaStreamDestroy(stream));
	return 0;
}
