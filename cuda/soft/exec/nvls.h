// SPDX-License-Identifier: Apache-2.0
//
// NVLS and NVLSTree. On each node some ranks are heads. A head has a part of the data: every rank of the node writes
// its input for the head into its own memory (scatter), the head reads the sum of all of that through multicast memory
// (reduce), exchanges it with heads of other nodes (NVLSTree), writes the result to all ranks through multicast memory
// (broadcast), and every rank copies it to its output (gather). These roles run at the same time.
#ifndef DDLEMU_SOFT_EXEC_NVLS_H
#define DDLEMU_SOFT_EXEC_NVLS_H

#include "algos.h"

namespace softexec {

// What scatter and gather do in one step: for each head up to `each` elements of the user's buffer, from at + head *
// stride on, of which the part from at on has `total` elements.
struct HeadStep {
	size_t at, total, each, stride;
};

// What a head does in one step with n elements of its part. src: the user's input, or null. dst: the user's output, or
// null.
struct PartStep {
	const char *src;
	char *dst;
	size_t n;
};

// Make the runners of the roles. The connections of spec are the connections of the heads, in order, for scatter and
// gather. They may be multicast memory.
std::unique_ptr<Runner> make_scatter(RunnerSpec spec, const char *input, std::vector<HeadStep> steps);
std::unique_ptr<Runner> make_gather(RunnerSpec spec, char *output, std::vector<HeadStep> steps);

// Reduces what all connections receive, and src, and sends the result to all connections that send, and dst.
std::unique_ptr<Runner> make_head(RunnerSpec spec, std::vector<PartStep> steps);

// Appends the runners of one channel's share of a collective.
void start_nvls(const Comm &c, const Channel &ch, const Func &f, const CollWork &w, const Share &share,
	const RunnerSpec &common, Runners *out);

// Returns the connections that start_nvls uses.
std::vector<ConnEnd> nvls_connections(const Comm &c, const Channel &ch, const Func &f);

// Returns true if the multicast memory of these connections has all its members.
bool members_are_there(const Layout &l, const std::vector<ConnEnd> &ends);

} // namespace softexec

#endif
