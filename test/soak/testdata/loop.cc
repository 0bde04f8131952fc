// SPDX-License-Identifier: Apache-2.0
// The job for the tests of failures: collectives until it is stopped.
#include <fcntl.h>
#include <unistd.h>

#include "soak.h"

// leave_free opens descriptors until only so many are free.
static void leave_free(int n)
{
	int last = -1;
	for (int fd; (fd = open("/dev/null", O_RDONLY)) >= 0;)
		last = fd;
	while (n-- > 0 && last > 2)
		close(last--);
}

// loop SECONDS WORDS [LEAVE]: AllReduce until the time is over, every element checked. Rank 0's contribution tells the
// ranks when to end. LEAVE is a rank that calls exit(0) after a second, without destroying its communicator. FREE is
// how many descriptors are free for NCCL and the plugin.
int loop(const Args &args)
{
	if (args.size() < 2)
		return 2;
	const size_t count = strtoul(args[1].c_str(), nullptr, 10);
	const int leaver = args.size() > 2 ? atoi(args[2].c_str()) : -1;
	if (getenv("FREE"))
		leave_free(atoi(getenv("FREE")));
	say("joining");
	const ncclComm_t comm = new_comm();
	const cudaStream_t stream = new_stream();
	const double started = now(), end = started + atof(args[0].c_str());
	uint64_t key = mix(seed);
	Buffer flag(4);
	for (int i = 1;; i++) {
		all_reduce(comm, everybody(), stream, key++, count);
		if (i == 3)
			say("running");
		flag.put({ rank == 0 && i >= 3 && now() > end ? 1u : 0u });
		NCCL(ncclAllReduce(flag.at(), flag.at(), 1, ncclUint32, ncclSum, comm, stream));
		wait_for(comm, stream);
		if (flag.words("flag")[0] != 0)
			break;
		if (rank == leaver && now() > started + 1) {
			say("leaving");
			exit(0);
		}
	}
	NCCL(ncclCommDestroy(comm));
	CUDA(cudaStreamDestroy(stream));
	return 0;
}
