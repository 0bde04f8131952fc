// SPDX-License-Identifier: Apache-2.0
//
// NCCL's device structures as the executor sees them: read once per launch through the layout table, but for a
// connection's step counter and the words that are shared with a proxy or a peer.
#ifndef DDLEMU_SOFT_EXEC_DEVICE_H
#define DDLEMU_SOFT_EXEC_DEVICE_H

#include <cstdint>
#include <string>
#include <vector>

#include "exec.h"
#include "funcs.h"
#include "layout.h"

namespace softexec {

constexpr int kTreeArity = 3;

struct Comm {
	const Layout *layout;
	char *base;
	int rank, nranks;
	int buff_size[kProtos]; // of a connection's ring buffer, all steps, in bytes
	int p2p_chunk; // bytes of a Send/Recv step
	const uint32_t *abort; // becomes non-zero when the kernels must end
};

struct Channel {
	int id;
	char *base;
	int prev, next, index; // in the ring
	const int *ranks; // ring order, this rank first
	int up; // in the tree; -1: this rank is the root
	int down[kTreeArity]; // -1 after the last one
};

struct CollWork {
	int channel_lo, channel_hi;
	int root;
	char *send, *recv;
	size_t count_lo, count_mid, count_hi; // elements of the first, the middle and the last channel
	size_t grains_lo, grains_mid, grains_hi;
	uint64_t arg; // of the operator, already loaded if it was a pointer
	bool profiled;
};

struct P2pWork {
	char *send, *recv;
	size_t send_bytes, recv_bytes;
	int send_rank, recv_rank;
	int channels, base, send_channels, recv_channels;
	size_t send_chunk, recv_chunk;
	bool send_ll, recv_ll;
	bool profiled;
};

// One of several broadcasts that a kernel does at once.
struct BcastWork {
	int depth; // hops from the root, in the ring
	size_t chunk;
	const char *send; // the root's
	char *recv;
	size_t bytes, done;
};

struct Batch {
	const Func *func;
	std::vector<CollWork> colls; // run one after another
	std::vector<P2pWork> p2ps; // run at the same time
	std::vector<BcastWork> bcasts; // take turns, chunk by chunk
};

// What one block of the grid does: batches one after another, all on one channel.
struct Block {
	Channel channel;
	std::vector<Batch> batches;
	uint32_t consumed; // how far the work FIFO has been read
};

struct Plan {
	Comm comm;
	bool fifo; // works came from the FIFO
	std::vector<Block> blocks;
};

// Reads a launch and checks all of it, before anything is touched. Returns false, with the reason in *why, if the
// executor can't run it; why is a phrase that fits "cannot run NCCL's kernel: ...".
bool read_launch(const Layout &l, const softexec_launch &launch, Plan *out, std::string *why);

// One end of a connection. The address of connection number index to or from a peer.
char *send_conn(const Comm &c, const Channel &ch, int peer, int index);
char *recv_conn(const Comm &c, const Channel &ch, int peer, int index);

// The part of a collective that one channel does, in elements. count is the whole, summed over channels.
struct Part {
	size_t count, offset, size, chunk;
};
Part channel_part(const CollWork &w, int channel, Proto proto, size_t elt);

// The part of a Send/Recv that a channel does: bytes [begin, end) of the whole. Returns false if it has no part in it.
bool p2p_part(const Layout &l, const P2pWork &w, int channel, int nparts, size_t bytes, size_t *begin, size_t *end);

} // namespace softexec

#endif
