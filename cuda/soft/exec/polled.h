// SPDX-License-Identifier: Apache-2.0
//
// The grids that run in virtual time, and the threads that poll them.
//
// A kernel and NCCL's progress thread take turns all the time: one fills a buffer, the other sends it. If each is a
// thread of its own, each turn costs a sleep and a wakeup. So as long as a progress thread of this process polls, it
// polls the grids too, and the thread that runs a grid sleeps until it is finished. When no progress thread polls, that
// thread does it.
#ifndef DDLEMU_SOFT_EXEC_POLLED_H
#define DDLEMU_SOFT_EXEC_POLLED_H

#include <cstdint>

namespace softexec {

// A grid that runs.
class Polled {
public:
	// poll lets the grid go on as far as it can, and says whether it did anything.
	virtual bool poll() = 0;
	// next is the virtual time at which the grid can go on by itself, INT64_MAX if that does not come.
	virtual int64_t next() const = 0;

protected:
	~Polled() = default;
};

// add_polled and remove_polled are for the thread that runs the grid. add_polled also polls it once. After
// remove_polled nobody polls it.
void add_polled(Polled *grid);
void remove_polled(Polled *grid);

// is_polled says whether a progress thread polls the grids.
bool is_polled();

// For a progress thread: it begins to poll, polls all grids of the process, and ends. poll_grids says whether any grid
// did something.
void begin_polling();
bool poll_grids();
// next_of_grids is the first of the virtual times at which grids can go on by themselves, INT64_MAX if there is none.
int64_t next_of_grids();
void end_polling();

} // namespace softexec

#endif
