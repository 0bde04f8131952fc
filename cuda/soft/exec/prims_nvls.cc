// SPDX-License-Identifier: Apache-2.0
//
// The roles of NVLS: scatter, gather, and what a head does between them.
#include <algorithm>
#include <cstring>

#include "conn.h"
#include "multicast.h"
#include "nvls.h"
#include "stats.h"

namespace softexec {
namespace {

// One end of a connection whose buffer and counters may be multicast memory: then a counter is the least of the
// counters of all members, and a write goes to all. All steps are one slice.
class End {
public:
	End(const RunnerSpec &spec, const PeerConn &peer, bool sends)
		: conn_(*spec.comm->layout, peer.conn, kSimple),
		  sends_(sends),
		  announces_(sends || spec.comm->layout->recv_writes_size)
	{
		const Layout &l = *spec.comm->layout;
		char *base = peer.conn;
		conn_.belongs_to(spec.task, spec.channel, sends);
		buffers_ = members_of(conn_.buff());
		waits_for_ = members_of(get<char *>(base, sends ? l.conn_head : l.conn_tail));
		posts_ = members_of(get<char *>(base, sends ? l.conn_tail : l.conn_head));
		slots_.resize(buffers_.size());
		find_links(spec, peer);
	}

	// True if the current step has arrived, or is free.
	bool ready() { return is_counted() && have_arrived(); }

	// The addresses of the current step's data, one for each member. Valid until the next call.
	const std::vector<char *> &slots()
	{
		const size_t offset = static_cast<size_t>(conn_.slot() - conn_.buff());
		for (size_t i = 0; i < buffers_.size(); i++)
			slots_[i] = buffers_[i] + offset;
		return slots_;
	}

	// Says how many bytes the current step has, before it is posted.
	void announce(size_t bytes)
	{
		if (sends_)
			conn_.announce(conn_.slot(), bytes);
		else if (announces_ && conn_.has_fifo())
			conn_.fifo().set_size(static_cast<ssize_t>(bytes));
	}

	// The current step of so many bytes is filled, or read.
	void post(size_t bytes)
	{
		announce(bytes);
		if (!sends_)
			conn_.took(conn_.slot());
		conn_.step++;
		for (char *counter : posts_)
			store_release(reinterpret_cast<uint64_t *>(counter), conn_.step);
		for (Direct &d : links_) {
			if (!sends_)
				d.took();
		}
	}

	// An action begins to write a step of so many bytes.
	void write(size_t bytes, const ActionTime &action)
	{
		for (Direct &d : links_) {
			if (sends_)
				d.post(bytes, action);
		}
	}

	void save() const { conn_.save(); }

private:
	// True if the counters say that the current step has arrived, or is free.
	bool is_counted()
	{
		const uint64_t slack = sends_ ? kSteps : 0;
		if (limit_known_ && limit_ >= conn_.step + 1)
			return true;
		uint64_t least = ~uint64_t(0);
		for (char *counter : waits_for_)
			least = std::min(least, load_acquire(reinterpret_cast<uint64_t *>(counter)) + slack);
		limit_ = least;
		limit_known_ = true;
		return limit_ >= conn_.step + 1;
	}

	// True if what was sent has crossed the links within the node.
	bool have_arrived()
	{
		return sends_ || std::all_of(links_.begin(), links_.end(), [](Direct &d) { return d.has_arrived(); });
	}

	// Finds the links to or from each rank at the other end. Members of multicast memory are in the order of the
	// node's ranks.
	void find_links(const RunnerSpec &spec, const PeerConn &peer)
	{
		const ddlemu_node_time *t = node_time();
		if (!t)
			return;
		const std::vector<char *> &tails = sends_ ? posts_ : waits_for_;
		const std::vector<int> local = ranks_on_node(*spec.comm, static_cast<int>(t->gpus));
		for (size_t i = 0; i < tails.size(); i++) {
			const int rank = tails.size() > 1 ? local.at(i) : peer.peer;
			links_.push_back(direct_flow(*spec.comm, peer, tails[i] + spec.comm->layout->nvls_words, rank,
				spec.channel, sends_, spec.cost));
		}
	}

	Conn conn_;
	bool sends_, announces_; // a receiver announces on 2.22 only
	std::vector<Direct> links_;
	std::vector<char *> buffers_, waits_for_, posts_, slots_;
	uint64_t limit_ = 0; // this end may go up to this step
	bool limit_known_ = false;
};

// A runner whose steps have parts, one after another. A part waits for some of the ends, those from one on and before
// another one, and then does all of it at once. The ends are those that receive, then those that send.
class Role : public Runner {
public:
	Role(RunnerSpec spec, size_t steps) : spec_(std::move(spec)), count_(steps)
	{
		for (const PeerConn &p : spec_.recv)
			recv_.emplace_back(spec_, p, false);
		for (const PeerConn &p : spec_.send)
			send_.emplace_back(spec_, p, true);
	}

	Status poll() override
	{
		if (at_ == count_) {
			each_end(0, ends(), [](End &e) { e.save(); });
			return Status::kDone;
		}
		if (!time_.runs()) {
			time_.look();
			bool ready = true;
			to_ = part_end(at_, from_);
			each_end(from_, to_, [&](End &e) { ready = ready && e.ready(); });
			if (!ready)
				return Status::kBlocked;
			step(at_, from_, to_);
			time_.begin(spec_.cost, moved(at_, from_, to_));
			for (size_t i = from_; i < to_; i++)
				end(i).write(bytes(at_, i), time_);
		}
		if (!time_.is_over())
			return Status::kBlocked;
		time_.end();
		for (size_t i = from_; i < to_; i++)
			end(i).post(bytes(at_, i));
		from_ = to_ % ends();
		at_ += from_ == 0;
		return Status::kProgress;
	}

	int64_t next() const override { return time_.next(); }

protected:
	// Does a part of step i.
	virtual void step(size_t i, size_t from, size_t to) = 0;
	// Returns the end behind the part of step i that begins at an end.
	virtual size_t part_end(size_t, size_t) { return ends(); }
	// Returns the bytes of an end in step i, and those that a part moves.
	virtual size_t bytes(size_t i, size_t at) const = 0;
	virtual size_t moved(size_t i, size_t from, size_t to) const = 0;

	size_t ends() const { return recv_.size() + send_.size(); }
	End &end(size_t i) { return i < recv_.size() ? recv_[i] : send_[i - recv_.size()]; }

	template <typename F>
	void each_end(size_t from, size_t to, F f)
	{
		for (size_t i = from; i < to; i++)
			f(end(i));
	}

	// Elements of a step that are a head's: heads at the end of the data may have less, or none.
	static size_t elements(const HeadStep &s, size_t head)
	{
		const size_t begin = head * s.stride;
		return begin >= s.total ? 0 : std::min(s.each, s.total - begin);
	}

	RunnerSpec spec_;
	std::vector<End> recv_, send_;

private:
	size_t at_ = 0, count_;
	size_t from_ = 0, to_ = 0; // the present part
	ActionTime time_; // of the part
};

// Copies between a rank's data and its buffers: an end for each head.
class Copies : public Role {
public:
	Copies(RunnerSpec spec, std::vector<HeadStep> steps)
		: Role(std::move(spec), steps.size()), steps_(std::move(steps))
	{
	}

protected:
	// Heads in a row with as much data are one part, if that makes a difference: if they take time.
	size_t part_end(size_t i, size_t from) override
	{
		size_t to = from + 1;
		while (to < ends() && (!spec_.cost || bytes(i, to) == bytes(i, from)))
			to++;
		return to;
	}
	size_t bytes(size_t i, size_t head) const override { return elements(steps_[i], head) * spec_.red.elt; }
	size_t moved(size_t i, size_t from, size_t to) const override { return bytes(i, from) * (to - from); }

	std::vector<HeadStep> steps_;
};

class Scatter : public Copies {
public:
	Scatter(RunnerSpec spec, const char *input, std::vector<HeadStep> steps)
		: Copies(std::move(spec), std::move(steps)), input_(input)
	{
	}

private:
	void step(size_t i, size_t from, size_t to) override
	{
		const HeadStep &s = steps_[i];
		for (size_t head = from; head < to; head++) {
			const size_t n = elements(s, head), elt = spec_.red.elt;
			if (n == 0)
				continue;
			WorkTimer t(n * elt);
			std::memcpy(send_[head].slots()[0], input_ + (s.at + head * s.stride) * elt, n * elt);
			t.done(false);
		}
	}

	const char *input_;
};

class Gather : public Copies {
public:
	Gather(RunnerSpec spec, char *output, std::vector<HeadStep> steps)
		: Copies(std::move(spec), std::move(steps)), output_(output)
	{
	}

private:
	void step(size_t i, size_t from, size_t to) override
	{
		const HeadStep &s = steps_[i];
		for (size_t head = from; head < to; head++) {
			const size_t n = elements(s, head), elt = spec_.red.elt;
			if (n == 0)
				continue;
			WorkTimer t(n * elt);
			std::memcpy(output_ + (s.at + head * s.stride) * elt, recv_[head].slots()[0], n * elt);
			t.done(false);
		}
	}

	char *output_;
};

class Head : public Role {
public:
	Head(RunnerSpec spec, std::vector<PartStep> steps)
		: Role(std::move(spec), steps.size()), steps_(std::move(steps))
	{
	}

private:
	// Elements that are handled at a time, so that they stay in the first-level cache.
	static constexpr size_t kBlock = 1024;

	size_t bytes(size_t i, size_t) const override { return steps_[i].n * spec_.red.elt; }
	size_t moved(size_t i, size_t, size_t) const override { return bytes(i, 0); }

	void step(size_t i, size_t, size_t) override
	{
		const PartStep &s = steps_[i];
		if (s.n == 0)
			return;
		std::vector<char *> to;
		if (s.dst)
			to.push_back(s.dst);
		for (End &e : send_)
			to.insert(to.end(), e.slots().begin(), e.slots().end());
		WorkTimer t(s.n * spec_.red.elt);
		for (size_t done = 0; done < s.n; done += kBlock)
			move(s, to, done, std::min(kBlock, s.n - done));
		t.done(spec_.red.reduce != nullptr);
	}

	// Handles n elements from element `done` of a step on: the result goes to the first destination, and from there
	// to the others.
	void move(const PartStep &s, const std::vector<char *> &to, size_t done, size_t n)
	{
		const size_t elt = spec_.red.elt, offset = done * elt;
		char *result = to[0] + offset;
		bool first = true;
		auto add = [&](const std::vector<const char *> &from) {
			if (first) {
				reduce_members(spec_.red, result, from.data(), from.size(), n);
			} else {
				reduce_members(spec_.red, scratch_, from.data(), from.size(), n);
				spec_.red.reduce(result, result, scratch_, n, spec_.red.arg);
			}
			first = false;
		};
		if (s.src)
			add({ s.src + offset });
		for (End &e : recv_) {
			from_.assign(e.slots().begin(), e.slots().end());
			for (const char *&p : from_)
				p += offset;
			add(from_);
		}
		for (size_t i = 1; i < to.size(); i++)
			std::memcpy(to[i] + offset, result, n * elt);
	}

	std::vector<PartStep> steps_;
	std::vector<const char *> from_;
	alignas(64) char scratch_[kBlock * 8]; // 8: the largest element
};

} // namespace

std::unique_ptr<Runner> make_scatter(RunnerSpec spec, const char *input, std::vector<HeadStep> steps)
{
	return std::make_unique<Scatter>(std::move(spec), input, std::move(steps));
}

std::unique_ptr<Runner> make_gather(RunnerSpec spec, char *output, std::vector<HeadStep> steps)
{
	return std::make_unique<Gather>(std::move(spec), output, std::move(steps));
}

std::unique_ptr<Runner> make_head(RunnerSpec spec, std::vector<PartStep> steps)
{
	return std::make_unique<Head>(std::move(spec), std::move(steps));
}

bool members_are_there(const Layout &l, const std::vector<ConnEnd> &ends)
{
	for (const ConnEnd &e : ends) {
		const uint32_t simple = l.conn_buffs + 8 * static_cast<uint32_t>(kSimple);
		for (uint32_t field : { simple, l.conn_head, l.conn_tail }) {
			if (members_of(get<char *>(e.conn, field)).empty())
				return false;
		}
	}
	return true;
}

} // namespace softexec
