// SPDX-License-Identifier: Apache-2.0
// What the relinked NCCL uses of the runtime's memory.
#pragma once

#include <cstddef>

// ddlemuSoftClearHost makes a part of the memory of cudaHostAlloc read as zeros, and returns its whole pages to the
// host. Returns false, and does nothing, if it is other memory.
extern "C" bool ddlemuSoftClearHost(void *pointer, size_t size);
