// SPDX-License-Identifier: Apache-2.0
//
// PAT's primitives: one hop each. Partial sums are kept in the send buffers themselves until they are complete.
#include <algorithm>

#include "conn.h"
#include "pat.h"
#include "prims.h"
#include "stats.h"

namespace softexec {
namespace {

class Pat : public Engine {
public:
	Pat(Job job, const CollWork &w, const Part &part, bool gather)
		: job_(std::move(job)), input_(w.send), output_(w.recv), part_(part), gather_(gather)
	{
		const Layout &l = *job_.comm->layout;
		for (char *c : job_.recv)
			recv_.emplace_back(l, c, kSimple);
		for (char *c : job_.send)
			send_.emplace_back(l, c, kSimple);
		PatShape shape = pat_shape(job_.comm->nranks, part.chunk * job_.red.elt, part.size * job_.red.elt);
		steps_ = gather ? pat_all_gather(shape) : pat_reduce_scatter(shape);
		seen_.assign(static_cast<size_t>(job_.comm->nranks), false);
	}

	Status poll() override
	{
		if (at_ >= part_.size) {
			for (Conn &c : recv_)
				c.save();
			for (Conn &c : send_)
				c.save();
			return Status::kDone;
		}
		const PatStep &s = steps_[next_];
		if (s.recv_dim >= 0 && !recv(s).can_recv(static_cast<uint64_t>(s.recv_ahead) + 1))
			return Status::kBlocked;
		if (s.send_dim >= 0 && !send(s).can_send(static_cast<uint64_t>(s.send_ahead) + 1))
			return Status::kBlocked;
		move(s);
		post(s);
		if (++next_ == steps_.size()) {
			next_ = 0;
			at_ += part_.chunk;
			seen_.assign(seen_.size(), false);
		}
		return Status::kProgress;
	}

private:
	Conn &recv(const PatStep &s) { return recv_[static_cast<size_t>(s.recv_dim)]; }
	Conn &send(const PatStep &s) { return send_[static_cast<size_t>(s.send_dim)]; }
	size_t count() const { return std::min(part_.chunk, part_.size - at_); }

	// Where the data of the rank at a distance lies in a buffer that holds everybody's, or one's own in a buffer
	// that holds just that.
	char *everybody(char *buf, int distance) const
	{
		size_t rank = static_cast<size_t>((job_.comm->rank + distance) % job_.comm->nranks);
		return buf + (rank * part_.count + part_.offset + at_) * job_.red.elt;
	}
	char *own(char *buf) const { return buf + (part_.offset + at_) * job_.red.elt; }

	void move(const PatStep &s)
	{
		size_t bytes = count() * job_.red.elt;
		char *from = nullptr, *to = nullptr;
		if (s.recv_dim >= 0)
			from = recv(s).slot_ahead(static_cast<uint64_t>(s.recv_ahead)) +
				static_cast<size_t>(s.recv_slot) * bytes;
		if (s.send_dim >= 0)
			to = send(s).slot_ahead(static_cast<uint64_t>(s.send_ahead)) +
				static_cast<size_t>(s.send_slot) * bytes;
		bool first = !seen_[static_cast<size_t>(s.distance)];
		seen_[static_cast<size_t>(s.distance)] = true;
		Slice slice = {};
		slice.n = count();
		if (gather_) {
			slice.src[slice.nsrc++] = from ? from : own(input_);
			if (to)
				slice.dst[slice.ndst++] = to;
			if (first)
				slice.dst[slice.ndst++] = everybody(output_, s.distance);
		} else {
			if (!to)
				to = own(output_);
			if (from)
				slice.src[slice.nsrc++] = from;
			if (first) {
				slice.src[slice.nsrc++] = everybody(input_, s.distance);
			} else {
				slice.src[slice.nsrc++] = to;
			}
			slice.dst[slice.ndst++] = to;
		}
		WorkTimer t(bytes);
		reduce_copy(job_.red, slice);
		t.done(is_arithmetic(job_.red, slice));
	}

	void post(const PatStep &s)
	{
		if (s.send_dim >= 0 && s.post_send) {
			Conn &c = send(s);
			size_t slots = static_cast<size_t>(s.send_slot) + 1;
			if (c.has_fifo())
				c.fifo().set_size(static_cast<ssize_t>(slots * count() * job_.red.elt));
			c.post_send(1);
		}
		if (s.recv_dim >= 0 && s.post_recv)
			recv(s).post_recv(1);
	}

	Job job_;
	char *input_, *output_;
	Part part_;
	bool gather_;
	std::vector<Conn> recv_, send_; // by dimension
	std::vector<PatStep> steps_;
	std::vector<bool> seen_; // distances whose data has been written once in this chunk
	size_t next_ = 0; // step to do
	size_t at_ = 0; // elements of this channel's part that are done
};

} // namespace

std::unique_ptr<Engine> make_pat(Job job, const CollWork &w, const Part &part, bool gather)
{
	return std::make_unique<Pat>(std::move(job), w, part, gather);
}

} // namespace softexec
