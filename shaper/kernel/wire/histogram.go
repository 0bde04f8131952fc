// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"sync/atomic"
	"time"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// histogram counts times in ns, in the buckets of the fabric's file. One thread adds. Any thread reads.
type histogram [state.LateBuckets]atomic.Uint32

func (h *histogram) add(ns int64) { h[state.Bucket(ns)].Add(1) }

// quantile returns the upper bound of the bucket that contains quantile q, and the number of times.
func (h *histogram) quantile(q float64) (time.Duration, uint64) {
	total := uint64(0)
	for i := range h {
		total += uint64(h[i].Load())
	}
	seen := uint64(0)
	for i := range h {
		if seen += uint64(h[i].Load()); float64(seen) > q*float64(total) {
			return time.Duration(state.BucketFloor(i + 1)), total
		}
	}
	return 0, total
}
