// SPDX-License-Identifier: Apache-2.0
//
// One end of a connection: a ring buffer of 8 steps, its counters head and tail, and the connFifo, in which a sender
// writes for the proxy how many bytes a step has.
#ifndef DDLEMU_SOFT_EXEC_CONN_H
#define DDLEMU_SOFT_EXEC_CONN_H

#include <sys/types.h>

#include "cost.h"
#include "device.h"
#include "ledger.h"
#include "prims.h"

namespace softexec {

template <typename T>
T load_acquire(const T *p)
{
	return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
template <typename T>
void store_release(T *p, T v)
{
	__atomic_store_n(p, v, __ATOMIC_RELEASE);
}

// The entry of one step in the connFifo.
struct FifoEntry {
	char *base;
	const Layout *l;
	// Sets the bytes of the step. A sender's proxy waits for this.
	void set_size(ssize_t n) const { store_release(reinterpret_cast<ssize_t *>(base + l->fifo_size), n); }
	// True if the proxy assigns each step a place in a shared buffer: at offset.
	bool has_offset() const
	{
		return __atomic_load_n(reinterpret_cast<int *>(base + l->fifo_mode), __ATOMIC_RELAXED) == 1;
	}
	int offset() const { return __atomic_load_n(reinterpret_cast<int *>(base + l->fifo_offset), __ATOMIC_RELAXED); }
};

class Conn {
public:
	// Reads the connection at base, with the buffer of a protocol.
	Conn(const Layout &l, char *base, Proto proto)
		: l_(&l),
		  base_(base),
		  buff_(get<char *>(base, l.conn_buffs + 8 * static_cast<uint32_t>(proto))),
		  tail_(get<uint64_t *>(base, l.conn_tail)),
		  head_(get<uint64_t *>(base, l.conn_head)),
		  fifo_(get<char *>(base, l.conn_fifo)),
		  step_size_(get<int>(base, l.conn_step_size)),
		  step(get_step())
	{
	}

	char *buff() const { return buff_; }
	bool has_fifo() const { return fifo_ != nullptr; }
	FifoEntry fifo() const { return { fifo_ + (step % kSteps) * l_->fifo_entry, l_ }; }

	// Address of the current step's data in Simple's buffer. Valid once can_send or can_recv is true for that step.
	char *slot() const { return fifo_ && fifo().has_offset() ? buff_ + fifo().offset() : slot_ahead(0); }

	// The same for the step n later. Only for connections without a shared buffer.
	char *slot_ahead(uint64_t n) const { return buff_ + (step + n) % kSteps * static_cast<size_t>(step_size_); }

	// Sender: true if the next n steps are free. Receiver: true if the next n steps have arrived. With a shared
	// buffer the proxy starts a sender's head at -8: no step is free before the proxy has assigned it a place.
	bool can_send(uint64_t n) { return reached(head_, step + n, kSteps); }
	bool can_recv(uint64_t n) { return reached(tail_, step + n, 0); }

	// Sender: n more steps are filled (LL has no such counter). Receiver: n more steps are free.
	void post_send(uint64_t n) { store_release(tail_, step += n); }
	void post_recv(uint64_t n) { store_release(head_, step += n); }

	// The links within a node that the messages cross.
	Direct direct;

	// Sender: the current step, in this slot, has so many bytes. The proxy may send it once it is filled.
	void announce(const char *slot, size_t bytes) const
	{
		if (op_ != 0)
			ledger()->sends(slot, op_);
		if (has_fifo())
			fifo().set_size(static_cast<ssize_t>(bytes));
	}
	// Receiver: the current step, in this slot, is read.
	void took(const char *slot) const
	{
		if (op_ != 0)
			ledger()->receives(slot, op_);
	}
	// Names the task that the messages of this connection are for, if it is one between nodes.
	void belongs_to(uint32_t task, int channel, bool sends)
	{
		op_ = task != 0 && has_fifo() ? ledger()->op(task, channel, sends) : 0;
	}

	// Rounds the step up to a multiple of n, as NCCL does when a collective starts. A receiver frees the steps that
	// it skips.
	void align_step(uint64_t n, bool receiver)
	{
		step = (step + n - 1) / n * n;
		if (receiver)
			store_release(head_, step);
	}

	// Stores the step for the next kernel.
	void save() const { put<uint64_t>(base_, l_->conn_step, step); }

private:
	// True once counter + slack has reached a step. The shared counter is only read if its last value was too low.
	bool reached(const uint64_t *counter, uint64_t want, uint64_t slack)
	{
		if (limit_known_ && limit_ >= want)
			return true;
		limit_ = load_acquire(counter) + slack;
		limit_known_ = true;
		return limit_ >= want;
	}
	uint64_t get_step() const { return get<uint64_t>(base_, l_->conn_step); }

	const Layout *l_;
	char *base_, *buff_;
	uint64_t *tail_, *head_;
	char *fifo_;
	int step_size_;
	uint64_t limit_ = 0; // this end may go up to this step
	bool limit_known_ = false;
	uint32_t op_ = 0; // for the ledger; 0: none

public:
	uint64_t step; // next step to send or receive
};

// Makes the connections of a runner.
inline std::vector<Conn> connect(const RunnerSpec &spec, const std::vector<PeerConn> &conns, Proto proto, bool sends)
{
	std::vector<Conn> out;
	for (const PeerConn &c : conns) {
		const Layout &l = *spec.comm->layout;
		out.emplace_back(l, c.conn, proto);
		out.back().belongs_to(spec.task, spec.channel, sends);
		out.back().direct = direct_flow(*spec.comm, c, get<char *>(c.conn, l.conn_tail) + kWords, c.peer,
			spec.channel, sends, spec.cost);
	}
	return out;
}

} // namespace softexec

#endif
