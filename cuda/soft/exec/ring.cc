// SPDX-License-Identifier: Apache-2.0
//
// Ring algorithms. Each rank sends to the next and receives from the previous one in the ring's order.
#include <algorithm>

#include "algos.h"

namespace softexec {
namespace {

// Common state: position in this channel's part of the data. The names of primitives are those of NCCL's device code;
// in and out are offsets into the user's buffers, in elements.
class Ring : public Schedule {
public:
	Ring(const Comm &c, const Channel &ch, const Func &f, const CollWork &w, const Part &p)
		: ch_(ch), work_(w), part_(p), nranks_(static_cast<size_t>(c.nranks)), elt_(type_size(f.type))
	{
	}

	bool more(Ops *ops) override
	{
		if (at_ >= part_.size)
			return false;
		add(ops);
		return true;
	}

protected:
	// Adds the primitives for the current position and moves on.
	virtual void add(Ops *ops) = 0;

	// Elements from the current position on, of a chunk at most.
	size_t chunk() const { return std::min(part_.chunk, part_.size - at_); }
	// The current position in a buffer with the data of one rank, and in one with those of all.
	size_t here() const { return part_.offset + at_; }
	size_t here_of(size_t i) const { return here() + static_cast<size_t>(ch_.ranks[i]) * part_.count; }

	const char *in(size_t off) const { return work_.send + off * elt_; }
	char *out(size_t off) const { return work_.recv + off * elt_; }
	Op send(size_t i, size_t n) const { return { false, true, in(i), nullptr, n, false }; }
	Op copy_send(size_t i, size_t o, size_t n) const { return { false, true, in(i), out(o), n, false }; }
	Op recv(size_t o, size_t n) const { return { true, false, nullptr, out(o), n, false }; }
	Op recv_copy_send(size_t o, size_t n) const { return { true, true, nullptr, out(o), n, false }; }
	Op recv_reduce_send(size_t i, size_t n) const { return { true, true, in(i), nullptr, n, false }; }
	Op recv_reduce_copy(size_t i, size_t o, size_t n) const { return { true, false, in(i), out(o), n, true }; }
	Op recv_reduce_copy_send(size_t i, size_t o, size_t n) const { return { true, true, in(i), out(o), n, true }; }

	const Channel &ch_;
	const CollWork &work_;
	Part part_;
	size_t nranks_, elt_;
	size_t at_ = 0;
};

// Each loop handles as many chunks as there are ranks. A chunk is reduced on its way once around, then handed around
// once more.
class AllReduce : public Ring {
	using Ring::Ring;
	void add(Ops *ops) override
	{
		size_t left = part_.size - at_, size = part_.chunk, align = 16 / elt_,
		       me = static_cast<size_t>(ch_.index);
		if (left < nranks_ * size)
			size = ((left + nranks_ - 1) / nranks_ + align - 1) / align * align;
		auto offset = [&](size_t i) { return here() + i % nranks_ * size; };
		auto count = [&](size_t i) { return std::min(size, left - std::min(left, i % nranks_ * size)); };
		size_t before = me + nranks_ - 1;
		ops->push_back(send(offset(before), count(before)));
		for (size_t i = before - 1; i > me; i--)
			ops->push_back(recv_reduce_send(offset(i), count(i)));
		ops->push_back(recv_reduce_copy_send(offset(me), offset(me), count(me)));
		for (size_t i = before; i > me + 1; i--)
			ops->push_back(recv_copy_send(offset(i), count(i)));
		ops->push_back(recv(offset(me + 1), count(me + 1)));
		at_ += nranks_ * part_.chunk;
	}
};

class ReduceScatter : public Ring {
	using Ring::Ring;
	void add(Ops *ops) override
	{
		size_t n = chunk();
		ops->push_back(send(here_of(nranks_ - 1), n));
		for (size_t i = nranks_ - 2; i > 0; i--)
			ops->push_back(recv_reduce_send(here_of(i), n));
		ops->push_back(recv_reduce_copy(here_of(0), here(), n));
		at_ += part_.chunk;
	}
};

class AllGather : public Ring {
	using Ring::Ring;
	void add(Ops *ops) override
	{
		size_t n = chunk();
		bool in_place = in(here()) == out(here_of(0));
		ops->push_back(in_place ? send(here(), n) : copy_send(here(), here_of(0), n));
		for (size_t i = nranks_ - 1; i > 1; i--)
			ops->push_back(recv_copy_send(here_of(i), n));
		ops->push_back(recv(here_of(1), n));
		at_ += part_.chunk;
	}
};

class Broadcast : public Ring {
	using Ring::Ring;
	void add(Ops *ops) override
	{
		size_t n = chunk();
		if (ch_.ranks[0] == work_.root) {
			ops->push_back(work_.send == work_.recv ? send(here(), n) : copy_send(here(), here(), n));
		} else {
			ops->push_back(ch_.ranks[1] == work_.root ? recv(here(), n) : recv_copy_send(here(), n));
		}
		at_ += part_.chunk;
	}
};

class Reduce : public Ring {
	using Ring::Ring;
	void add(Ops *ops) override
	{
		size_t n = chunk();
		if (ch_.ranks[nranks_ - 1] == work_.root) {
			ops->push_back(send(here(), n));
		} else {
			ops->push_back(ch_.ranks[0] == work_.root ? recv_reduce_copy(here(), here(), n)
								  : recv_reduce_send(here(), n));
		}
		at_ += part_.chunk;
	}
};

// Broadcasts from several roots take turns, one chunk of each that isn't done.
class Gatherv : public Schedule {
public:
	Gatherv(const Comm &c, const Batch &b) : works_(b.bcasts), last_(c.nranks - 1) {}
	bool more(Ops *ops) override
	{
		for (BcastWork &w : works_) {
			size_t n = std::min(w.bytes, w.chunk);
			if (n == 0)
				continue;
			bool root = w.depth == 0;
			const char *src = root ? w.send + w.done : nullptr;
			char *dst = root && w.send == w.recv ? nullptr : w.recv + w.done;
			ops->push_back({ !root, w.depth != last_, src, dst, n, false });
			w.bytes -= n, w.done += n;
		}
		return !ops->empty();
	}

private:
	std::vector<BcastWork> works_;
	int last_;
};

} // namespace

std::unique_ptr<Schedule> ring_schedule(
	const Comm &c, const Channel &ch, const Func &f, const CollWork &w, const Part &part)
{
	switch (f.coll) {
	case Coll::kAllReduce:
		return std::make_unique<AllReduce>(c, ch, f, w, part);
	case Coll::kReduceScatter:
		return std::make_unique<ReduceScatter>(c, ch, f, w, part);
	case Coll::kAllGather:
		return std::make_unique<AllGather>(c, ch, f, w, part);
	case Coll::kBroadcast:
		return std::make_unique<Broadcast>(c, ch, f, w, part);
	default:
		return std::make_unique<Reduce>(c, ch, f, w, part);
	}
}

std::unique_ptr<Schedule> gatherv_schedule(const Comm &c, const Batch &b) { return std::make_unique<Gatherv>(c, b); }

} // namespace softexec
