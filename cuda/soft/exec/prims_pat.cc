// SPDX-License-Identifier: Apache-2.0
//
// PAT's primitives: one hop each. A partial sum stays in the send buffer until it is complete.
#include <algorithm>

#include "conn.h"
#include "pat.h"
#include "prims.h"
#include "stats.h"

namespace softexec {
namespace {

class Pat : public Runner {
public:
	Pat(RunnerSpec spec, const CollWork &w, const Share &share, bool gather)
		: spec_(std::move(spec)), input_(w.send), output_(w.recv), share_(share), gather_(gather)
	{
		recv_ = connect(spec_, spec_.recv, kSimple, false);
		send_ = connect(spec_, spec_.send, kSimple, true);
		PatShape shape = pat_shape(spec_.comm->nranks, share.chunk * spec_.red.elt, share.size * spec_.red.elt);
		steps_ = gather ? pat_all_gather(shape) : pat_reduce_scatter(shape);
		written_.assign(static_cast<size_t>(spec_.comm->nranks), false);
		count_moved();
	}

	Status poll() override
	{
		if (at_ >= share_.size) {
			for (Conn &c : recv_)
				c.save();
			for (Conn &c : send_)
				c.save();
			return Status::kDone;
		}
		const PatStep &s = steps_[next_];
		if (time_.runs())
			return end_if_over(s);
		time_.look();
		if (s.recv_dim >= 0 && !recv(s).can_recv(static_cast<uint64_t>(s.recv_ahead) + 1))
			return Status::kBlocked;
		if (s.send_dim >= 0 && !send(s).can_send(static_cast<uint64_t>(s.send_ahead) + 1))
			return Status::kBlocked;
		move(s);
		time_.begin(spec_.cost, moved_[next_] * count() * spec_.red.elt);
		return end_if_over(s);
	}

	int64_t next() const override { return time_.next(); }

private:
	Status end_if_over(const PatStep &s)
	{
		if (!time_.is_over())
			return Status::kBlocked;
		time_.end();
		post(s);
		if (++next_ == steps_.size()) {
			next_ = 0;
			at_ += share_.chunk;
			written_.assign(written_.size(), false);
		}
		return Status::kProgress;
	}

	// Finds out how many chunks each step moves: the chunks of the larger one of the messages that it completes.
	// What one rank sends over a dimension, each sends.
	void count_moved()
	{
		std::vector<std::vector<size_t>> sent(recv_.size()); // chunks of each message, by dimension
		for (const PatStep &s : steps_) {
			if (s.send_dim >= 0 && s.post_send)
				sent[static_cast<size_t>(s.send_dim)].push_back(static_cast<size_t>(s.send_slot) + 1);
		}
		std::vector<size_t> received(recv_.size()); // messages
		for (const PatStep &s : steps_) {
			size_t chunks = s.send_dim >= 0 ? static_cast<size_t>(s.send_slot) + 1 : 0;
			if (s.recv_dim >= 0 && s.post_recv) {
				const size_t dim = static_cast<size_t>(s.recv_dim);
				chunks = std::max(chunks, sent[dim][received[dim]++]);
			}
			moved_.push_back(chunks);
		}
	}

	Conn &recv(const PatStep &s) { return recv_[static_cast<size_t>(s.recv_dim)]; }
	Conn &send(const PatStep &s) { return send_[static_cast<size_t>(s.send_dim)]; }
	size_t count() const { return std::min(share_.chunk, share_.size - at_); }

	// Address of the data of the rank at a distance, in a buffer with the data of all ranks.
	char *in_gathered(char *buf, int distance) const
	{
		size_t rank = static_cast<size_t>((spec_.comm->rank + distance) % spec_.comm->nranks);
		return buf + (rank * share_.count + share_.offset + at_) * spec_.red.elt;
	}
	// Address of this rank's data, in a buffer with the data of one rank.
	char *in_single(char *buf) const { return buf + (share_.offset + at_) * spec_.red.elt; }

	void move(const PatStep &s)
	{
		size_t bytes = count() * spec_.red.elt;
		char *from = nullptr, *to = nullptr;
		if (s.recv_dim >= 0)
			from = recv(s).slot_ahead(static_cast<uint64_t>(s.recv_ahead)) +
				static_cast<size_t>(s.recv_slot) * bytes;
		if (s.send_dim >= 0)
			to = send(s).slot_ahead(static_cast<uint64_t>(s.send_ahead)) +
				static_cast<size_t>(s.send_slot) * bytes;
		bool first = !written_[static_cast<size_t>(s.distance)];
		written_[static_cast<size_t>(s.distance)] = true;
		Slice slice = {};
		slice.n = count();
		if (gather_) {
			slice.src[slice.nsrc++] = from ? from : in_single(input_);
			if (to)
				slice.dst[slice.ndst++] = to;
			if (first)
				slice.dst[slice.ndst++] = in_gathered(output_, s.distance);
		} else {
			if (!to)
				to = in_single(output_);
			if (from)
				slice.src[slice.nsrc++] = from;
			if (first) {
				slice.src[slice.nsrc++] = in_gathered(input_, s.distance);
			} else {
				slice.src[slice.nsrc++] = to;
			}
			slice.dst[slice.ndst++] = to;
		}
		WorkTimer t(bytes);
		reduce_copy(spec_.red, slice);
		t.done(is_arithmetic(spec_.red, slice));
	}

	void post(const PatStep &s)
	{
		if (s.send_dim >= 0 && s.post_send) {
			Conn &c = send(s);
			size_t slots = static_cast<size_t>(s.send_slot) + 1;
			c.announce(c.slot_ahead(0), slots * count() * spec_.red.elt);
			c.post_send(1);
		}
		if (s.recv_dim >= 0 && s.post_recv) {
			recv(s).took(recv(s).slot_ahead(0));
			recv(s).post_recv(1);
		}
	}

	RunnerSpec spec_;
	char *input_, *output_;
	Share share_;
	bool gather_;
	std::vector<Conn> recv_, send_; // by dimension
	std::vector<PatStep> steps_;
	std::vector<size_t> moved_; // chunks, by step
	ActionTime time_; // of the step
	std::vector<bool> written_; // distances whose data has been written in this chunk
	size_t next_ = 0; // in steps_
	size_t at_ = 0; // elements of this channel's share that are done
};

} // namespace

std::unique_ptr<Runner> make_pat(RunnerSpec spec, const CollWork &w, const Share &share, bool gather)
{
	return std::make_unique<Pat>(std::move(spec), w, share, gather);
}

} // namespace softexec
