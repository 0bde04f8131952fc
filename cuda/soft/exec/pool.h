// SPDX-License-Identifier: Apache-2.0
//
// Threads that help a grid, and how a thread waits that has nothing to do.
#ifndef DDLEMU_SOFT_EXEC_POOL_H
#define DDLEMU_SOFT_EXEC_POOL_H

#include <cstddef>
#include <cstdint>
#include <functional>

namespace softexec {

// How many threads should run a grid of this many blocks that has this many bytes to move. One process per rank is
// taken as given, and that all ranks of the communicator are on this host, each with a proxy thread that polls, too.
// DDLEMU_SOFT_THREADS overrides it.
size_t threads_for(size_t blocks, int nranks, size_t bytes);

// Has a thread of the pool call task, soon. Pool threads sleep when there is nothing to do. Safe to call from several
// threads at once.
void start_in_pool(std::function<void()> task);

// Waiting for memory to change: looks a few times, then yields the CPU at each look, since on a small host the thread
// that is waited for needs it. Counts the time from the first wait to end.
class Idle {
public:
	void wait();
	void end()
	{
		if (rounds_ != 0)
			stop();
	}

private:
	void stop();
	unsigned rounds_ = 0;
	uint64_t since_ = 0;
};

} // namespace softexec

#endif
