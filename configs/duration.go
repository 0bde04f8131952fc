// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"time"
)

// ParseDuration reads a Go duration, 0 or more. It refuses fractions of a nanosecond, the unit of the model.
func ParseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") {
		return 0, fmt.Errorf("%q is not a duration: write 5us, 1.2ms or 3s", s)
	}
	if exactNs(s).Cmp(new(big.Rat).SetInt64(int64(d))) != 0 {
		return 0, fmt.Errorf("%q is not a whole number of nanoseconds, the smallest unit", s)
	}
	return d, nil
}

var durationPart = regexp.MustCompile(`([0-9.]+)([a-zµμ]+)`)

// exactNs returns the nanoseconds of a text that time.ParseDuration accepts.
func exactNs(s string) *big.Rat {
	sum := new(big.Rat)
	for _, part := range durationPart.FindAllStringSubmatch(s, -1) {
		unit, _ := time.ParseDuration("1" + part[2])
		if number, ok := new(big.Rat).SetString("0" + part[1]); ok {
			sum.Add(sum, number.Mul(number, new(big.Rat).SetInt64(int64(unit))))
		}
	}
	return sum
}
