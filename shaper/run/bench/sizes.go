// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseSize reads a size as nccl-tests does: bytes, fractions allowed, with K, M or G (in either case) for 2^10, 2^20
// and 2^30. T is allowed too. The size must be at least 0 and less than 2^62.
func ParseSize(text string) (int64, error) {
	digits, unit := text, 1.0
	if n := len(text); n > 0 {
		if power := strings.IndexByte("KMGT", text[n-1]&^0x20); power >= 0 && text[n-1] > '9' {
			digits, unit = text[:n-1], math.Ldexp(1, 10*(power+1))
		}
	}
	value, err := strconv.ParseFloat(digits, 64)
	if err != nil || strings.ContainsAny(digits, "xXpP_iInN+") || value < 0 || value*unit >= 1<<62 {
		return 0, fmt.Errorf("%q is no size: write bytes, or a number with K, M or G (8, 64K, 1G)", text)
	}
	return int64(value * unit), nil
}

// Range is a range of sizes, as nccl-tests' flags -b, -e, -f and -i describe it.
type Range struct {
	Begin, End int64 // bytes, inclusive
	Factor     int64 // if above 1, the factor from one size to the next
	Step       int64 // otherwise the bytes from one size to the next
}

// maxSizes is the maximum number of sizes.
const maxSizes = 100_000

// Sizes returns the sizes of the range, before the rounding of [nccl.Collective.Counts].
func (r Range) Sizes() ([]int64, error) {
	if r.Begin < 0 || r.Begin > r.End {
		return nil, fmt.Errorf(
			"the sizes begin at %d bytes (-b) and end at %d (-e); give an end that is not below the begin",
			r.Begin, r.End)
	}
	if r.Begin == r.End {
		return []int64{r.Begin}, nil
	}
	if r.Factor < 0 || r.Step < 0 || (r.Factor <= 1 && r.Step == 0) || (r.Factor > 1 && r.Begin == 0) {
		return nil, fmt.Errorf(
			"the sizes from %d to %d bytes do not grow: give a factor (-f) above 1 and a begin above 0, or a step "+
				"(-i) above 0", r.Begin, r.End)
	}
	var sizes []int64
	for size := r.Begin; size <= r.End; {
		sizes = append(sizes, size)
		if len(sizes) > maxSizes {
			return nil, fmt.Errorf(
				"there are over %d sizes from %d to %d bytes; take a larger step (-i) or a factor (-f)",
				maxSizes, r.Begin, r.End)
		}
		next := size + r.Step
		if r.Factor > 1 {
			next = size * r.Factor
			if size > r.End/r.Factor {
				break
			}
		}
		if next < size { // overflow
			break
		}
		size = next
	}
	return sizes, nil
}
