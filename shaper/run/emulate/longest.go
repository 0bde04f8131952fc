// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"math/bits"
	"os"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/cuda/locate"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/run/internal/expected"
)

// longestCall is the time from which on NCCL chooses no algorithm for a call, by its own reckoning: it starts its
// search with the 3600000000 us of minTime (enqueue.cc), fails with ncclInternalError, and asks to report that to its
// developers.
const longestCall = time.Hour

// sample is the size in bytes from which the time of others is calculated. It is large enough for rounding not to
// matter.
const sample = 1 << 30

// margin is how much less than the most that the links could carry is named as a size that NCCL decides on. It reckons
// with less than all links of nodes that have several NICs and no NVLink.
const margin = 8

// checkLongest refuses calls that cannot end on f within longestCall. On a real GPU NCCL decides on calls of at most
// DecideUpTo; sends and receives have no algorithm.
func (o *Options) checkLongest(f *fabric.Fabric) error {
	if o.Libraries.CUDA != locate.Soft || o.Bench.Collective.IsP2P() || len(o.Bench.Sizes) == 0 {
		return nil
	}
	one := o.Bench
	one.Sizes = []int64{sample}
	bound := expected.New(f, o.Node(f), os.Getenv).Bound(one.Cases()[0])
	if bound <= 0 {
		return nil
	}
	most := float64(sample) * float64(longestCall) / float64(bound)
	for _, size := range o.Bench.Sizes {
		if float64(size) > most {
			fits := int64(1) << (bits.Len64(uint64(most/margin)) - 1)
			return configs.Errorf("",
				"%d bytes are too many for this fabric: a call takes over an hour, and NCCL chooses no algorithm for "+
					"what it reckons to take that long: ask for at most %s (-e)",
				size, units.Size(fits))
		}
	}
	return nil
}
