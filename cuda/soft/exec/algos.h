// SPDX-License-Identifier: Apache-2.0
//
// The algorithms: the primitives that a collective or a Send/Recv consists of, and the peers.
#ifndef DDLEMU_SOFT_EXEC_ALGOS_H
#define DDLEMU_SOFT_EXEC_ALGOS_H

#include "prims.h"

namespace softexec {

using Runners = std::vector<std::unique_ptr<Runner>>;

// Appends to *out the runners that do one channel's share of a collective. All of them must be polled in turn.
void start_collective(const Comm &c, const Channel &ch, const Func &f, const CollWork &w, Runners *out);

// The same for a Send/Recv: a send, a receive, both, or a copy within the rank. starts: it is in the channel's first
// batch of a kernel with messages to other ranks. Returns whether it has such messages.
bool start_p2p(const Comm &c, const Channel &ch, const P2pWork &w, bool starts, Runners *out);

// The same for all broadcasts of a batch.
void start_broadcasts(const Comm &c, const Channel &ch, const Batch &b, Runners *out);

// One end of a connection.
struct ConnEnd {
	char *conn;
	bool receives;
};

// Returns the connections that a batch uses, to check them before it starts.
std::vector<ConnEnd> connections_of(const Comm &c, const Channel &ch, const Func &f, const Batch &b);

// Return the schedules of the ring algorithms (ring.cc).
std::unique_ptr<Schedule> gatherv_schedule(const Comm &c, const Batch &b);
std::unique_ptr<Schedule> ring_schedule(
	const Comm &c, const Channel &ch, const Func &f, const CollWork &w, const Share &share);

// Makes the runner for a protocol.
std::unique_ptr<Runner> make_runner(Proto proto, RunnerSpec spec);

} // namespace softexec

#endif
