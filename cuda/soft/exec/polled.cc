// SPDX-License-Identifier: Apache-2.0
#include "polled.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "clock.h"

namespace softexec {
namespace {

// Never destroyed: threads may run until the process ends.
struct Grids {
	std::mutex mu; // also held while the grids are polled
	std::vector<Polled *> running;
	std::atomic<int> pollers{ 0 };
};

Grids &grids()
{
	static auto *all = new Grids;
	return *all;
}

} // namespace

void add_polled(Polled *grid)
{
	std::lock_guard<std::mutex> lock(grids().mu);
	grids().running.push_back(grid);
	grid->poll(); // a progress thread may have looked the last time before
	if (grid->next() != INT64_MAX)
		raise_number(DDLEMU_EVENTS); // one that is about to be idle must look when that is
}

void remove_polled(Polled *grid)
{
	std::lock_guard<std::mutex> lock(grids().mu);
	auto &running = grids().running;
	running.erase(std::find(running.begin(), running.end(), grid));
}

bool is_polled() { return grids().pollers.load() != 0; }

void begin_polling() { grids().pollers++; }

bool poll_grids()
{
	std::lock_guard<std::mutex> lock(grids().mu);
	bool progress = false;
	for (Polled *grid : grids().running)
		progress |= grid->poll();
	return progress;
}

int64_t next_of_grids()
{
	std::lock_guard<std::mutex> lock(grids().mu);
	int64_t first = INT64_MAX;
	for (const Polled *grid : grids().running)
		first = std::min(first, grid->next());
	return first;
}

void end_polling()
{
	// Who runs a grid looks again, and polls it from here on.
	if (--grids().pollers == 0)
		raise_number(DDLEMU_SIGNALS);
}

} // namespace softexec
