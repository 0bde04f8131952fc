// SPDX-License-Identifier: Apache-2.0
//
// LL: lines of 16 bytes, two halves of 4 bytes of data followed by a 4-byte flag. Each half is stored at once, so a
// flag can't be seen without its data.
#include "prims_lines.h"

namespace softexec {
namespace {

struct LLLine {
	static constexpr Proto kProto = kLL;
	static constexpr size_t kData = 8, kWire = 16, kGroupLines = 1, kGroupData = 8;

	// Flags are 32 bits of the step and would repeat; so once in 2^31 steps whole buffers are written, to leave no
	// flag of an old round.
	static constexpr uint64_t kCleanMask = 0x7ffffff8;
	static bool cleans(uint64_t step) { return (step & kCleanMask) == kCleanMask; }

	static uint32_t flag(uint64_t step) { return static_cast<uint32_t>(step + 1); }

	static size_t wire_bytes(size_t lines, uint64_t step, size_t step_bytes)
	{
		return cleans(step) ? step_bytes : lines * kWire;
	}

	static size_t unpack(const char *wire, uint64_t step, size_t n, char *data)
	{
		const uint64_t *w = reinterpret_cast<const uint64_t *>(wire);
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

	static void pack(char *wire, uint64_t step, size_t n, const char *data)
	{
		uint64_t *w = reinterpret_cast<uint64_t *>(wire);
		const uint64_t f = uint64_t(flag(step)) << 32;
		for (size_t i = 0; i < n; i++) {
			uint64_t v;
			std::memcpy(&v, data + 8 * i, 8);
			__atomic_store_n(w + 2 * i, (v & 0xffffffff) | f, __ATOMIC_RELAXED);
			__atomic_store_n(w + 2 * i + 1, v >> 32 | f, __ATOMIC_RELAXED);
		}
	}

	// The receiver is told by the lines alone.
	static void end_step(Conn &c, char *wire, size_t lines, size_t step_bytes)
	{
		if (cleans(c.step)) {
			const char zero[kData] = {};
			for (size_t i = lines; i < step_bytes / kWire; i++)
				pack(wire + i * kWire, c.step, 1, zero);
		}
		c.step++;
	}
};

} // namespace

std::unique_ptr<Engine> make_ll(Job job) { return std::make_unique<LinePrims<LLLine>>(std::move(job)); }

} // namespace softexec
