// SPDX-License-Identifier: Apache-2.0

package input

import (
	"fmt"
	"math"
	"strconv"
)

// Number reads a number that is not negative. AICB computes in Python, which writes 25165824.0 for a quotient. A
// fraction is rounded up.
func Number(text string) (int64, error) {
	const most = 1 << 52 // beyond, a float has no units
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 {
		return n, nil
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && f >= 0 && f <= most {
		return int64(math.Ceil(f)), nil
	}
	return 0, fmt.Errorf("%s: a number is expected", text)
}
