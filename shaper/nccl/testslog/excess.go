// SPDX-License-Identifier: Apache-2.0

package testslog

import (
	"fmt"
	"time"
)

// Excess is by how much a time exceeds the model with the fixed cost.
type Excess struct {
	Size         int64
	Time, Beyond time.Duration
	Word         Word
}

// The excess of a larger size is the same if it differs by at most excessOff of it, and excessNoise of the time. It
// tells nothing if that is all of it.
const (
	excessOff   = 0.25
	excessNoise = 0.02
	excessSizes = 2 // that must tell the same
)

// SameExcess says which slower times exceed the model by as much as all larger sizes do that can tell: a fixed cost
// explains them. What a slower link takes more grows with the size.
func SameExcess(all []Excess) []bool {
	same := make([]bool, len(all))
	for i, s := range all {
		if s.Word != Slower || s.Beyond <= 0 {
			continue
		}
		sizes, agree := map[int64]bool{}, true
		for _, larger := range all {
			if larger.Size <= s.Size || larger.Word != Slower && larger.Word != AsExpected {
				continue
			}
			off := excessOff*float64(s.Beyond) + excessNoise*float64(larger.Time)
			if off >= float64(s.Beyond) {
				continue
			}
			sizes[larger.Size] = true
			agree = agree && float64((larger.Beyond-s.Beyond).Abs()) <= off
		}
		same[i] = agree && len(sizes) >= excessSizes
	}
	return same
}

// ByFixedCost is the finding of a slower time that a fixed cost explains.
func ByFixedCost(cost time.Duration) Finding {
	us := float64(cost) / float64(time.Microsecond)
	decimals := 0
	if us < 10 {
		decimals = 1
	}
	return Finding{Slower,
		fmt.Sprintf("a fixed cost of about %.*f us would explain it: larger sizes take as much more than the network",
			decimals, us)}
}
