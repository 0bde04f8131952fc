// SPDX-License-Identifier: Apache-2.0
#include "clock.h"

#include "error.h"
#include "stream.h"

namespace soft {
namespace {

std::atomic<bool> has_exact{ false };
thread_local bool is_exact = false;

} // namespace
} // namespace soft

using namespace soft;

SOFT_API int ddlemuSoftSetClock(const struct ddlemu_clock_calls *calls)
{
	const ddlemu_clock_calls *none = nullptr;
	if (calls->version != DDLEMU_CLOCK_CALLS_VERSION || !softexec::clock_table.compare_exchange_strong(none, calls))
		return -1;
	Stream::workers_join_clock();
	return 0;
}

SOFT_API const struct ddlemu_clock_calls *ddlemuSoftClock(void) { return softexec::virtual_clock(); }

SOFT_API struct ddlemu_actor *ddlemuSoftEnter(const char *name) { return softexec::enter_actor(name); }

SOFT_API int ddlemuSoftExact(void)
{
	bool no = false;
	if (!is_exact && !has_exact.compare_exchange_strong(no, true))
		return -1;
	is_exact = true;
	return 0;
}

SOFT_API int ddlemuSoftHasExact(void) { return has_exact; }

SOFT_API struct ddlemu_actor *ddlemuSoftApplication(void)
{
	const ddlemu_clock_calls *clock = softexec::virtual_clock();
	return clock && is_exact ? clock->application() : nullptr;
}

SOFT_API int64_t ddlemuSoftNow(void) { return now_ns(); }

SOFT_API int ddlemuSoftSettle(void)
{
	ddlemu_actor *application = ddlemuSoftApplication();
	if (!application)
		return -1;
	softexec::virtual_clock()->settle(application);
	return 0;
}
