// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace shim {

constexpr size_t kPage = 4096;

// The whole pages of a range of memory.
struct Pages {
	uintptr_t first, last;

	Pages(const void *pointer, size_t n)
		: first((reinterpret_cast<uintptr_t>(pointer) + kPage - 1) / kPage * kPage),
		  last((reinterpret_cast<uintptr_t>(pointer) + n) / kPage * kPage)
	{
	}
	// give_back makes private memory read as zeros, and returns its pages to the host.
	bool give_back() const { return madvise(reinterpret_cast<void *>(first), last - first, MADV_DONTNEED) == 0; }
};

} // namespace shim
