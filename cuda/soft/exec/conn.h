// SPDX-License-Identifier: Apache-2.0
//
// One end of a connection: a ring buffer of 8 steps, its counters, and the queue that tells a proxy how much a step
// holds.
#ifndef DDLEMU_SOFT_EXEC_CONN_H
#define DDLEMU_SOFT_EXEC_CONN_H

#include <sys/types.h>

#include "device.h"

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

// The entry of a slot in the queue between kernel and proxy.
struct FifoEntry {
	char *base;
	const Layout *l;
	// Bytes that the slot holds. The proxy of a sender waits for it.
	void set_size(ssize_t n) const { store_release(reinterpret_cast<ssize_t *>(base + l->fifo_size), n); }
	// Whether the proxy picks a place in a shared buffer for each step, and which.
	bool has_offset() const
	{
		return __atomic_load_n(reinterpret_cast<int *>(base + l->fifo_mode), __ATOMIC_RELAXED) == 1;
	}
	int offset() const { return __atomic_load_n(reinterpret_cast<int *>(base + l->fifo_offset), __ATOMIC_RELAXED); }
};

class Conn {
public:
	// Reads the connection at base. proto chooses the buffer.
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

	// Where the current step's data lies in Simple's buffer. Valid after the wait for that step.
	char *slot() const { return fifo_ && fifo().has_offset() ? buff_ + fifo().offset() : slot_ahead(0); }

	// The same for n steps on, on connections with buffers of their own.
	char *slot_ahead(uint64_t n) const { return buff_ + (step + n) % kSteps * static_cast<size_t>(step_size_); }

	// Sender: whether the next n steps are free. Receiver: whether the next n steps have arrived.
	// A proxy that hands out shared buffers starts a sender's head at -8, which is no credit at all.
	bool can_send(uint64_t n) { return reached(head_, step + n, kSteps); }
	bool can_recv(uint64_t n) { return reached(tail_, step + n, 0); }

	// Sender: n more steps are filled. Receiver: n more steps are free. Only the first kind is optional (LL has
	// none).
	void post_send(uint64_t n) { store_release(tail_, step += n); }
	void post_recv(uint64_t n) { store_release(head_, step += n); }

	// Rounds the step up to a multiple of n, as each collective does at its start. A receiver returns the credits
	// it skips.
	void round_up(uint64_t n, bool receiver)
	{
		step = (step + n - 1) / n * n;
		if (receiver)
			store_release(head_, step);
	}

	// Keeps the step for the next kernel.
	void save() const { put<uint64_t>(base_, l_->conn_step, step); }

private:
	bool reached(const uint64_t *counter, uint64_t want, uint64_t slack)
	{
		if (seen_ && credit_ >= want)
			return true;
		credit_ = load_acquire(counter) + slack;
		seen_ = true;
		return credit_ >= want;
	}
	uint64_t get_step() const { return get<uint64_t>(base_, l_->conn_step); }

	const Layout *l_;
	char *base_, *buff_;
	uint64_t *tail_, *head_;
	char *fifo_;
	int step_size_;
	uint64_t credit_ = 0; // the step that this end may go up to, when last looked
	bool seen_ = false; // has looked

public:
	uint64_t step; // next step to send or receive
};

} // namespace softexec

#endif
