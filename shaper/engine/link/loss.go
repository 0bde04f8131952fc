// SPDX-License-Identifier: Apache-2.0

package link

// #include "arith.h"
import "C"

import (
	"fmt"
	"math"
	"unsafe"
)

// Loss describes the packet loss of a hop. P is the probability of a packet's
// loss in the good state. With BadP = 0 and GoodToBad = 0 that is Bernoulli
// loss; otherwise it is the Gilbert-Elliott chain, stepped once per packet.
type Loss struct {
	P         float64 // loss in the good state, 0 to 1
	BadP      float64 // loss in the bad state
	GoodToBad float64 // transition probability per packet
	BadToGood float64
}

// LossParams is Loss as thresholds: an event of probability p happens when a
// 64-bit draw is below p*2^64 (saturated).
type LossParams struct {
	P, BadP, GoodToBad, BadToGood uint64
}

func (l Loss) params() (LossParams, error) {
	for _, v := range []float64{l.P, l.BadP, l.GoodToBad, l.BadToGood} {
		if !(v >= 0 && v <= 1) {
			return LossParams{}, fmt.Errorf("loss probability %v: must be 0 to 1", v)
		}
	}
	return LossParams{threshold(l.P), threshold(l.BadP), threshold(l.GoodToBad), threshold(l.BadToGood)}, nil
}

func threshold(p float64) uint64 {
	t := math.Ldexp(p, 64)
	if t >= math.Ldexp(1, 64) {
		return math.MaxUint64
	}
	return uint64(t)
}

// Any says whether a packet can be lost at all.
func (l *LossParams) Any() bool { return l.P|l.GoodToBad != 0 }

// Lost draws whether a packet of a flow is lost on a hop. counter names the packet; bad is
// the state of the Gilbert-Elliott chain of the flow on the hop.
func (l *LossParams) Lost(seed uint64, hop uint32, flow, counter uint64, bad *bool) bool {
	return bool(C.loses((*C.struct_ddlemu_loss)(unsafe.Pointer(l)), C.uint64_t(seed), C.uint32_t(hop), C.uint64_t(flow),
		C.uint64_t(counter), (*C.bool)(unsafe.Pointer(bad))))
}
