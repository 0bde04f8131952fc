// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ParseSize reads a size as nccl-tests does: a number of bytes, fractions allowed, with K, M or G (in either case) for
// 2^10, 2^20 and 2^30, and here also T. It must be at least 0 and fit 62 bits.
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

// Range is a range of sizes, as nccl-tests' flags -b, -e, -f and -i give it.
type Range struct {
	Begin, End int64 // bytes, both included
	Factor     int64 // above 1: each size is the one before times Factor
	Step       int64 // otherwise each is the one before plus Step bytes
}

// maxSizes bounds a range: with more rows nobody waits for the end.
const maxSizes = 100_000

// Sizes lists the range. The sizes are as asked for: the rounding of [nccl.Collective.Counts] comes later.
func (r Range) Sizes() ([]int64, error) {
	if r.Begin < 0 || r.Begin > r.End {
		return nil, fmt.Errorf("the sizes begin at %d bytes (-b) and end at %d (-e); give an end that is not below the begin", r.Begin, r.End)
	}
	if r.Begin == r.End {
		return []int64{r.Begin}, nil
	}
	if r.Factor < 0 || r.Step < 0 || (r.Factor <= 1 && r.Step == 0) || (r.Factor > 1 && r.Begin == 0) {
		return nil, fmt.Errorf("the sizes from %d to %d bytes do not grow: give a factor (-f) above 1 and a begin above 0, or a step (-i) above 0", r.Begin, r.End)
	}
	var sizes []int64
	for size := r.Begin; size <= r.End; {
		sizes = append(sizes, size)
		if len(sizes) > maxSizes {
			return nil, fmt.Errorf("there are over %d sizes from %d to %d bytes; take a larger step (-i) or a factor (-f)", maxSizes, r.Begin, r.End)
		}
		next := size + r.Step
		if r.Factor > 1 {
			next = size * r.Factor
			if size > r.End/r.Factor {
				break
			}
		}
		if next < size { // past 63 bits
			break
		}
		size = next
	}
	return sizes, nil
}
