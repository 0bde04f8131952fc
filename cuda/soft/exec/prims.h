// SPDX-License-Identifier: Apache-2.0
//
// NCCL's primitives: the operations that every collective is made of (send, recv, recvReduceSend, ...), over the three
// protocols.
//
// A GPU runs them with blocks of threads that wait for each other. Here one thread serves many of them in turn, so an
// engine never waits: poll does what can be done now and says whether there was anything.
//
// Memory order, which is the same for all protocols: what a proxy or a peer may see is announced by a release store (of
// a connection's head or tail, or of a line's flag) after the data, and what they announced is read by an acquire load
// before the data.
#ifndef DDLEMU_SOFT_EXEC_PRIMS_H
#define DDLEMU_SOFT_EXEC_PRIMS_H

#include <memory>
#include <vector>

#include "device.h"
#include "reduce.h"

namespace softexec {

// One primitive.
struct Op {
	bool recv, send;
	const char *src; // in the user's input, combined with what is received; null: nothing
	char *dst; // in the user's output, where the result goes, besides the peers; null: nowhere
	size_t n; // elements
	bool post; // the result is final: apply the operator's last step
};

using Ops = std::vector<Op>;

// Yields an algorithm's primitives piece by piece.
class Schedule {
public:
	virtual ~Schedule() = default;
	// Appends the next few primitives to *ops. Returns false, having added nothing, at the end.
	virtual bool more(Ops *ops) = 0;
};

enum class Status { kBlocked, kProgress, kDone };

class Engine {
public:
	virtual ~Engine() = default;
	// Does a bounded amount of work, at most about a megabyte. After kDone it must not be called again.
	virtual Status poll() = 0;
};

// What an engine works on.
struct Job {
	const Comm *comm = nullptr;
	Reduction red;
	std::unique_ptr<Schedule> schedule;
	std::vector<char *> recv, send; // connections; at most three each, but for PAT
	int slices_per_chunk = 1; // Simple only
	int steps_per_slice = 1; // Simple only
	int step_bytes = 0; // Simple only: data bytes of a step; 0: the communicator's
};

std::unique_ptr<Engine> make_simple(Job job);
std::unique_ptr<Engine> make_ll(Job job);
std::unique_ptr<Engine> make_ll128(Job job);

// PAT has primitives of its own: job's peers are those at distances 1, 2, 4, ..., in this order, and it has no
// schedule.
std::unique_ptr<Engine> make_pat(Job job, const CollWork &w, const Part &part, bool gather);

// Copies bytes within this rank.
std::unique_ptr<Engine> make_copy(char *dst, const char *src, size_t bytes);

// Takes the primitives of a job one by one.
class OpQueue {
public:
	// The next primitive, or null at the end. It stays valid until the next call.
	const Op *next(Schedule &s)
	{
		if (at_ == ops_.size()) {
			ops_.clear();
			at_ = 0;
			if (!s.more(&ops_))
				return nullptr;
		}
		return &ops_[at_++];
	}

private:
	Ops ops_;
	size_t at_ = 0;
};

} // namespace softexec

#endif
