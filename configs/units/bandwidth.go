// SPDX-License-Identifier: Apache-2.0

package units

import (
	"errors"
	"fmt"
	"strings"
)

// Bandwidth is a rate in bits per second. Zero means that nothing limits the rate; it
// is printed and read as "unlimited".
type Bandwidth uint64

// Bandwidths by SI prefix.
const (
	BitPerSecond Bandwidth = 1
	Kbps                   = 1000 * BitPerSecond
	Mbps                   = 1000 * Kbps
	Gbps                   = 1000 * Mbps
	Tbps                   = 1000 * Gbps
)

// Unlimited is the bandwidth of a link on which serialization takes no time.
const Unlimited Bandwidth = 0

const unlimitedText = "unlimited"

const bandwidthHelp = "write bits per second as 100Gbps, 100G or 25Gbit, bytes per second as 12.5GB/s"

// ParseBandwidth reads a bandwidth: a decimal number, an SI prefix (k, M, G, T)
// and a unit, bits as bps, bit, bit/s or b/s, bytes as B/s or Bps, or the word
// "unlimited". A prefix alone means bits, as people name the rates of links: 400G.
// Where letters tell bits from bytes (b/s, B/s, Bps), their case must be right;
// elsewhere a prefix may be in lower case. It refuses a number without unit, a volume
// such as "gb", zero, and a rate that is not a whole number of bit/s below 2^64.
func ParseBandwidth(s string) (Bandwidth, error) {
	text := strings.TrimSpace(s)
	if strings.EqualFold(text, unlimitedText) {
		return Unlimited, nil
	}
	number, unit := split(text)
	if number == "" {
		return 0, fmt.Errorf("%q is not a bandwidth: %s, or unlimited", s, bandwidthHelp)
	}
	if unit == "" {
		return 0, fmt.Errorf("%q has no unit: %s", s, bandwidthHelp)
	}
	factor, why := bandwidthUnit(unit)
	if factor == 0 {
		return 0, fmt.Errorf("%q %s: %s", s, why, bandwidthHelp)
	}
	n, err := scale(number, factor)
	switch {
	case errors.Is(err, errInexact):
		return 0, fmt.Errorf("%q is not a whole number of bits per second", s)
	case errors.Is(err, errOverflow):
		return 0, fmt.Errorf("%q is beyond 64 bits", s)
	case err != nil:
		return 0, fmt.Errorf("%q is not a bandwidth: %s", s, bandwidthHelp)
	case n == 0:
		return 0, fmt.Errorf("%q is zero: a bandwidth must be above zero, or unlimited", s)
	}
	return Bandwidth(n), nil
}

// bandwidthUnit is the number of bit/s in one unit, or 0 and the mistake.
func bandwidthUnit(unit string) (factor uint64, why string) {
	prefixed := func(suffix string) (uint64, bool) {
		p, ok := strings.CutSuffix(unit, suffix)
		f := prefixFactor(p)
		return f, ok && f != 0 && p == canonicalPrefix(p)
	}
	// The letter's case decides between bits and bytes, so all must be exact.
	for _, suffix := range []string{"b/s", "bps"} {
		if f, ok := prefixed(suffix); ok {
			return f, ""
		}
	}
	for _, suffix := range []string{"B/s", "Bps"} {
		if f, ok := prefixed(suffix); ok {
			return 8 * f, ""
		}
	}
	// These units always mean bits, so their case does not matter.
	lower := strings.ToLower(unit)
	for _, suffix := range []string{"bits/s", "bit/s", "bits", "bit"} {
		if p, ok := strings.CutSuffix(lower, suffix); ok && prefixFactor(p) != 0 {
			return prefixFactor(p), ""
		}
	}
	if p, ok := strings.CutSuffix(unit, "bps"); ok && unit == lower && prefixFactor(p) != 0 {
		return prefixFactor(p), ""
	}
	for _, suffix := range []string{"b/s", "bps", "b"} {
		if p, ok := strings.CutSuffix(lower, suffix); ok && prefixFactor(p) != 0 {
			return 0, "is ambiguous between bits and bytes"
		}
	}
	if f, ok := prefixed(""); ok {
		return f, ""
	}
	return 0, fmt.Sprintf("has the unknown unit %q", unit)
}

func prefixFactor(p string) uint64 {
	switch strings.ToLower(p) {
	case "":
		return 1
	case "k":
		return 1e3
	case "m":
		return 1e6
	case "g":
		return 1e9
	case "t":
		return 1e12
	}
	return 0
}

// canonicalPrefix is p as SI writes it; K is as common as k and passes.
func canonicalPrefix(p string) string {
	if p == "k" {
		return p
	}
	return strings.ToUpper(p)
}

// String is the bandwidth in the largest unit that is not above it, exactly.
func (b Bandwidth) String() string {
	switch {
	case b == Unlimited:
		return unlimitedText
	case b >= Tbps:
		return decimal(uint64(b), uint64(Tbps)) + "Tbps"
	case b >= Gbps:
		return decimal(uint64(b), uint64(Gbps)) + "Gbps"
	case b >= Mbps:
		return decimal(uint64(b), uint64(Mbps)) + "Mbps"
	case b >= Kbps:
		return decimal(uint64(b), uint64(Kbps)) + "kbps"
	}
	return decimal(uint64(b), 1) + "bps"
}

// MarshalText is String.
func (b Bandwidth) MarshalText() ([]byte, error) { return []byte(b.String()), nil }
