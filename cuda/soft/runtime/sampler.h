// SPDX-License-Identifier: Apache-2.0
// The sampler asks the kernel what the application's threads do outside of our calls.
//
// A thread that has slept for kGrace, while no other thread of the process and none of its children ran, waits for
// something that only an event of the fabric, or real time, can bring about. Its actor is idle then, as long as the
// fabric's number of handovers stays the same: any thread of any rank that begins to wait, or ends, may have woken it,
// by means that we do not see. After each handover the sampler looks again, and says so again only if the thread has
// not run. A thread that becomes idle in this way is a handover too: one that it has woken may lack a core, in any
// process.
#pragma once

#include <cstdint>

namespace soft {

// start_sampler starts it, at the first call. Only with a clock.
void start_sampler();

// real_ns returns CLOCK_MONOTONIC in ns.
int64_t real_ns();

} // namespace soft
