// SPDX-License-Identifier: Apache-2.0

// Package units reads and prints the quantities of ddlemu's command line and
// files: bandwidths in bits per second with SI prefixes, and sizes in bytes as
// nccl-tests writes them. The arithmetic is in integers and exact: a text that
// does not denote a whole number of bits per second or bytes is refused, and
// what String prints reads back as the same value.
//
// Times are Go durations.
package units

import (
	"errors"
	"fmt"
	"math/bits"
	"strings"
)

var (
	errOverflow = errors.New("too large")
	errInexact  = errors.New("not a whole number")
	errNumber   = errors.New("not a decimal number")
)

// split cuts s into its number, digits and points, and its unit. Blanks between the
// two are removed.
func split(s string) (number, unit string) {
	end := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end < 0 {
		return s, ""
	}
	number, unit = s[:end], s[end:]
	if number != "" {
		unit = strings.TrimLeft(unit, " ")
	}
	return number, unit
}

// scale is number times unit.
func scale(number string, unit uint64) (uint64, error) {
	whole, fraction, point := strings.Cut(number, ".")
	if whole == "" || point && fraction == "" || strings.Contains(fraction, ".") {
		return 0, errNumber
	}
	fraction = strings.TrimRight(fraction, "0")
	mantissa, err := digits(whole + fraction)
	if err != nil {
		return 0, err
	}
	divisor := uint64(1)
	for range fraction {
		hi, lo := bits.Mul64(divisor, 10)
		if hi != 0 {
			return 0, errInexact
		}
		divisor = lo
	}
	hi, lo := bits.Mul64(mantissa, unit)
	if hi >= divisor {
		return 0, errOverflow
	}
	quotient, remainder := bits.Div64(hi, lo, divisor)
	if remainder != 0 {
		return 0, errInexact
	}
	return quotient, nil
}

func digits(s string) (uint64, error) {
	n := uint64(0)
	for _, c := range []byte(s) {
		hi, lo := bits.Mul64(n, 10)
		sum, carry := bits.Add64(lo, uint64(c-'0'), 0)
		if hi != 0 || carry != 0 {
			return 0, errOverflow
		}
		n = sum
	}
	return n, nil
}

// decimal is n/unit as an exact decimal number; unit is a power of ten.
func decimal(n, unit uint64) string {
	s := fmt.Sprint(n / unit)
	if rest := n % unit; rest != 0 {
		width := len(fmt.Sprint(unit)) - 1
		s += "." + strings.TrimRight(fmt.Sprintf("%0*d", width, rest), "0")
	}
	return s
}
