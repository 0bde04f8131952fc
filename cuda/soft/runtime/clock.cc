// SPDX-License-Identifier: Apache-2.0
#include "clock.h"

#include "../exec/polled.h"
#include "error.h"
#include "stream.h"

using namespace soft;

SOFT_API const struct ddlemu_clock_calls *ddlemuSoftClock(void) { return softexec::virtual_clock(); }

SOFT_API struct ddlemu_actor *ddlemuSoftEnter(const char *name) { return softexec::enter_actor(name); }

SOFT_API void ddlemuSoftAdopt(struct ddlemu_actor *actor) { softexec::adopt_actor(actor); }

SOFT_API void ddlemuSoftBeginPolling(void) { softexec::begin_polling(); }

SOFT_API int ddlemuSoftPoll(void) { return softexec::poll_grids(); }

SOFT_API int64_t ddlemuSoftNext(void) { return softexec::next_of_grids(); }

SOFT_API void ddlemuSoftEndPolling(void) { softexec::end_polling(); }

SOFT_API int64_t ddlemuSoftNow(void) { return now_ns(); }
