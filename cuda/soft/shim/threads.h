// SPDX-License-Identifier: Apache-2.0
// The threads that NCCL starts.
#pragma once

namespace shim {

// wake_descriptor returns a descriptor that becomes readable when another thread waits for the end of the calling one.
// -1: NCCL has not started the calling thread, or there is no descriptor left.
int wake_descriptor();

} // namespace shim
