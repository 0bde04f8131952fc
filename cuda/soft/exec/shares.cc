// SPDX-License-Identifier: Apache-2.0
//
// How the data of a work is divided among channels.
#include <algorithm>

#include "device.h"

namespace softexec {
namespace {

// Chunk sizes are counted in grains: ncclProtoGrainSize of NCCL.
size_t grain_bytes(Proto p)
{
	switch (p) {
	case kLL:
		return 16;
	case kLL128:
		return 32 * 8 / 16 * 15 * 8; // 32 lanes of 8 words each, 15 of every 16 words are data, 8 bytes a word
	default:
		return 512;
	}
}

int reverse_bits(int v, int nbits)
{
	int r = 0;
	for (int i = 0; i < nbits; i++)
		r |= (v >> i & 1) << (nbits - 1 - i);
	return r;
}

} // namespace

Share channel_share(const CollWork &w, int channel, Proto proto, size_t elt)
{
	size_t per_grain = grain_bytes(proto) / elt;
	long mid_channels = w.channel_hi - w.channel_lo - 1; // -1 if there is one channel; count_mid is 0 then
	Share p;
	p.count = w.count_lo + w.count_mid * static_cast<size_t>(std::max(mid_channels, 0L)) + w.count_hi;
	if (channel == w.channel_lo) {
		p.offset = 0, p.size = w.count_lo, p.chunk = w.grains_lo * per_grain;
	} else if (channel == w.channel_hi) {
		p.offset = p.count - w.count_hi, p.size = w.count_hi, p.chunk = w.grains_hi * per_grain;
	} else {
		p.offset = w.count_lo + static_cast<size_t>(channel - w.channel_lo - 1) * w.count_mid;
		p.size = w.count_mid, p.chunk = w.grains_mid * per_grain;
	}
	return p;
}

bool p2p_share(const Layout &l, const P2pWork &w, int channel, int nshares, size_t bytes, size_t *begin, size_t *end)
{
	if (nshares <= 0)
		return false;
	int index = (channel - w.base) & (w.channels - 1); // the number of channels is a power of two
	if (l.p2p_reverses_bits)
		index = reverse_bits(index, __builtin_popcount(static_cast<unsigned>(w.channels - 1)));
	if (index >= nshares)
		return false;
	size_t n = static_cast<size_t>(nshares), i = static_cast<size_t>(index);
	size_t each = ((bytes + n - 1) / n + 4095) & ~size_t(4095);
	*begin = std::min(i * each, bytes);
	*end = std::min((i + 1) * each, bytes);
	return true;
}

} // namespace softexec
