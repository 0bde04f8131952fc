// SPDX-License-Identifier: Apache-2.0
//
// The Simple protocol: whole slices, announced by the connection's counters. A chunk has slices_per_chunk slices,
// whatever its size. Empty slices are announced too, because both sides and the proxies count steps.
#include <algorithm>

#include "conn.h"
#include "prims.h"
#include "stats.h"

namespace softexec {
namespace {

class Simple : public Runner {
public:
	explicit Simple(RunnerSpec spec) : spec_(std::move(spec))
	{
		uint64_t chunk_steps = static_cast<uint64_t>(spec_.slices_per_chunk * spec_.steps_per_slice);
		recv_ = connect(spec_, spec_.recv, kSimple, false);
		send_ = connect(spec_, spec_.send, kSimple, true);
		for (Conn &c : recv_)
			c.align_step(chunk_steps, true);
		for (Conn &c : send_)
			c.align_step(chunk_steps, false);
		size_t step = static_cast<size_t>(
			spec_.step_bytes ? spec_.step_bytes : spec_.comm->buff_size[kSimple] / kSteps);
		max_slice_ = step / spec_.red.elt * steps();
	}

	Status poll() override
	{
		if (!prim_ && !begin()) {
			for (Conn &c : recv_)
				c.save();
			for (Conn &c : send_)
				c.save();
			return Status::kDone;
		}
		const size_t n = std::min(slice_, prim_->n - done_);
		if (!time_.runs()) {
			time_.look();
			if (!ready())
				return Status::kBlocked;
			reduce_slice(n);
			time_.begin(spec_.cost, n * spec_.red.elt, spec_.longer + spec_.start);
			spec_.start = 0;
			for (Conn &c : send_) {
				if (prim_->send)
					c.direct.post(n * spec_.red.elt, time_);
			}
		}
		if (!time_.is_over())
			return Status::kBlocked;
		time_.end();
		post(n * spec_.red.elt);
		done_ += n;
		if (++slices_ == spec_.slices_per_chunk)
			prim_ = nullptr;
		return Status::kProgress;
	}

	int64_t next() const override { return time_.next(); }

private:
	uint64_t steps() const { return static_cast<uint64_t>(spec_.steps_per_slice); }

	bool begin()
	{
		prim_ = queue_.next(*spec_.schedule);
		if (!prim_)
			return false;
		// A slice has a multiple of 16 elements, and at least 1/32 of the largest slice.
		size_t groups = 16 * static_cast<size_t>(spec_.slices_per_chunk);
		slice_ = std::max((prim_->n + groups - 1) / groups * 16, max_slice_ / 32);
		done_ = 0;
		slices_ = 0;
		return true;
	}

	bool ready()
	{
		for (Conn &c : recv_) {
			if (prim_->recv && !(c.can_recv(steps()) && c.direct.has_arrived()))
				return false;
		}
		for (Conn &c : send_) {
			if (prim_->send && !c.can_send(steps()))
				return false;
		}
		return true;
	}

	// Copies or reduces the n elements of the slice.
	void reduce_slice(size_t n)
	{
		Slice s = {};
		size_t elt = spec_.red.elt;
		if (prim_->src)
			s.src[s.nsrc++] = prim_->src + done_ * elt;
		if (prim_->dst)
			s.dst[s.ndst++] = prim_->dst + done_ * elt;
		if (prim_->recv) {
			for (Conn &c : recv_)
				s.src[s.nsrc++] = c.slot();
		}
		if (prim_->send) {
			for (Conn &c : send_)
				s.dst[s.ndst++] = c.slot();
		}
		if (n == 0)
			return;
		s.n = n;
		s.pre_op = prim_->src != nullptr;
		s.post_op = prim_->post_op;
		WorkTimer t(n * elt);
		reduce_copy(spec_.red, s);
		t.done(is_arithmetic(spec_.red, s));
	}

	// Tells the proxies the size of the slice, and that it is filled, or read.
	void post(size_t bytes)
	{
		if (prim_->recv) {
			for (Conn &c : recv_) {
				if (c.has_fifo() && spec_.comm->layout->recv_writes_size)
					c.fifo().set_size(static_cast<ssize_t>(bytes));
				c.took(c.slot());
				c.direct.took();
				c.post_recv(steps());
			}
		}
		if (prim_->send) {
			for (Conn &c : send_) {
				c.announce(c.slot(), bytes);
				c.post_send(steps());
			}
		}
	}

	RunnerSpec spec_;
	PrimitiveQueue queue_;
	std::vector<Conn> recv_, send_;
	const Primitive *prim_ = nullptr;
	size_t max_slice_; // elements
	size_t slice_ = 0; // elements of this primitive's slices
	size_t done_ = 0; // elements of this primitive that are done
	int slices_ = 0; // slices of this primitive that are posted
	ActionTime time_; // of the slice
};

class Copy : public Runner {
public:
	Copy(char *dst, const char *src, size_t bytes) : dst_(dst), src_(src), remaining_(bytes) {}

	Status poll() override
	{
		size_t n = std::min(remaining_, size_t(1) << 20);
		if (n != 0 && dst_ != src_) {
			WorkTimer t(n);
			std::memmove(dst_, src_, n);
			t.done(false);
		}
		dst_ += n, src_ += n, remaining_ -= n;
		return remaining_ == 0 ? Status::kDone : Status::kProgress;
	}

private:
	char *dst_;
	const char *src_;
	size_t remaining_;
};

} // namespace

std::unique_ptr<Runner> make_simple(RunnerSpec spec) { return std::make_unique<Simple>(std::move(spec)); }

std::unique_ptr<Runner> make_copy(char *dst, const char *src, size_t bytes)
{
	return std::make_unique<Copy>(dst, src, bytes);
}

} // namespace softexec
