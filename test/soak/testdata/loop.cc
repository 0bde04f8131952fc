// SPDX-License-Identifier: Apache-2.0
// The job that the tests of failures do something to: collectives for ever.
#include <unistd.h>

#include "soak.h"

// loop SECONDS WORDS [LEAVE]: AllReduce until the time is over, every element checked. The ranks agree on the end by
// what rank 0 contributes. LEAVE is a rank that ends its process in the middle, without destroying its communicator:
// after a second, by exit(0).
int loop(const Args &args) {
  if (args.size() < 2) return 2;
  const double end = now() + atof(args[0].c_str());
  const size_t count = strtoul(args[1].c_str(), nullptr, 10);
  const int leaver = args.size() > 2 ? atoi(args[2].c_str()) : -1;
  const ncclComm_t comm = new_comm();
  const cudaStream_t stream = new_stream();
  const double started = now();
  uint64_t key = mix(seed);
  Buffer flag(4);
  for (int i = 1;; i++) {
    all_reduce(comm, everybody(), stream, key++, count);
    flag.put({rank == 0 && now() > end ? 1u : 0u});
    NCCL(ncclAllReduce(flag.at(), flag.at(), 1, ncclUint32, ncclSum, comm, stream));
    wait_for(comm, stream);
    if (flag.words("flag")[0] != 0) break;
    if (i == 3) say("running");
    if (rank == leaver && now() > started + 1) {
      say("leaving");
      exit(0);
    }
  }
  NCCL(ncclCommDestroy(comm));
  CUDA(cudaStreamDestroy(stream));
  return 0;
}
