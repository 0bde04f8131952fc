// SPDX-License-Identifier: Apache-2.0
#include "clock.h"

#include <cstdio>
#include <cstdlib>

namespace softexec {

std::atomic<const ddlemu_clock_calls *> clock_table{ nullptr };

namespace {

struct ThreadActor {
	ddlemu_actor *actor = nullptr;
	~ThreadActor()
	{
		if (actor)
			virtual_clock()->leave(actor);
	}
};

thread_local ThreadActor mine;

} // namespace

ddlemu_actor *enter_actor(const char *name)
{
	ddlemu_actor *actor = virtual_clock()->enter(name);
	if (!actor) {
		// Without an actor the clock would move while the thread works: wrong times, and nobody would notice.
		std::fprintf(stderr, "ddlemu: software CUDA: too many threads for a fabric with a virtual clock\n");
		std::abort();
	}
	return actor;
}

ddlemu_actor *thread_actor(const char *name)
{
	if (!mine.actor)
		mine.actor = enter_actor(name);
	return mine.actor;
}

void adopt_actor(ddlemu_actor *actor) { mine.actor = actor; }

} // namespace softexec
