// SPDX-License-Identifier: Apache-2.0

package units

import (
	"strconv"
	"strings"
	"time"
)

// Count is a number before a noun, which gets its plural: "1 node", "2 nodes", "3 switches".
func Count(n int, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "ch"), strings.HasSuffix(noun, "s"):
		noun += "es"
	default:
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// Bit is 1 for true and 0 for false.
func Bit(is bool) int {
	if is {
		return 1
	}
	return 0
}

// Microseconds is d in microseconds, with decimals.
func Microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
