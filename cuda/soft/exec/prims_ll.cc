// SPDX-License-Identifier: Apache-2.0
//
// LL: lines of 16 bytes. Each half of a line has 4 bytes of data and a 4-byte flag, and is stored by one instruction. A
// receiver that sees the flag therefore also sees the data.
#include "prims_lines.h"

namespace softexec {
namespace {

struct LLLine {
	static constexpr Proto kProto = kLL;
	static constexpr bool kFlagMayBeEarly = false; // it is in the same word as its data
	static constexpr size_t kData = 8, kBytes = 16, kGroupLines = 1, kGroupData = 8;

	// A flag is the low 32 bits of the step and repeats after 2^32 steps. Before that, whole buffers are written,
	// so that no old flag remains (NCCL_LL_CLEAN_MASK).
	static constexpr uint64_t kCleanMask = 0x7ffffff8;
	static bool is_cleaning_step(uint64_t step) { return (step & kCleanMask) == kCleanMask; }

	static uint32_t flag(uint64_t step) { return static_cast<uint32_t>(step + 1); }

	static size_t message_bytes(size_t lines, uint64_t step, size_t step_bytes)
	{
		return is_cleaning_step(step) ? step_bytes : lines * kBytes;
	}

	static size_t unpack(const char *step_begin, uint64_t step, size_t n, char *data)
	{
		const uint64_t *w = reinterpret_cast<const uint64_t *>(step_begin);
		const uint64_t f = flag(step);
		for (size_t i = 0; i < n; i++) {
			uint64_t lo = __atomic_load_n(w + 2 * i, __ATOMIC_RELAXED),
				 hi = __atomic_load_n(w + 2 * i + 1, __ATOMIC_RELAXED);
			if (lo >> 32 != f || hi >> 32 != f)
				return i;
			uint64_t v = (lo & 0xffffffff) | hi << 32;
			std::memcpy(data + 8 * i, &v, 8);
		}
		return n;
	}

	static void pack(char *step_begin, uint64_t step, size_t n, const char *data)
	{
		uint64_t *w = reinterpret_cast<uint64_t *>(step_begin);
		const uint64_t f = uint64_t(flag(step)) << 32;
		for (size_t i = 0; i < n; i++) {
			uint64_t v;
			std::memcpy(&v, data + 8 * i, 8);
			__atomic_store_n(w + 2 * i, (v & 0xffffffff) | f, __ATOMIC_RELAXED);
			__atomic_store_n(w + 2 * i + 1, v >> 32 | f, __ATOMIC_RELAXED);
		}
	}

	// The flags alone tell the receiver; there is no counter to advance.
	static void end_step(Conn &c, char *step_begin, size_t lines, size_t step_bytes)
	{
		if (is_cleaning_step(c.step)) {
			const char zero[kData] = {};
			for (size_t i = lines; i < step_bytes / kBytes; i++)
				pack(step_begin + i * kBytes, c.step, 1, zero);
		}
		c.step++;
	}
};

} // namespace

std::unique_ptr<Runner> make_ll(RunnerSpec spec) { return std::make_unique<LineRunner<LLLine>>(std::move(spec)); }

} // namespace softexec
