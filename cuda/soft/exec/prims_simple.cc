// SPDX-License-Identifier: Apache-2.0
//
// The Simple protocol: whole slices, announced by the connection's counters. A chunk takes slices_per_chunk slices
// whatever its size; empty slices are announced, too, since both sides and the proxies count steps.
#include <algorithm>

#include "conn.h"
#include "prims.h"
#include "stats.h"

namespace softexec {
namespace {

class Simple : public Engine {
public:
	explicit Simple(Job job) : job_(std::move(job))
	{
		const Layout &l = *job_.comm->layout;
		uint64_t chunk_steps = static_cast<uint64_t>(job_.slices_per_chunk * job_.steps_per_slice);
		for (char *c : job_.recv)
			recv_.emplace_back(l, c, kSimple).round_up(chunk_steps, true);
		for (char *c : job_.send)
			send_.emplace_back(l, c, kSimple).round_up(chunk_steps, false);
		size_t step =
			static_cast<size_t>(job_.step_bytes ? job_.step_bytes : job_.comm->buff_size[kSimple] / kSteps);
		max_slice_ = step / job_.red.elt * steps();
	}

	Status poll() override
	{
		if (!op_ && !begin()) {
			for (Conn &c : recv_)
				c.save();
			for (Conn &c : send_)
				c.save();
			return Status::kDone;
		}
		if (!ready())
			return Status::kBlocked;
		size_t n = std::min(slice_, op_->n - done_);
		move(n);
		post();
		done_ += n;
		if (++slices_ == job_.slices_per_chunk)
			op_ = nullptr;
		return Status::kProgress;
	}

private:
	uint64_t steps() const { return static_cast<uint64_t>(job_.steps_per_slice); }

	bool begin()
	{
		op_ = ops_.next(*job_.schedule);
		if (!op_)
			return false;
		// Slices of at least 16 elements and a 32nd of the largest one.
		size_t parts = 16 * static_cast<size_t>(job_.slices_per_chunk);
		slice_ = std::max((op_->n + parts - 1) / parts * 16, max_slice_ / 32);
		done_ = 0;
		slices_ = 0;
		return true;
	}

	bool ready()
	{
		for (Conn &c : recv_) {
			if (op_->recv && !c.can_recv(steps()))
				return false;
		}
		for (Conn &c : send_) {
			if (op_->send && !c.can_send(steps()))
				return false;
		}
		return true;
	}

	// Tells the proxies how much the slice holds, then moves its n elements.
	void move(size_t n)
	{
		Slice s = {};
		size_t elt = job_.red.elt;
		if (op_->src)
			s.src[s.nsrc++] = op_->src + done_ * elt;
		if (op_->dst)
			s.dst[s.ndst++] = op_->dst + done_ * elt;
		if (op_->recv) {
			for (Conn &c : recv_) {
				if (c.has_fifo() && job_.comm->layout->recv_writes_size)
					c.fifo().set_size(static_cast<ssize_t>(n * elt));
				s.src[s.nsrc++] = c.slot();
			}
		}
		if (op_->send) {
			for (Conn &c : send_) {
				if (c.has_fifo())
					c.fifo().set_size(static_cast<ssize_t>(n * elt));
				s.dst[s.ndst++] = c.slot();
			}
		}
		if (n == 0)
			return;
		s.n = n;
		s.pre_first = op_->src != nullptr;
		s.post = op_->post;
		WorkTimer t(n * elt);
		reduce_copy(job_.red, s);
		t.done(is_arithmetic(job_.red, s));
	}

	void post()
	{
		if (op_->recv) {
			for (Conn &c : recv_)
				c.post_recv(steps());
		}
		if (op_->send) {
			for (Conn &c : send_)
				c.post_send(steps());
		}
	}

	Job job_;
	OpQueue ops_;
	std::vector<Conn> recv_, send_;
	const Op *op_ = nullptr;
	size_t max_slice_; // elements
	size_t slice_ = 0; // elements of this primitive's slices
	size_t done_ = 0; // elements of this primitive moved
	int slices_ = 0; // slices of this primitive posted
};

class Copy : public Engine {
public:
	Copy(char *dst, const char *src, size_t bytes) : dst_(dst), src_(src), left_(bytes) {}

	Status poll() override
	{
		size_t n = std::min(left_, size_t(1) << 20);
		if (n != 0 && dst_ != src_) {
			WorkTimer t(n);
			std::memmove(dst_, src_, n);
			t.done(false);
		}
		dst_ += n, src_ += n, left_ -= n;
		return left_ == 0 ? Status::kDone : Status::kProgress;
	}

private:
	char *dst_;
	const char *src_;
	size_t left_;
};

} // namespace

std::unique_ptr<Engine> make_simple(Job job) { return std::make_unique<Simple>(std::move(job)); }

std::unique_ptr<Engine> make_copy(char *dst, const char *src, size_t bytes)
{
	return std::make_unique<Copy>(dst, src, bytes);
}

} // namespace softexec
