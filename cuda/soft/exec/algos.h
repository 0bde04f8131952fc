// SPDX-License-Identifier: Apache-2.0
//
// The algorithms: which primitives a collective or a Send/Recv consists of, and with which peers.
#ifndef DDLEMU_SOFT_EXEC_ALGOS_H
#define DDLEMU_SOFT_EXEC_ALGOS_H

#include "prims.h"

namespace softexec {

using Engines = std::vector<std::unique_ptr<Engine>>;

// Adds to *out the engines that together do one channel's part of a collective. They must run at the same time.
void start_collective(const Comm &c, const Channel &ch, const Func &f, const CollWork &w, Engines *out);

// The same for one Send/Recv work: a send, a receive, both, or a copy within the rank.
void start_p2p(const Comm &c, const Channel &ch, const P2pWork &w, Engines *out);

// The same for all broadcasts of a batch.
void start_broadcasts(const Comm &c, const Channel &ch, const Batch &b, Engines *out);

// The connections that an algorithm uses, for checks before the start: pairs of connection and whether it receives.
struct Link {
	char *conn;
	bool receives;
};
std::vector<Link> links_of(const Comm &c, const Channel &ch, const Func &f, const Batch &b);

// Schedules of ring algorithms (ring.cc), by collective.
std::unique_ptr<Schedule> gatherv_schedule(const Comm &c, const Batch &b);
std::unique_ptr<Schedule> ring_schedule(
	const Comm &c, const Channel &ch, const Func &f, const CollWork &w, const Part &part);

// Makes the engine for a protocol.
std::unique_ptr<Engine> make_engine(Proto proto, Job job);

} // namespace softexec

#endif
