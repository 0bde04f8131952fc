// SPDX-License-Identifier: Apache-2.0
//
// A pool of threads that help to run a grid, and how a thread waits for other ranks.
#ifndef DDLEMU_SOFT_EXEC_POOL_H
#define DDLEMU_SOFT_EXEC_POOL_H

#include <cstddef>
#include <cstdint>
#include <functional>

namespace softexec {

// Returns the number of threads for a grid, from its blocks and the bytes that it moves. It assumes a process per rank,
// all ranks of the communicator on this host, and a polling proxy thread for each. DDLEMU_SOFT_THREADS overrides it.
size_t thread_count(size_t blocks, int nranks, size_t bytes);

// Runs task on a thread of the pool. Pool threads sleep when there is nothing to do. Safe from several threads.
void run_in_pool(std::function<void()> task);

// Waits for memory to change. The first calls of wait spin; later ones yield the CPU, because on a small host the
// thread that changes the memory needs it. Counts the time from the first wait to end.
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
