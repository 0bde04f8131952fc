// SPDX-License-Identifier: Apache-2.0
// Linked into NCCL.
#include "pool.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "args.h"
#include "pages.h"

namespace shim {
namespace {

// A pool is a pointer and its elements.
constexpr size_t kElements = 2048, kPool = sizeof(void *) + kElements * kArgs;
constexpr size_t kKept = 64; // elements
constexpr size_t kUsed = 256; // of this many bytes before idle, NCCL sets some when it uses an element

thread_local char *linking = nullptr; // the elements of the pool that this thread links
thread_local bool has_pool = false; // who needs more than one pool uses all elements

bool is_zero(const char *begin, const char *end)
{
	return std::all_of(begin, end, [](char c) { return c == 0; });
}

// is_free returns true if an element is linked to the one behind it, and was never used.
bool is_free(const char *element, bool is_last)
{
	const char *next;
	memcpy(&next, element + kNext, sizeof next);
	return next == (is_last ? nullptr : element + kArgs) && is_zero(element + kIdle - kUsed, element + kNext) &&
		is_zero(element + kNext + sizeof next, element + kArgs);
}

} // namespace

void note_pool(void *pointer, size_t n)
{
	if (n != kPool || has_pool)
		return;
	linking = static_cast<char *>(pointer) + sizeof(void *);
	has_pool = true;
}

void trim_pool()
{
	if (!linking)
		return;
	const char *elements = linking;
	linking = nullptr;
	for (size_t i = kKept; i < kElements; i++)
		if (!is_free(elements + i * kArgs, i == kElements - 1))
			return;
	Pages(elements + kKept * kArgs, (kElements - kKept) * kArgs).give_back();
}

} // namespace shim
