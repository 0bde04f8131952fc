// SPDX-License-Identifier: Apache-2.0
//
// What LL and LL128 have in common: data travels in lines that carry their own flag, so a receiver polls the lines
// themselves and can use each one as soon as it is there. A primitive takes one step of the connection.
//
// Line is a class with the format: bytes of data and of wire per line, lines per group (only whole groups are sent),
// how a line is written and tried to read, and how a step begins and ends.
#ifndef DDLEMU_SOFT_EXEC_PRIMS_LINES_H
#define DDLEMU_SOFT_EXEC_PRIMS_LINES_H

#include <algorithm>
#include <cstring>

#include "conn.h"
#include "prims.h"
#include "stats.h"

namespace softexec {

template <typename Line>
class LinePrims : public Engine {
public:
	explicit LinePrims(Job job) : job_(std::move(job))
	{
		const Layout &l = *job_.comm->layout;
		for (char *c : job_.recv)
			recv_.emplace_back(l, c, Line::kProto);
		for (char *c : job_.send)
			send_.emplace_back(l, c, Line::kProto);
		step_bytes_ = static_cast<size_t>(job_.comm->buff_size[Line::kProto] / kSteps);
	}

	Status poll() override
	{
		if (!op_) {
			op_ = ops_.next(*job_.schedule);
			if (!op_)
				return finish();
			bytes_ = op_->n * job_.red.elt;
			lines_ = (bytes_ + Line::kGroupData - 1) / Line::kGroupData * Line::kGroupLines;
			line_ = 0;
			announced_ = false;
		}
		if (!announced_ && op_->send && !announce())
			return Status::kBlocked;
		announced_ = true;
		size_t limit = std::min(lines_, line_ + kLinesPerPoll), first = line_;
		while (line_ < limit) {
			size_t n = std::min(kBatchLines, limit - line_);
			if (op_->recv)
				n = receive(n);
			if (n == 0)
				return line_ > first ? Status::kProgress : Status::kBlocked;
			move(n);
			line_ += n;
		}
		if (line_ == lines_)
			end();
		return Status::kProgress;
	}

private:
	static constexpr size_t kBatchLines = 4096 / Line::kData; // data of a batch fits into the first-level cache
	static constexpr size_t kLinesPerPoll = 64 * kBatchLines;
	static constexpr size_t kBatchBytes = kBatchLines * Line::kData;

	Status finish()
	{
		for (Conn &c : recv_)
			c.save();
		for (Conn &c : send_)
			c.save();
		return Status::kDone;
	}

	// Waits for room at every peer, then tells the proxies how much this step holds.
	bool announce()
	{
		for (Conn &c : send_) {
			if (!c.can_send(1))
				return false;
		}
		for (Conn &c : send_) {
			if (c.has_fifo())
				c.fifo().set_size(static_cast<ssize_t>(Line::wire_bytes(lines_, c.step, step_bytes_)));
		}
		return true;
	}

	char *wire(Conn &c, size_t line) { return c.buff() + (c.step % kSteps) * step_bytes_ + line * Line::kWire; }

	// Unpacks up to n lines from every peer. Returns how many have arrived from all of them.
	size_t receive(size_t n)
	{
		for (size_t p = 0; p < recv_.size(); p++) {
			n = Line::unpack(wire(recv_[p], line_), recv_[p].step, n, data_[p]);
			if (n == 0)
				return 0;
		}
		return n;
	}

	// Combines n lines, writes them to the user's buffer and packs them for the peers. The last ones may be partly
	// or wholly padding.
	void move(size_t n)
	{
		size_t at = line_ * Line::kData;
		size_t bytes = at < bytes_ ? std::min(n * Line::kData, bytes_ - at) : 0;
		WorkTimer t(bytes);
		Slice s = {};
		if (op_->src)
			s.src[s.nsrc++] = op_->src + at;
		for (size_t p = 0; op_->recv && p < recv_.size(); p++)
			s.src[s.nsrc++] = data_[p];
		if (op_->send)
			s.dst[s.ndst++] = out_;
		if (op_->dst)
			s.dst[s.ndst++] = op_->dst + at;
		s.n = bytes / job_.red.elt;
		s.pre_first = op_->src != nullptr;
		s.post = op_->post;
		reduce_copy(job_.red, s);
		if (op_->send) {
			std::memset(out_ + bytes, 0, n * Line::kData - bytes);
			for (Conn &c : send_)
				Line::pack(wire(c, line_), c.step, n, out_);
		}
		t.done(is_arithmetic(job_.red, s));
	}

	void end()
	{
		if (op_->recv) {
			for (Conn &c : recv_)
				c.post_recv(1);
		}
		if (op_->send) {
			for (Conn &c : send_)
				Line::end_step(c, wire(c, 0), lines_, step_bytes_);
		}
		op_ = nullptr;
	}

	Job job_;
	OpQueue ops_;
	std::vector<Conn> recv_, send_;
	size_t step_bytes_; // of wire
	const Op *op_ = nullptr;
	size_t bytes_ = 0; // data of this primitive
	size_t lines_ = 0; // lines of this primitive
	size_t line_ = 0; // lines done
	bool announced_ = false;
	alignas(64) char data_[3][kBatchBytes]; // what the peers sent
	alignas(64) char out_[kBatchBytes]; // what is sent
};

} // namespace softexec

#endif
