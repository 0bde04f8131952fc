// SPDX-License-Identifier: Apache-2.0
//
// LL128: lines of 128 bytes, of which 120 are data and the last 8 are a flag, sent in groups of 16 lines. The flag is
// stored after the data. A GPU stores the data of a group in an order that suits its threads; here it is in order. That
// is correct because both ends of a connection are this executor and nothing between them reads the data.
#include "prims_lines.h"

namespace softexec {
namespace {

struct LL128Line {
	static constexpr Proto kProto = kLL128;
	static constexpr bool kFlagMayBeEarly = true;
	static constexpr size_t kData = 120, kBytes = 128, kGroupLines = 16, kGroupData = kGroupLines * kData;

	static uint64_t flag(uint64_t step) { return step + 1; }
	static size_t message_bytes(size_t lines, uint64_t, size_t) { return lines * kBytes; }

	static size_t unpack(const char *step_begin, uint64_t step, size_t n, char *data)
	{
		for (size_t i = 0; i < n; i++) {
			const char *line = step_begin + i * kBytes;
			if (load_acquire(reinterpret_cast<const uint64_t *>(line + kData)) != flag(step))
				return i;
			std::memcpy(data + i * kData, line, kData);
		}
		return n;
	}

	static void pack(char *step_begin, uint64_t step, size_t n, const char *data)
	{
		for (size_t i = 0; i < n; i++) {
			char *line = step_begin + i * kBytes;
			std::memcpy(line, data + i * kData, kData);
			store_release(reinterpret_cast<uint64_t *>(line + kData), flag(step));
		}
	}

	// A proxy also waits for the tail counter. A peer polls the lines only.
	static void end_step(Conn &c, char *, size_t, size_t)
	{
		if (c.has_fifo()) {
			c.post_send(1);
		} else {
			c.step++;
		}
	}
};

} // namespace

std::unique_ptr<Runner> make_ll128(RunnerSpec spec) { return std::make_unique<LineRunner<LL128Line>>(std::move(spec)); }

} // namespace softexec
