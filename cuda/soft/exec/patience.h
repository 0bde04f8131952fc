// SPDX-License-Identifier: Apache-2.0
//
// How long a grid waits after a rank of the job has died. Before that, it waits for ever, as a kernel on a GPU does.
#ifndef DDLEMU_SOFT_EXEC_PATIENCE_H
#define DDLEMU_SOFT_EXEC_PATIENCE_H

#include <atomic>
#include <chrono>

namespace softexec {

// The rank that died, -1 if none has.
inline std::atomic<int> lost_rank{ -1 };

class Patience {
public:
	// The grid has done something.
	void renew() { waits_ = false; }

	// The grid can do nothing. Returns whether it has waited for long enough, in real time.
	bool is_over()
	{
		if (lost_rank.load(std::memory_order_relaxed) < 0) {
			waits_ = false;
			return false;
		}
		const auto now = std::chrono::steady_clock::now();
		if (!waits_)
			since_ = now;
		waits_ = true;
		return now - since_ > kPatience;
	}

private:
	// Longer than a rank that lives usually takes until it aborts its communicator, or goes on.
	static constexpr std::chrono::seconds kPatience{ 1 };
	bool waits_ = false;
	std::chrono::steady_clock::time_point since_;
};

} // namespace softexec

#endif
