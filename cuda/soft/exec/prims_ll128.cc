// SPDX-License-Identifier: Apache-2.0
//
// LL128: lines of 128 bytes, 120 of data and an 8-byte flag at the end, sent in groups of 16 lines. The flag is stored
// after the data. A GPU permutes the data within a group, as its threads happen to hold it; here it lies in order. Both
// ends of a connection are always this executor, and nothing in between looks at the data.
#include "prims_lines.h"

namespace softexec {
namespace {

struct LL128Line {
	static constexpr Proto kProto = kLL128;
	static constexpr size_t kData = 120, kWire = 128, kGroupLines = 16, kGroupData = kGroupLines * kData;

	static uint64_t flag(uint64_t step) { return step + 1; }
	static size_t wire_bytes(size_t lines, uint64_t, size_t) { return lines * kWire; }

	static size_t unpack(const char *wire, uint64_t step, size_t n, char *data)
	{
		for (size_t i = 0; i < n; i++) {
			const char *line = wire + i * kWire;
			if (load_acquire(reinterpret_cast<const uint64_t *>(line + kData)) != flag(step))
				return i;
			std::memcpy(data + i * kData, line, kData);
		}
		return n;
	}

	static void pack(char *wire, uint64_t step, size_t n, const char *data)
	{
		for (size_t i = 0; i < n; i++) {
			char *line = wire + i * kWire;
			std::memcpy(line, data + i * kData, kData);
			store_release(reinterpret_cast<uint64_t *>(line + kData), flag(step));
		}
	}

	// A proxy also waits for the counter; a peer that polls the lines has none to wait for.
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

std::unique_ptr<Engine> make_ll128(Job job) { return std::make_unique<LinePrims<LL128Line>>(std::move(job)); }

} // namespace softexec
