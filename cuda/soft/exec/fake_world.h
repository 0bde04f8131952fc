// SPDX-License-Identifier: Apache-2.0
//
// For tests: ranks as threads, connected either through memory that both share, as NCCL's P2P and SHM transports do, or
// through a proxy that moves steps from the sender's buffers to the receiver's, as its NET transport does.
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

enum class Wires { kShared, kNet };

// One direction of one connection.
struct Link {
	int src, dst, channel, index;
	std::vector<char> send_mem[3], recv_mem[3]; // recv_mem is unused if they share
	uint64_t send_head = 0, send_tail = 0, recv_head = 0, recv_tail = 0;
	Fifo send_fifo[8], recv_fifo[8];

	// The proxy's state.
	softexec::Proto proto = softexec::kSimple;
	bool active = false; // the proxy serves it
	uint64_t step = 0, posted = 0; // next to move; next to post to the sender
	uint64_t first = 0; // step at the start of the launch
	int slice_steps = 1;
	size_t arrived = 0; // bytes of the current step that have been delivered
	std::vector<size_t> sizes; // of the launch's messages
};

struct Options {
	int version = 22203;
	int nranks = 2;
	int channels = 1;
	Wires wires = Wires::kNet;
	uint64_t first_step = 0; // of every connection
};

// What to launch on one rank.
struct Launch {
	std::vector<char> args;
	std::string kernel;
	unsigned grid;
};

// NCCL's types of work.
enum { kP2pWork = 0, kCollWork = 1, kCollRegWork = 2, kBcastWork = 3 };

// A work with its place in the launch.
struct Work {
	int channel; // not for collectives: those run on all channels
	std::string func; // as in a kernel's name
	std::vector<char> bytes;
	int type;
};

class World {
public:
	explicit World(const Options &o);
	~World();

	// Marks the links that the next launch uses, so that the proxy serves them and rounds their steps like the
	// kernels.
	void use_ring(softexec::Proto p, int chunk_steps, int slice_steps);
	void use_tree(softexec::Proto p);
	void use_pat(bool gather);
	void use_p2p(int src, int dst, softexec::Proto p, int channel);

	// Builds a launch out of works: per channel a chain of batches. Collectives of one function share a batch;
	// other works have each their own, which extends the one before. storage: 0 in the arguments, 1 in the FIFO, 2
	// in a buffer of their own.
	Launch launch(int rank, const std::vector<Work> &works, int storage);

	// Runs one launch on each rank at the same time and returns their results. Ends the program if that takes more
	// than 20 seconds.
	std::vector<int> run(const std::vector<Launch> &l, const std::string &what);

	// Checks that kernels and proxy agree about every connection's step.
	void check_steps(const std::string &what);

	// The sizes of the messages of the last launch from src to dst on channel 0's first connection.
	std::vector<size_t> sizes(int src, int dst);

	// A collective's work for this version; counts are per channel lo, mid, hi.
	Work collective(const std::string &func, int channels, const void *send, void *recv, size_t count,
		size_t grain_elts, size_t chunk_grains, int root, uint64_t arg, bool arg_is_ptr);

	Peer &peer(int rank, int channel, int of)
	{
		return peers_[static_cast<size_t>((rank * options_.channels + channel) * options_.nranks + of)];
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

private:
	void connect(Link &l);
	std::vector<uint32_t> store(int rank, const std::vector<Work> &works, int storage, Launch *out);
	std::vector<BatchHead> chain(
		const std::vector<Work> &works, const std::vector<uint32_t> &base, int channel, Launch *out);
	void fill_comm(int rank);
	void proxy();
	bool move(Link &l);
	bool ready(Link &l, size_t *bytes);
	int ring_at(int channel, int i) const;
	void tree_of(int channel, int rank, Tree *t) const;
	void use(int src, int dst, int channel, int index, softexec::Proto p, int chunk_steps, int slice_steps);

	Options options_;
	const softexec::Layout *layout_;
	int buff_sizes_[3];
	int p2p_chunk_;
	std::vector<std::unique_ptr<Link>> links_;
	std::vector<Peer> peers_;
	std::vector<Peer *> peer_ptrs_;
	std::vector<std::vector<int>> rings_;
	std::vector<std::unique_ptr<char[]>> comms_;
	std::vector<std::vector<char>> fifos_; // each rank's work FIFO
	std::vector<uint32_t> fifo_next_;
	std::mutex mu_; // held by the proxy while it works on links, and by whoever else does
	std::atomic<bool> stop_{ false };
	std::thread proxy_;
};

} // namespace fake

#endif
