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

// One end of a connection whose buffer and counters may be multicast memory: then a counter is the least of those of
// all members, and what is written is written to all. All steps are one slice.
class End {
public:
	End(const RunnerSpec &spec, char *base, bool sends)
		: conn_(*spec.comm->layout, base, kSimple),
		  sends_(sends),
		  announces_(sends || spec.comm->layout->recv_writes_size)
	{
		const Layout &l = *spec.comm->layout;
		conn_.belongs_to(spec.task, spec.channel, sends);
		buffers_ = members_of(conn_.buff());
		waits_for_ = members_of(get<char *>(base, sends ? l.conn_head : l.conn_tail));
		posts_ = members_of(get<char *>(base, sends ? l.conn_tail : l.conn_head));
		slots_.resize(buffers_.size());
	}

	// True if the current step has arrived, or is free.
	bool ready()
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

	// The addresses of the current step's data, one for each member. Valid until the next call.
	const std::vector<char *> &slots()
	{
		const size_t offset = static_cast<size_t>(conn_.slot() - conn_.buff());
		for (size_t i = 0; i < buffers_.size(); i++)
			slots_[i] = buffers_[i] + offset;
		return slots_;
	}

	// Says how many bytes the current step has, before it is filled or read.
	void announce(size_t bytes)
	{
		if (sends_)
			conn_.announce(conn_.slot(), bytes);
		else if (announces_ && conn_.has_fifo())
			conn_.fifo().set_size(static_cast<ssize_t>(bytes));
	}

	// The current step is filled, or read.
	void post()
	{
		if (!sends_)
			conn_.took(conn_.slot());
		conn_.step++;
		for (char *counter : posts_)
			store_release(reinterpret_cast<uint64_t *>(counter), conn_.step);
	}

	void save() const { conn_.save(); }

private:
	Conn conn_;
	bool sends_, announces_; // a receiver announces on 2.22 only
	std::vector<char *> buffers_, waits_for_, posts_, slots_;
	uint64_t limit_ = 0; // this end may go up to this step
	bool limit_known_ = false;
};

// A runner whose steps wait for all ends, and then do all at once.
class Role : public Runner {
public:
	Role(RunnerSpec spec, size_t steps) : spec_(std::move(spec)), count_(steps)
	{
		for (char *base : spec_.recv)
			recv_.emplace_back(spec_, base, false);
		for (char *base : spec_.send)
			send_.emplace_back(spec_, base, true);
	}

	Status poll() override
	{
		if (at_ == count_) {
			each_end([](End &e) { e.save(); });
			return Status::kDone;
		}
		bool ready = true;
		each_end([&](End &e) { ready = ready && e.ready(); });
		if (!ready)
			return Status::kBlocked;
		step(at_);
		each_end([](End &e) { e.post(); });
		at_++;
		return Status::kProgress;
	}

protected:
	virtual void step(size_t i) = 0;

	template <typename F>
	void each_end(F f)
	{
		std::for_each(recv_.begin(), recv_.end(), f);
		std::for_each(send_.begin(), send_.end(), f);
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
};

class Scatter : public Role {
public:
	Scatter(RunnerSpec spec, const char *input, std::vector<HeadStep> steps)
		: Role(std::move(spec), steps.size()), input_(input), steps_(std::move(steps))
	{
	}

private:
	void step(size_t i) override
	{
		const HeadStep &s = steps_[i];
		for (size_t head = 0; head < send_.size(); head++) {
			const size_t n = elements(s, head), elt = spec_.red.elt;
			send_[head].announce(n * elt);
			if (n == 0)
				continue;
			WorkTimer t(n * elt);
			std::memcpy(send_[head].slots()[0], input_ + (s.at + head * s.stride) * elt, n * elt);
			t.done(false);
		}
	}

	const char *input_;
	std::vector<HeadStep> steps_;
};

class Gather : public Role {
public:
	Gather(RunnerSpec spec, char *output, std::vector<HeadStep> steps)
		: Role(std::move(spec), steps.size()), output_(output), steps_(std::move(steps))
	{
	}

private:
	void step(size_t i) override
	{
		const HeadStep &s = steps_[i];
		for (size_t head = 0; head < recv_.size(); head++) {
			const size_t n = elements(s, head), elt = spec_.red.elt;
			recv_[head].announce(n * elt);
			if (n == 0)
				continue;
			WorkTimer t(n * elt);
			std::memcpy(output_ + (s.at + head * s.stride) * elt, recv_[head].slots()[0], n * elt);
			t.done(false);
		}
	}

	char *output_;
	std::vector<HeadStep> steps_;
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

	void step(size_t i) override
	{
		const PartStep &s = steps_[i];
		each_end([&](End &e) { e.announce(s.n * spec_.red.elt); });
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
