// SPDX-License-Identifier: Apache-2.0

package state

// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra -Werror
// #include "lateness.h"
import "C"

import "unsafe"

// A message exceeds a limit of the verdict if its lateness is above the limit's floor, in
// scaled ns, and above the message's own time divided by P50Part or P99Part.
const (
	P50FloorNs = C.DDLEMU_P50_FLOOR
	P50Part    = C.DDLEMU_P50_PART
	P99FloorNs = C.DDLEMU_P99_FLOOR
	P99Part    = C.DDLEMU_P99_PART
)

// CountDelivery counts one message of size bytes, which was posted, due and visible at these times
// in ns, as the plugin counts a message of NCCL.
func (c *LinkStats) CountDelivery(size uint64, posted, due, visible int64, timeScale int64) {
	d := C.struct_ddlemu_delivery{
		size: C.uint64_t(size), posted: C.int64_t(posted), receive_posted: C.int64_t(posted), due: C.int64_t(due),
		visible: C.int64_t(visible),
	}
	C.count_delivery((*C.struct_ddlemu_link_stats)(unsafe.Pointer(c)), &d, C.int64_t(timeScale))
}

// Quantile is an upper bound of the lateness of the given part of the messages in a histogram, whose largest lateness
// is at most most. ok is false if there is no message.
func Quantile(late *[LateBuckets]uint32, part float64, most int64) (ns int64, ok bool) {
	all, seen := uint64(0), uint64(0)
	for _, n := range late {
		all += uint64(n)
	}
	for b, n := range late {
		if seen += uint64(n); n == 0 || float64(seen) < part*float64(all) {
			continue
		}
		if b == LateBuckets-1 {
			return most, true // the last bucket has no upper edge
		}
		return min(BucketFloor(b+1)-1, most), true
	}
	return 0, false
}

// Bucket is the bucket of a lateness in ns: HDR-style, two bits of mantissa per power of
// two, the last one open. Buckets 0 to 7 hold 0 to 7 ns.
func Bucket(late int64) int { return int(C.lateness_bucket(C.int64_t(late))) }
