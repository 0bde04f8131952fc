// SPDX-License-Identifier: Apache-2.0
//
// The limits and the classes by which the verdict judges how late messages are. The plugin, the wire and the eBPF
// programs share them.
#ifndef DDLEMU_STATE_LIMITS_H
#define DDLEMU_STATE_LIMITS_H

#ifndef __bpf__
#include <stdbool.h>
#include <stdint.h>
#endif

#define DDLEMU_SIZE_CLASSES 4 // up to 4 KiB, 64 KiB, 1 MiB, and larger
#define DDLEMU_LATE_BUCKETS 128
// Limits of the verdict on a message's lateness: a floor in scaled ns, and a divisor of the message's own time.
#define DDLEMU_P50_FLOOR 1000
#define DDLEMU_P50_PART 50
#define DDLEMU_P99_FLOOR 5000
#define DDLEMU_P99_PART 20

// exceeds says whether a lateness is above a limit. time is the message's own, at least 0.
static inline __attribute__((always_inline)) bool exceeds(int64_t late, int64_t time, int64_t floor, uint64_t part)
{
	return late > floor && (uint64_t)late > (uint64_t)time / part;
}

// lateness_bucket is the bucket of a histogram: HDR-style, two bits of mantissa per power of two, the last one open.
// Buckets 0 to 7 hold 0 to 7 ns.
static inline __attribute__((always_inline)) int lateness_bucket(int64_t late)
{
	if (late < 8)
		return late < 0 ? 0 : (int)late;
	int e = 63 - __builtin_clzll((uint64_t)late);
	int b = (e - 1) * 4 + (int)(late >> (e - 2) & 3);
	return b < DDLEMU_LATE_BUCKETS ? b : DDLEMU_LATE_BUCKETS - 1;
}

#endif
