// SPDX-License-Identifier: Apache-2.0
// NCCL's progress thread takes its operations from pools of 2048. It links all elements of a pool when it allocates it,
// which gives each element a page: 8 MB per communicator, of which it mostly uses a few.
#pragma once

#include <cstddef>

namespace shim {

// note_pool is called when the calling thread has allocated n bytes that are zero.
void note_pool(void *pointer, size_t n);

// trim_pool shortens the first pool of the calling thread, when NCCL has linked it: the elements behind the first ones
// are zeros again and have no pages. NCCL then finds the end of the list earlier, and allocates another pool. It does
// nothing if NCCL has used elements behind the first ones, or has not linked them as expected.
void trim_pool();

} // namespace shim
