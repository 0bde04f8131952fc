// SPDX-License-Identifier: Apache-2.0
//
// The common code of LL and LL128. Data is sent in lines, and each line has its own flag: a receiver polls the lines
// and can use each one as soon as it has arrived. A primitive uses one step of the connection.
//
// Line is a class that describes the format: bytes and data bytes per line, lines per group (only whole groups are
// sent), how to pack and unpack lines, and what ends a step.
#ifndef DDLEMU_SOFT_EXEC_PRIMS_LINES_H
#define DDLEMU_SOFT_EXEC_PRIMS_LINES_H

#include <algorithm>
#include <cstring>

#include "conn.h"
#include "prims.h"
#include "stats.h"

namespace softexec {

template <typename Line>
class LineRunner : public Runner {
public:
	explicit LineRunner(RunnerSpec spec) : spec_(std::move(spec))
	{
		recv_ = connect(spec_, spec_.recv, Line::kProto, false);
		send_ = connect(spec_, spec_.send, Line::kProto, true);
		step_bytes_ = static_cast<size_t>(spec_.comm->buff_size[Line::kProto] / kSteps);
	}

	Status poll() override
	{
		if (time_.runs())
			return end_if_over();
		if (!has_more_)
			time_.look();
		has_more_ = false;
		if (!prim_) {
			prim_ = queue_.next(*spec_.schedule);
			if (!prim_)
				return finish();
			bytes_ = prim_->n * spec_.red.elt;
			lines_ = (bytes_ + Line::kGroupData - 1) / Line::kGroupData * Line::kGroupLines;
			line_ = 0;
			step_begun_ = false;
		}
		if (!step_begun_ && prim_->send && !can_begin_step())
			return Status::kBlocked;
		step_begun_ = true;
		if (prim_->recv && lines_ > 0 && !have_arrived())
			return Status::kBlocked;
		size_t limit = std::min(lines_, line_ + kLinesPerPoll), first = line_;
		while (line_ < limit) {
			size_t n = std::min(kBatchLines, limit - line_);
			if (prim_->recv)
				n = receive(n);
			if (n == 0)
				return line_ > first ? Status::kProgress : Status::kBlocked;
			reduce_lines(n);
			line_ += n;
		}
		has_more_ = line_ < lines_;
		if (has_more_)
			return Status::kProgress;
		time_.begin(spec_.cost, lines_ * Line::kBytes);
		for (Conn &c : send_) {
			if (prim_->send)
				c.direct.post(lines_ * Line::kBytes, time_);
		}
		return end_if_over();
	}

	int64_t next() const override { return time_.next(); }

private:
	static constexpr size_t kBatchLines = 4096 / Line::kData; // a batch fits into the first-level cache
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

	// True if a step is free at every receiver.
	bool can_begin_step()
	{
		for (Conn &c : send_) {
			if (!c.can_send(1))
				return false;
		}
		return true;
	}

	// True if the next message of every connection has crossed the links within the node.
	bool have_arrived()
	{
		for (Conn &c : recv_) {
			if (!c.direct.has_arrived())
				return false;
		}
		return true;
	}

	Status end_if_over()
	{
		if (!time_.is_over())
			return Status::kBlocked;
		time_.end();
		end_primitive();
		return Status::kProgress;
	}

	char *address(Conn &c, size_t line) { return c.buff() + (c.step % kSteps) * step_bytes_ + line * Line::kBytes; }

	// Unpacks up to n lines from every peer. Returns the number of lines that have arrived from all of them.
	size_t receive(size_t n)
	{
		for (size_t p = 0; p < recv_.size(); p++) {
			// A network's copy into the buffer has no order, so a flag can arrive before the rest of its
			// line. The proxy advances tail after the copy.
			if (Line::kFlagMayBeEarly && recv_[p].has_fifo() && !recv_[p].can_recv(1))
				return 0;
			n = Line::unpack(address(recv_[p], line_), recv_[p].step, n, data_[p]);
			if (n == 0)
				return 0;
		}
		return n;
	}

	// Reduces n lines, writes them to the user's buffer and packs them for the peers. The last lines may be
	// padding.
	void reduce_lines(size_t n)
	{
		size_t at = line_ * Line::kData;
		size_t bytes = at < bytes_ ? std::min(n * Line::kData, bytes_ - at) : 0;
		WorkTimer t(bytes);
		Slice s = {};
		if (prim_->src)
			s.src[s.nsrc++] = prim_->src + at;
		for (size_t p = 0; prim_->recv && p < recv_.size(); p++)
			s.src[s.nsrc++] = data_[p];
		if (prim_->send)
			s.dst[s.ndst++] = out_;
		if (prim_->dst)
			s.dst[s.ndst++] = prim_->dst + at;
		s.n = bytes / spec_.red.elt;
		s.pre_op = prim_->src != nullptr;
		s.post_op = prim_->post_op;
		reduce_copy(spec_.red, s);
		if (prim_->send) {
			std::memset(out_ + bytes, 0, n * Line::kData - bytes);
			for (Conn &c : send_)
				Line::pack(address(c, line_), c.step, n, out_);
		}
		t.done(is_arithmetic(spec_.red, s));
	}

	void end_primitive()
	{
		if (prim_->recv) {
			for (Conn &c : recv_) {
				c.took(address(c, 0));
				c.direct.took();
				c.post_recv(1);
			}
		}
		if (prim_->send) {
			for (Conn &c : send_) {
				// A proxy sends the step when it knows its size and sees the flags of all lines.
				c.announce(address(c, 0), Line::message_bytes(lines_, c.step, step_bytes_));
				Line::end_step(c, address(c, 0), lines_, step_bytes_);
			}
		}
		prim_ = nullptr;
	}

	RunnerSpec spec_;
	PrimitiveQueue queue_;
	std::vector<Conn> recv_, send_;
	size_t step_bytes_; // bytes of a step, flags included
	const Primitive *prim_ = nullptr;
	size_t bytes_ = 0; // data bytes of this primitive
	size_t lines_ = 0; // lines of this primitive
	size_t line_ = 0; // first line that is not done
	bool step_begun_ = false; // the steps to send are free
	bool has_more_ = false; // the last poll stopped before lines that may be there
	ActionTime time_; // of the primitive, whose lines are all done
	alignas(64) char data_[3][kBatchBytes]; // data from the peers
	alignas(64) char out_[kBatchBytes]; // data to send
};

} // namespace softexec

#endif
