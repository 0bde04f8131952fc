// SPDX-License-Identifier: Apache-2.0
//
// The time of a node: what the actions of a kernel cost, and the direct flows, by which messages between two GPUs of a
// node cross the links between them (shaper/engine/node/node.h, shaper/engine/clock/calls.h). Only in a fabric that has
// it.
//
// An action is what a runner does with one message of each of its connections: a primitive of LL and LL128, a slice of
// Simple, a step of a role of NVLS. It copies at once. Its messages to other GPUs cross the links from its beginning
// on, and do not arrive before it ends; NCCL's counters tell of them at its end.
//
// On a virtual clock copying takes no time. On a real one it takes some of the action's, and this host may be late:
// what it did, and when, is counted for the verdict. An action is late by the time from its end in the model until it
// ends, and by the time before it began in which nobody looked whether it could.
#ifndef DDLEMU_SOFT_EXEC_COST_H
#define DDLEMU_SOFT_EXEC_COST_H

#include "clock.h"
#include "device.h"

namespace softexec {

constexpr int64_t kNoTime = INT64_MAX; // ns: later than any time

// Returns what nodes cost, or null: nothing.
inline const ddlemu_node_time *node_time()
{
	const ddlemu_node_calls *c = node_calls();
	return c ? c->time : nullptr;
}

// Returns the calls of a fabric whose nodes cost time on a real clock, or null.
inline const ddlemu_node_calls *played_calls()
{
	const ddlemu_node_calls *c = node_calls();
	return c && c->played ? c : nullptr;
}

// Returns what the actions of a collective cost that has this protocol. Null: nothing.
const ddlemu_node_cost *collective_cost(Proto proto);

// What the actions of a send or receive cost. Null: nothing. Between nodes each of them takes longer than that, and the
// first one of a send takes longer by start, in ns.
struct P2pCost {
	const ddlemu_node_cost *action = nullptr;
	int64_t longer = 0, start = 0;
};

// Returns what a send or receive over a connection costs that NCCL divides over so many channels.
P2pCost p2p_cost(Proto proto, const Layout &l, const char *conn, int channels);

// The time of a runner's action.
class ActionTime {
public:
	// The runner looks whether an action can begin, or begins to look for its data again after some was missing.
	void look()
	{
		const ddlemu_node_calls *c = played_calls();
		if (!c)
			return;
		looked_before_ = looked_;
		looked_ = c->now();
		if (looked_before_ == 0)
			looked_before_ = looked_;
	}
	// An action begins, which moves so many bytes, and takes so much longer than its cost: on a real clock at the
	// last look. Without cost it is over at once.
	void begin(const ddlemu_node_cost *cost, uint64_t bytes, int64_t longer = 0)
	{
		runs_ = true;
		ends_ = 0;
		if (!cost)
			return;
		bytes_ = bytes;
		ends_ = (played_calls() ? looked_ : node_calls()->now()) + node_action(cost, bytes) + longer;
	}
	// True from begin until end.
	bool runs() const { return runs_; }
	// True if the action that runs is over.
	bool is_over()
	{
		if (ends_ == 0)
			return true;
		now_ = node_calls()->now();
		return now_ >= ends_;
	}
	// The action, which is over, ends.
	void end()
	{
		runs_ = false;
		const ddlemu_node_calls *c = played_calls();
		if (!c || ends_ == 0)
			return;
		const ddlemu_played what = { DDLEMU_ACTIONS, bytes_, looked_, looked_ - looked_before_, ends_, now_ };
		c->played(&what);
		looked_ = now_; // the next action can begin now
	}
	// The time at which the action that began is over; 0: at once.
	int64_t ends() const { return ends_; }
	// The time at which the action that runs is over, if there is one that takes time.
	int64_t next() const { return runs_ && ends_ != 0 ? ends_ : kNoTime; }

private:
	int64_t ends_ = 0; // 0: it takes no time
	bool runs_ = false;
	// On a real clock only: the time now, and the time of the last two looks.
	int64_t now_ = 0, looked_ = 0, looked_before_ = 0;
	uint64_t bytes_ = 0; // that the action moves
};

// The links between two GPUs of a node, as one end of a connection sees them. NCCL does not use two words near the
// connection's tail, in memory that both ends share: the sender writes the name of the flow into the first one, and the
// receiver counts in the second one what it has received. Both are 0 in a new connection.
class Direct {
public:
	// Of a connection that crosses no such links: all of its messages arrive at once.
	Direct() = default;
	Direct(char *words, const ddlemu_direct_ends &ends, const ddlemu_node_cost *cost)
		: words_(reinterpret_cast<uint64_t *>(words)), ends_(ends), cost_(cost)
	{
	}

	// Sender: a message of so many bytes starts, which an action writes.
	void post(uint64_t bytes, const ActionTime &action)
	{
		if (words_)
			send(bytes, action.ends());
	}
	// Receiver: true if the next message has arrived.
	bool has_arrived() { return !words_ || is_here(); }
	// Receiver: the next message is read.
	void took()
	{
		if (words_)
			words_[1]++;
	}

	// True once a flow could not be made, or had no place for a message: what follows would have wrong times.
	static bool failed();

private:
	void send(uint64_t bytes, int64_t written);
	bool is_here();
	bool find_arrived();

	uint64_t *words_ = nullptr;
	ddlemu_direct_ends ends_ = {};
	const ddlemu_node_cost *cost_ = nullptr;
	uint64_t arrived_ = 0; // messages that are known to have arrived
	// On a real clock: messages whose arrival this end has seen, and when it has looked for the next one first.
	uint64_t seen_ = 0;
	int64_t wanted_ = 0; // 0: not yet
};

// Bytes from a connection's tail to these words, if it is no connection of NVLS: a line of the cache has only the tail.
constexpr uint32_t kWords = 8;

// The ranks of a communicator that are on the node of this one, which has so many GPUs of the job.
std::vector<int> ranks_on_node(const Comm &c, int gpus);

// Returns the direct flow of a connection of a rank. words: the connection's words, or the words of the member in
// multicast memory which is at the rank `peer`. cost: the runner's.
Direct direct_flow(const Comm &c, const PeerConn &conn, char *words, int peer, int channel, bool sends,
	const ddlemu_node_cost *cost);

} // namespace softexec

#endif
