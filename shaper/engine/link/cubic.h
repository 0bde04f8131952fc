// SPDX-License-Identifier: Apache-2.0
//
// The curve of CUBIC (RFC 9438, 4.2). Windows are in 2^-10 bytes, times in 1/1024 seconds.
#ifndef DDLEMU_LINK_CUBIC_H
#define DDLEMU_LINK_CUBIC_H

#include <stdint.h>

// The time for which the curve is followed to either side of K: 128 s, or 840,000 packets.
#define MAX_CUBIC_TIME (1 << 17)

// cube_root is the integer part of the cube root (Warren, Hacker's Delight, 11-2).
static inline uint64_t cube_root(uint64_t x)
{
	uint64_t y = 0;
	for (int s = 63; s >= 0; s -= 3) {
		y *= 2;
		uint64_t b = 3 * y * (y + 1) + 1;
		if (x >> s >= b) {
			x -= b << s;
			y++;
		}
	}
	return y;
}

// cubic_k is K: K^3 = (W_max - cwnd) / C, with C = 0.4 packets per second^3.
static inline int64_t cubic_k(uint64_t w_max, uint64_t cwnd, uint64_t packet)
{
	return (int64_t)cube_root(((w_max - cwnd) * 5 << 19) / packet);
}

// w_cubic is W_cubic, t after K.
static inline uint64_t w_cubic(uint64_t w_max, int64_t t, uint64_t packet)
{
	uint64_t u = (uint64_t)(t < 0 ? -t : t);
	if (u > MAX_CUBIC_TIME)
		u = MAX_CUBIC_TIME;
	uint64_t d = ((u * u * u >> 10) * packet * 2 / 5) >> 10;
	if (t < 0)
		return d < w_max ? w_max - d : 0;
	return w_max + d;
}

#endif
