// SPDX-License-Identifier: Apache-2.0
//
// The executor's counters.
#ifndef DDLEMU_SOFT_EXEC_STATS_H
#define DDLEMU_SOFT_EXEC_STATS_H

#include <atomic>
#include <cstdint>

namespace softexec {

struct Counters {
	std::atomic<uint64_t> launches{ 0 }, reduce_ns{ 0 }, copy_ns{ 0 }, wait_ns{ 0 }, bytes{ 0 }, refused{ 0 };
};
extern Counters counters;

// Returns CLOCK_MONOTONIC in nanoseconds.
uint64_t now_ns();

// Adds the time from its construction to done, and the bytes, to the counters.
class WorkTimer {
public:
	explicit WorkTimer(uint64_t bytes) : bytes_(bytes), start_(now_ns()) {}
	void done(bool arithmetic)
	{
		uint64_t ns = now_ns() - start_;
		(arithmetic ? counters.reduce_ns : counters.copy_ns).fetch_add(ns, std::memory_order_relaxed);
		counters.bytes.fetch_add(bytes_, std::memory_order_relaxed);
	}

private:
	uint64_t bytes_, start_;
};

} // namespace softexec

#endif
