// SPDX-License-Identifier: Apache-2.0
//
// For tests: ranks as threads. They are connected through shared memory, as by NCCL's P2P and SHM transports, or
// through a proxy that moves steps from the sender's buffers to the receiver's, as by its NET transport.
#ifndef DDLEMU_SOFT_EXEC_FAKE_WORLD_H
#define DDLEMU_SOFT_EXEC_FAKE_WORLD_H

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "exec.h"
#include "fake_nccl.h"
#include "funcs.h"
#include "test_util.h"

namespace fake {

enum class Transport { kShared, kNet };

// A connection: one direction.
struct Connection {
	int src, dst, channel, index;
	std::vector<char> send_mem[3], recv_mem[3]; // recv_mem is unused with kShared
	uint64_t send_head = 0, recv_head = 0, recv_tail = 0;
	uint64_t send_tail = 0, words[2] = {}; // what is behind the tail is of the time of a node
	Fifo send_fifo[8], recv_fifo[8];

	// State of the proxy.
	softexec::Proto proto = softexec::kSimple;
	bool active = false; // used by the current launch
	uint64_t step = 0, posted = 0; // next step to move; next step to assign a place, if the buffer is shared
	uint64_t first = 0; // value of step when the launch started
	int slice_steps = 1;
	size_t delivered = 0; // bytes of the current step that the receiver has
	std::vector<size_t> sizes; // sizes of the launch's messages
};

struct Options {
	int version = 22203;
	int nranks = 2;
	int channels = 1;
	Transport transport = Transport::kNet;
	uint64_t first_step = 0; // step counter of every connection at the start
	int gpus_per_node = 0; // ranks that share multicast memory; 0: there is none
	int heads = 0; // of each node: its first ranks
};

// A kernel launch on one rank.
struct Launch {
	std::vector<char> args;
	std::string kernel;
	unsigned grid;
};

// NCCL's work types.
enum { kP2pWork = 0, kCollWork = 1, kCollRegWork = 2, kBcastWork = 3 };

// A work and its channel.
struct Work {
	int channel; // ignored for collectives, which run on all channels
	std::string func; // name of the function
	std::vector<char> bytes;
	int type;
};

class World {
public:
	explicit World(const Options &o);
	~World();

	// Mark the connections that the next launch uses. The proxy serves only these, and aligns their steps as the
	// kernels do.
	void mark_ring(softexec::Proto p, int chunk_steps, int slice_steps);
	void mark_tree(softexec::Proto p);
	void mark_pat(bool gather);
	void mark_nvls_tree();
	void mark_p2p(int src, int dst, softexec::Proto p, int channel);

	// Builds a launch: a chain of batches per channel. Collectives of the same function are in one batch; every
	// other work has its own batch, which extends the one before. storage: where the works are: 0 in the arguments,
	// 1 in the FIFO, 2 in a separate buffer.
	Launch launch(int rank, const std::vector<Work> &works, int storage);

	// Runs one launch on each rank at the same time and returns their results. Ends the program after 20 seconds.
	std::vector<int> run(const std::vector<Launch> &l, const std::string &what);

	// Checks that sender, receiver and proxy have the same step for every connection.
	void check_steps(const std::string &what);

	// Returns the sizes of the last launch's messages from src to dst on the first connection of channel 0.
	std::vector<size_t> sizes(int src, int dst);

	// Returns the work of a collective, in the layout of this version.
	Work collective(const std::string &func, int channels, const void *send, void *recv, size_t count,
		size_t grain_elts, size_t chunk_grains, int root, uint64_t arg, bool arg_is_ptr);

	Peer &peer(int rank, int channel, int of)
	{
		return peers_[peer_index(rank, channel) + static_cast<size_t>(of)];
	}
	void *comm(int rank) { return comms_[static_cast<size_t>(rank)].get(); }
	const Options &options() const { return options_; }
	const softexec::Layout &layout() const { return *layout_; }
	size_t buff_size(int proto) const { return static_cast<size_t>(buff_sizes_[proto]); }
	int p2p_chunk() const { return p2p_chunk_; }
	std::vector<uint32_t> abort; // per rank
	std::vector<uint32_t> consumed; // per rank and channel (32 each)
	std::vector<v2_29_7::Profiler> started, completed; // per rank and channel (64 each)
	static constexpr size_t kFifoBytes = 2048;
	static constexpr size_t kNvlsStep = 32768; // bytes of a step of multicast memory

private:
	// The place of the first peer. After the ranks and one for CollNet there is one for each head.
	size_t peer_index(int rank, int channel) const
	{
		return static_cast<size_t>(
			(rank * options_.channels + channel) * (options_.nranks + 1 + options_.heads));
	}
	void connect(Connection &l);
	void connect_nvls(int rank);
	void nvls_of(int channel, int rank, Nvls *n) const;
	std::vector<uint32_t> store(int rank, const std::vector<Work> &works, int storage, Launch *out);
	std::vector<BatchHead> chain(
		const std::vector<Work> &works, const std::vector<uint32_t> &base, int channel, Launch *out);
	void fill_comm(int rank);
	void proxy();
	uint64_t steps_ended();
	bool move(Connection &l);
	bool ready(Connection &l, size_t *bytes);
	int ring_at(int channel, int i) const;
	void tree_of(int channel, int rank, Tree *t) const;
	void mark(int src, int dst, int channel, int index, softexec::Proto p, int chunk_steps, int slice_steps);

	Options options_;
	const softexec::Layout *layout_;
	int buff_sizes_[3];
	int p2p_chunk_;
	std::vector<std::unique_ptr<Connection>> connections_;
	std::vector<Peer> peers_;
	std::vector<Peer *> peer_ptrs_;
	std::vector<std::vector<int>> rings_;
	std::vector<std::vector<char>> members_; // each rank's part of its node's multicast memory
	std::vector<void *> multicast_; // each rank's addresses of it
	std::vector<std::unique_ptr<char[]>> comms_;
	std::vector<std::vector<char>> fifos_; // work FIFO of each rank
	std::vector<uint32_t> fifo_next_;
	std::mutex mu_; // protects connections_
	std::atomic<bool> stop_{ false };
	std::thread proxy_;
};

} // namespace fake

#endif
