// SPDX-License-Identifier: Apache-2.0
//
// The executor's own copies of NCCL's device structures. read_launch fills them once per launch, with the offsets of
// the layout table. Only a connection's step counter and the words shared with a proxy or a peer stay in NCCL's memory.
#ifndef DDLEMU_SOFT_EXEC_DEVICE_H
#define DDLEMU_SOFT_EXEC_DEVICE_H

#include <cstdint>
#include <string>
#include <vector>

#include "../../../shaper/engine/clock/calls.h"
#include "exec.h"
#include "funcs.h"
#include "layout.h"

namespace softexec {

constexpr int kTreeArity = 3;
constexpr int kMaxHeads = 32; // NCCL_MAX_NVLS_ARITY

struct Comm {
	const Layout *layout;
	char *base;
	int rank, nranks;
	int buff_size[kProtos]; // bytes of a connection's ring buffer, all steps together
	int p2p_chunk; // bytes of a Send/Recv step
	const uint32_t *abort; // non-zero once the communicator is aborted
	std::vector<int> members; // as ranks of the job, see softexec_launch
	unsigned number; // among those of this process
};

// The part of a channel that NVLS and NVLSTree use. A head reduces and broadcasts a part of the data through the node's
// NVSwitches, for all ranks of the node.
struct Nvls {
	int heads; // of the node
	int head; // this rank's number among them, -1 if it is none
	int up[kMaxHeads]; // the connection to and from each head
	int down; // the head's connection through the NVSwitches
	int tree_up; // the head's parent on another node, -1 at the root
	int tree_down[kTreeArity]; // down, then children on other nodes; -1 after the last one
};

struct Channel {
	int id;
	char *base;
	int prev, next, index; // the ring's neighbours, and this rank's place in it
	const int *ranks; // in the ring's order, this rank first
	int up; // parent in the tree; -1 at the root
	int down[kTreeArity]; // children in the tree; -1 after the last one
	Nvls nvls;
};

struct CollWork {
	int channel_lo, channel_hi;
	int root;
	char *send, *recv;
	size_t count_lo, count_mid, count_hi; // elements of the first channel, each middle one, and the last
	size_t grains_lo, grains_mid, grains_hi; // chunk sizes of the same channels, in grains
	uint64_t arg; // the operator's argument; read_launch has replaced a pointer by its value
	bool profiled;
	uint32_t task = 0; // for the ledger, see name_tasks
};

struct P2pWork {
	char *send, *recv;
	size_t send_bytes, recv_bytes;
	int send_rank, recv_rank;
	int channels, base, send_channels, recv_channels;
	size_t send_chunk, recv_chunk;
	bool send_ll, recv_ll;
	bool profiled;
	uint32_t send_task = 0, recv_task = 0;
};

// One of the broadcasts of an AllGatherV.
struct BcastWork {
	int depth; // distance from the root along the ring
	size_t chunk;
	const char *send; // the root's input
	char *recv;
	size_t bytes, done;
};

struct Batch {
	const Func *func;
	std::vector<CollWork> colls; // one after another
	std::vector<P2pWork> p2ps; // all at the same time
	std::vector<BcastWork> bcasts; // chunk by chunk in turn
	uint32_t bcast_task = 0; // of all of them
};

// The work of one block of the grid: batches one after another, all on one channel.
struct Block {
	Channel channel;
	std::vector<Batch> batches;
	uint32_t consumed; // end of the last work read from the work FIFO
};

// A whole launch.
struct Plan {
	Comm comm;
	bool fifo; // the works were in the work FIFO
	std::vector<Block> blocks;
};

// Reads and checks a whole launch without changing any memory. If the executor does not support it, returns false and
// sets *why to a phrase that completes "cannot run NCCL's kernel: ...".
bool read_launch(const Layout &l, const softexec_launch &launch, Plan *out, std::string *why);

// Return the address of one end of a connection: number index to or from a peer.
char *send_conn(const Comm &c, const Channel &ch, int peer, int index);
char *recv_conn(const Comm &c, const Channel &ch, int peer, int index);

// A connection, and the rank at its other end.
struct PeerConn {
	char *conn;
	int peer; // of multicast memory: the rank itself; its members say more
	bool p2p = false;
	ddlemu_direct_kind kind = DDLEMU_DIRECT_UNICAST;
};

// One channel's share of a collective, in elements: [offset, offset+size) of count, in chunks.
struct Share {
	size_t count, offset, size, chunk;
};
Share channel_share(const CollWork &w, int channel, Proto proto, size_t elt);

// Sets [begin, end) to a channel's share of the bytes of a Send/Recv that is divided into nshares. Returns false if the
// channel has none.
bool p2p_share(const Layout &l, const P2pWork &w, int channel, int nshares, size_t bytes, size_t *begin, size_t *end);

} // namespace softexec

#endif
