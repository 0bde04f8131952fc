// SPDX-License-Identifier: Apache-2.0
//
// NCCL's primitives: the operations that every collective consists of (send, recv, recvReduceSend, ...), over the three
// protocols.
//
// On a GPU the threads of a block run a primitive and wait for the peer. Here one thread runs many primitives in turn,
// so a runner never waits: poll does as much as is possible now and says whether it made progress.
//
// Memory order, for all protocols: data is written before the counter (head, tail) or flag that announces it, which is
// a release store; the counter or flag is read with an acquire load before the data.
#ifndef DDLEMU_SOFT_EXEC_PRIMS_H
#define DDLEMU_SOFT_EXEC_PRIMS_H

#include <memory>
#include <vector>

#include "device.h"
#include "reduce.h"

namespace softexec {

// One primitive.
struct Primitive {
	bool recv, send;
	const char *src; // in the user's input; reduced with the received data. Null: none
	char *dst; // in the user's output; gets the result as the peers do. Null: none
	size_t n; // elements
	bool post_op; // the result is final: apply the operator's postOp
};

using Primitives = std::vector<Primitive>;

// The primitives of an algorithm, in order.
class Schedule {
public:
	virtual ~Schedule() = default;
	// Appends the next primitives to *list. At the end it appends nothing and returns false.
	virtual bool append_next(Primitives *list) = 0;
};

enum class Status { kBlocked, kProgress, kDone };

// Executes the primitives of one schedule.
class Runner {
public:
	virtual ~Runner() = default;
	// Does a limited amount of work, about a megabyte at most. Must not be called again after kDone.
	virtual Status poll() = 0;
	// The virtual time at which it can go on by itself, kNoTime if that does not come.
	virtual int64_t next() const { return INT64_MAX; }
};

// What a runner works on.
struct RunnerSpec {
	const Comm *comm = nullptr;
	Reduction red;
	std::unique_ptr<Schedule> schedule;
	std::vector<PeerConn> recv, send; // at most three each, except for PAT
	const ddlemu_node_cost *cost = nullptr; // of an action, in virtual time; null: nothing
	int64_t longer = 0, start = 0; // Simple only: ns that each action takes more, and the first one
	int slices_per_chunk = 1; // Simple only
	int steps_per_slice = 1; // Simple only
	int step_bytes = 0; // Simple only: data bytes of a step; 0: the communicator's
	uint32_t task = 0; // for the ledger, see name_tasks
	int channel = 0;
};

std::unique_ptr<Runner> make_simple(RunnerSpec spec);
std::unique_ptr<Runner> make_ll(RunnerSpec spec);
std::unique_ptr<Runner> make_ll128(RunnerSpec spec);

// PAT has other primitives and no schedule. The connections of spec are to the ranks at distances 1, 2, 4, ...,
// in this order.
std::unique_ptr<Runner> make_pat(RunnerSpec spec, const CollWork &w, const Share &share, bool gather);

// Copies bytes within this rank.
std::unique_ptr<Runner> make_copy(char *dst, const char *src, size_t bytes);

// Returns the primitives of a schedule one by one.
class PrimitiveQueue {
public:
	// The next primitive, or null at the end. It stays valid until the next call.
	const Primitive *next(Schedule &s)
	{
		if (next_ == list_.size()) {
			list_.clear();
			next_ = 0;
			if (!s.append_next(&list_))
				return nullptr;
		}
		return &list_[next_++];
	}

private:
	Primitives list_;
	size_t next_ = 0;
};

} // namespace softexec

#endif
