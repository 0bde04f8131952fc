// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"fmt"
	"regexp"
	"strconv"
)

// decimalInt matches a whole number. It excludes octal, hexadecimal and exponent forms,
// which other readers of YAML interpret differently.
var decimalInt = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)

// ParseInt reads a whole number, 0 or more.
func ParseInt(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || !decimalInt.MatchString(s) {
		return 0, fmt.Errorf("%q is not a whole number", s)
	}
	return n, nil
}

// ParseSeed reads a seed, 0 to 2^64-1.
func ParseSeed(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil || !decimalInt.MatchString(s) {
		return 0, fmt.Errorf("%q is not a seed: a whole number from 0 to 18446744073709551615", s)
	}
	return n, nil
}

// ParseTimeScale reads a time scale, 1 to MaxTimeScale, or auto, which is 0.
func ParseTimeScale(s string) (int, error) {
	if s == "auto" {
		return 0, nil
	}
	n, err := ParseInt(s)
	if err != nil || n < 1 || n > MaxTimeScale {
		return 0, fmt.Errorf("%q is not a time scale: must be 1 to %d, or auto", s, MaxTimeScale)
	}
	return n, nil
}

// whole returns ParseInt with the limits low to high in its error; Validate checks them.
func whole(low, high int) func(string) (int, error) {
	return func(s string) (int, error) {
		n, err := ParseInt(s)
		if err != nil {
			return 0, fmt.Errorf("%w: must be %d to %d", err, low, high)
		}
		return n, nil
	}
}

// positive is whole for a field whose 0 means "not given": it refuses 0.
func positive(high int) func(string) (int, error) {
	return func(s string) (int, error) {
		n, err := whole(1, high)(s)
		if err == nil && n == 0 {
			return 0, fmt.Errorf("%q is out of range: must be 1 to %d", s, high)
		}
		return n, err
	}
}

func parseBool(s string) (bool, error) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("%q is not true or false", s)
}

// ParseOnOff reads on or off. It also reads true and false, as a fabric is written.
func ParseOnOff(s string) (bool, error) {
	switch s {
	case "on":
		return true, nil
	case "off":
		return false, nil
	}
	on, err := parseBool(s)
	if err != nil {
		return false, fmt.Errorf("%q is not on or off", s)
	}
	return on, nil
}

func parseFloat(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	return v, nil
}
