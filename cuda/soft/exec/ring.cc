// SPDX-License-Identifier: Apache-2.0
//
// Ring algorithms. Each rank sends to the next rank of the ring and receives from the previous one.
#include <algorithm>

#include "algos.h"

namespace softexec {
namespace {

// The common state: the position in this channel's share. The primitives have the names of NCCL's device code; their
// arguments are offsets into the user's input (i) and output (o) and a count (n), in elements.
class Ring : public Schedule {
public:
	Ring(const Comm &c, const Channel &ch, const Func &f, const CollWork &w, const Share &p)
		: ch_(ch), work_(w), share_(p), nranks_(static_cast<size_t>(c.nranks)), elt_(type_size(f.type))
	{
	}

	bool append_next(Primitives *list) override
	{
		if (at_ >= share_.size)
			return false;
		append(list);
		return true;
	}

protected:
	// Appends the primitives for the current position and advances it.
	virtual void append(Primitives *list) = 0;

	// Elements of the chunk at the current position.
	size_t chunk() const { return std::min(share_.chunk, share_.size - at_); }
	// The current position in a buffer with the data of one rank; and in a buffer with the data of all ranks, at
	// the data of the i-th rank of the ring.
	size_t position() const { return share_.offset + at_; }
	size_t position_of(size_t i) const { return position() + static_cast<size_t>(ch_.ranks[i]) * share_.count; }

	const char *in(size_t off) const { return work_.send + off * elt_; }
	char *out(size_t off) const { return work_.recv + off * elt_; }
	Primitive send(size_t i, size_t n) const { return { false, true, in(i), nullptr, n, false }; }
	Primitive copy_send(size_t i, size_t o, size_t n) const { return { false, true, in(i), out(o), n, false }; }
	Primitive recv(size_t o, size_t n) const { return { true, false, nullptr, out(o), n, false }; }
	Primitive recv_copy_send(size_t o, size_t n) const { return { true, true, nullptr, out(o), n, false }; }
	Primitive recv_reduce_send(size_t i, size_t n) const { return { true, true, in(i), nullptr, n, false }; }
	Primitive recv_reduce_copy(size_t i, size_t o, size_t n) const
	{
		return { true, false, in(i), out(o), n, true };
	}
	Primitive recv_reduce_copy_send(size_t i, size_t o, size_t n) const
	{
		return { true, true, in(i), out(o), n, true };
	}

	const Channel &ch_;
	const CollWork &work_;
	Share share_;
	size_t nranks_, elt_;
	size_t at_ = 0;
};

// Each loop handles nranks chunks. A chunk goes around the ring twice: first it is reduced, then it is distributed.
class AllReduce : public Ring {
	using Ring::Ring;
	void append(Primitives *list) override
	{
		size_t remaining = share_.size - at_, size = share_.chunk, align = 16 / elt_,
		       me = static_cast<size_t>(ch_.index);
		if (remaining < nranks_ * size)
			size = ((remaining + nranks_ - 1) / nranks_ + align - 1) / align * align;
		auto offset = [&](size_t i) { return position() + i % nranks_ * size; };
		auto count = [&](size_t i) {
			return std::min(size, remaining - std::min(remaining, i % nranks_ * size));
		};
		size_t before = me + nranks_ - 1;
		list->push_back(send(offset(before), count(before)));
		for (size_t i = before - 1; i > me; i--)
			list->push_back(recv_reduce_send(offset(i), count(i)));
		list->push_back(recv_reduce_copy_send(offset(me), offset(me), count(me)));
		for (size_t i = before; i > me + 1; i--)
			list->push_back(recv_copy_send(offset(i), count(i)));
		list->push_back(recv(offset(me + 1), count(me + 1)));
		at_ += nranks_ * share_.chunk;
	}
};

class ReduceScatter : public Ring {
	using Ring::Ring;
	void append(Primitives *list) override
	{
		size_t n = chunk();
		list->push_back(send(position_of(nranks_ - 1), n));
		for (size_t i = nranks_ - 2; i > 0; i--)
			list->push_back(recv_reduce_send(position_of(i), n));
		list->push_back(recv_reduce_copy(position_of(0), position(), n));
		at_ += share_.chunk;
	}
};

class AllGather : public Ring {
	using Ring::Ring;
	void append(Primitives *list) override
	{
		size_t n = chunk();
		bool in_place = in(position()) == out(position_of(0));
		list->push_back(in_place ? send(position(), n) : copy_send(position(), position_of(0), n));
		for (size_t i = nranks_ - 1; i > 1; i--)
			list->push_back(recv_copy_send(position_of(i), n));
		list->push_back(recv(position_of(1), n));
		at_ += share_.chunk;
	}
};

class Broadcast : public Ring {
	using Ring::Ring;
	void append(Primitives *list) override
	{
		size_t n = chunk();
		if (ch_.ranks[0] == work_.root) {
			list->push_back(
				work_.send == work_.recv ? send(position(), n) : copy_send(position(), position(), n));
		} else {
			list->push_back(
				ch_.ranks[1] == work_.root ? recv(position(), n) : recv_copy_send(position(), n));
		}
		at_ += share_.chunk;
	}
};

class Reduce : public Ring {
	using Ring::Ring;
	void append(Primitives *list) override
	{
		size_t n = chunk();
		if (ch_.ranks[nranks_ - 1] == work_.root) {
			list->push_back(send(position(), n));
		} else {
			list->push_back(ch_.ranks[0] == work_.root ? recv_reduce_copy(position(), position(), n)
								   : recv_reduce_send(position(), n));
		}
		at_ += share_.chunk;
	}
};

// AllGatherV: one chunk of each unfinished broadcast in turn.
class Gatherv : public Schedule {
public:
	Gatherv(const Comm &c, const Batch &b) : works_(b.bcasts), last_(c.nranks - 1) {}
	bool append_next(Primitives *list) override
	{
		for (BcastWork &w : works_) {
			size_t n = std::min(w.bytes, w.chunk);
			if (n == 0)
				continue;
			bool root = w.depth == 0;
			const char *src = root ? w.send + w.done : nullptr;
			char *dst = root && w.send == w.recv ? nullptr : w.recv + w.done;
			list->push_back({ !root, w.depth != last_, src, dst, n, false });
			w.bytes -= n, w.done += n;
		}
		return !list->empty();
	}

private:
	std::vector<BcastWork> works_;
	int last_;
};

} // namespace

std::unique_ptr<Schedule> ring_schedule(
	const Comm &c, const Channel &ch, const Func &f, const CollWork &w, const Share &share)
{
	switch (f.coll) {
	case Coll::kAllReduce:
		return std::make_unique<AllReduce>(c, ch, f, w, share);
	case Coll::kReduceScatter:
		return std::make_unique<ReduceScatter>(c, ch, f, w, share);
	case Coll::kAllGather:
		return std::make_unique<AllGather>(c, ch, f, w, share);
	case Coll::kBroadcast:
		return std::make_unique<Broadcast>(c, ch, f, w, share);
	default:
		return std::make_unique<Reduce>(c, ch, f, w, share);
	}
}

std::unique_ptr<Schedule> gatherv_schedule(const Comm &c, const Batch &b) { return std::make_unique<Gatherv>(c, b); }

} // namespace softexec
