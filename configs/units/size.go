// SPDX-License-Identifier: Apache-2.0

package units

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Size is a number of bytes, 0 or more.
type Size int64

// Sizes by binary prefix.
const (
	Byte Size = 1
	KiB       = 1024 * Byte
	MiB       = 1024 * KiB
	GiB       = 1024 * MiB
	TiB       = 1024 * GiB
)

const sizeHelp = "write bytes as 4096, 64K, 4M or 1G, in powers of 1024"

// ParseSize reads a size as nccl-tests does: bytes, or with K, M, G or T powers
// of 1024 of them, in either case. It also reads KiB, MiB, GiB, TiB and B. It refuses
// KB, MB and so on, which mean powers of 1000 to some people and of 1024 to others, and
// a size that is not a whole number of bytes below 2^63.
func ParseSize(s string) (Size, error) {
	number, unit := split(strings.TrimSpace(s))
	factor := uint64(0)
	switch unit {
	case "", "B":
		factor = uint64(Byte)
	case "K", "k", "KiB":
		factor = uint64(KiB)
	case "M", "m", "MiB":
		factor = uint64(MiB)
	case "G", "g", "GiB":
		factor = uint64(GiB)
	case "T", "t", "TiB":
		factor = uint64(TiB)
	}
	if number == "" {
		return 0, fmt.Errorf("%q is not a size: %s", s, sizeHelp)
	}
	if factor == 0 {
		return 0, fmt.Errorf("%q has the unknown unit %q: %s", s, unit, sizeHelp)
	}
	n, err := scale(number, factor)
	switch {
	case errors.Is(err, errInexact):
		return 0, fmt.Errorf("%q is not a whole number of bytes", s)
	case errors.Is(err, errOverflow) || n > math.MaxInt64:
		return 0, fmt.Errorf("%q is beyond 63 bits", s)
	case err != nil:
		return 0, fmt.Errorf("%q is not a size: %s", s, sizeHelp)
	}
	return Size(n), nil
}

// String is the size as a whole number of the largest unit possible.
func (z Size) String() string {
	for _, u := range []struct {
		size   Size
		suffix string
	}{{TiB, "T"}, {GiB, "G"}, {MiB, "M"}, {KiB, "K"}} {
		if z != 0 && z%u.size == 0 {
			return fmt.Sprintf("%d%s", z/u.size, u.suffix)
		}
	}
	return fmt.Sprint(int64(z))
}

// MarshalText is String.
func (z Size) MarshalText() ([]byte, error) { return []byte(z.String()), nil }
