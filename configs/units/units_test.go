// SPDX-License-Identifier: Apache-2.0

package units

import (
	"encoding"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var (
	_ encoding.TextMarshaler = Bandwidth(0)
	_ encoding.TextMarshaler = Size(0)
)

func TestParseBandwidth(t *testing.T) {
	for text, want := range map[string]Bandwidth{
		"100Gbps":                 100 * Gbps,
		"100gbps":                 100 * Gbps,
		"400G":                    400 * Gbps,
		"1.5 T":                   1500 * Gbps,
		"10k":                     10 * Kbps,
		"10M":                     10 * Mbps,
		"25Gbit":                  25 * Gbps,
		"100gbit":                 100 * Gbps,
		"10 Gbit/s":               10 * Gbps,
		"10 gbits/s":              10 * Gbps,
		"400Gb/s":                 400 * Gbps,
		"100 Gb/s":                100 * Gbps,
		"1.6Tbps":                 1600 * Gbps,
		"12.5GB/s":                100 * Gbps,
		"12.5GBps":                100 * Gbps,
		"2.50 Mbit":               2500 * Kbps,
		"9600bps":                 9600,
		"1kbps":                   1000,
		"1Kb/s":                   1000,
		"1B/s":                    8,
		"0.125B/s":                1,
		" 5Mbps ":                 5 * Mbps,
		"unlimited":               Unlimited,
		"18446744073709551615bps": math.MaxUint64,
	} {
		got, err := ParseBandwidth(text)
		if err != nil || got != want {
			t.Errorf("ParseBandwidth(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
}

func TestParseBandwidthRefuses(t *testing.T) {
	for text, why := range map[string]string{
		"":                           "not a bandwidth",
		"Gbps":                       "not a bandwidth",
		"100":                        "no unit",
		"100g":                       "unknown unit",
		"100m":                       "unknown unit",
		"100P":                       "unknown unit",
		"10gb":                       "ambiguous",
		"10Gb":                       "ambiguous",
		"10GB":                       "ambiguous",
		"10gb/s":                     "ambiguous",
		"10gB/s":                     "ambiguous",
		"10GBPS":                     "ambiguous",
		"10mB/s":                     "ambiguous",
		"0Gbps":                      "zero",
		"0.0Gbps":                    "zero",
		"-5Gbps":                     "not a bandwidth",
		"+5Gbps":                     "not a bandwidth",
		"1e9bps":                     "unknown unit",
		"1.2.3Gbps":                  "not a bandwidth",
		".5Gbps":                     "not a bandwidth",
		"5.Gbps":                     "not a bandwidth",
		"0.5bps":                     "whole number",
		"1.0000000001Gbps":           "whole number",
		"0.00000000000000000001Tbps": "whole number",
		"18446744073709551616bps":    "64 bits",
		"99999999999999999999bps":    "64 bits",
		"18446745Tbps":               "64 bits",
		"10Gibit":                    "unknown unit",
		"10 parsecs":                 "unknown unit",
		"10Gbps!":                    "unknown unit",
	} {
		got, err := ParseBandwidth(text)
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("ParseBandwidth(%q) = %d, %v; want an error with %q", text, got, err, why)
		}
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "8": 8, "8B": 8, "64K": 64 * KiB, "64k": 64 * KiB, "64KiB": 64 * KiB,
		"1M": MiB, "1.5M": 1536 * KiB, "1G": GiB, "2 GiB": 2 * GiB, "3T": 3 * TiB,
		"9223372036854775807": math.MaxInt64,
	} {
		got, err := ParseSize(text)
		if err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for text, why := range map[string]string{
		"": "not a size", "K": "not a size", "-1": "not a size", "1KB": "unknown unit",
		"1kib": "unknown unit", "1.3": "whole number", "0.0001K": "whole number", "1..5K": "not a size",
		"9223372036854775808": "63 bits", "99999999T": "63 bits",
	} {
		got, err := ParseSize(text)
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("ParseSize(%q) = %d, %v; want an error with %q", text, got, err, why)
		}
	}
}

func TestString(t *testing.T) {
	for b, want := range map[Bandwidth]string{
		Unlimited: "unlimited", 1: "1bps", 1500: "1.5kbps", 25 * Gbps: "25Gbps",
		100 * Gbps: "100Gbps", 1600 * Gbps: "1.6Tbps", 123456789: "123.456789Mbps",
	} {
		if got := b.String(); got != want {
			t.Errorf("%d.String() = %q, want %q", uint64(b), got, want)
		}
	}
	for z, want := range map[Size]string{0: "0", 8: "8", 1536: "1536", KiB: "1K", 3 * MiB: "3M", GiB: "1G", TiB: "1T"} {
		if got := z.String(); got != want {
			t.Errorf("%d.String() = %q, want %q", int64(z), got, want)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Both round numbers and arbitrary ones.
		unit := rapid.SampledFrom([]uint64{1, 8, 1000, 1024, 1e6, 1 << 20, 1e9, 1 << 30}).Draw(t, "unit")
		n := rapid.Uint64Range(0, math.MaxInt64/unit).Draw(t, "n") * unit
		if b, err := ParseBandwidth(Bandwidth(n).String()); err != nil || b != Bandwidth(n) {
			t.Fatalf("bandwidth %d: printed as %v, read as %d, %v", n, Bandwidth(n), b, err)
		}
		if z, err := ParseSize(Size(n).String()); err != nil || z != Size(n) {
			t.Fatalf("size %d: printed as %v, read as %d, %v", n, Size(n), z, err)
		}
	})
}

// Bytes are eight times bits, and every spelling of a unit means the same.
func TestSpellingsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint32Range(1, 1000).Draw(t, "n")
		number := decimal(uint64(n), 1)
		prefix := rapid.SampledFrom([]string{"", "k", "M", "G", "T"}).Draw(t, "prefix")
		want, err := ParseBandwidth(number + prefix + "bps")
		if err != nil {
			t.Fatal(err)
		}
		for _, unit := range []string{"bit", "bit/s", "b/s", "bits/s"} {
			if got, err := ParseBandwidth(number + prefix + unit); err != nil || got != want {
				t.Fatalf("%s%s%s = %v, %v; want %v", number, prefix, unit, got, err, want)
			}
		}
		for _, unit := range []string{"B/s", "Bps"} {
			if got, err := ParseBandwidth(number + prefix + unit); err != nil || got != 8*want {
				t.Fatalf("%s%s%s = %v, %v; want %v", number, prefix, unit, got, err, 8*want)
			}
		}
	})
}

func FuzzParseBandwidth(f *testing.F) {
	for _, s := range []string{"100Gbps", "12.5GB/s", "10gb", "1.6Tbps", "unlimited", "0.125B/s", "-1bit"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b, err := ParseBandwidth(s)
		if err != nil {
			return
		}
		if again, err := ParseBandwidth(b.String()); err != nil || again != b {
			t.Errorf("%q = %d prints as %q, which reads as %d, %v", s, b, b, again, err)
		}
	})
}

func FuzzParseSize(f *testing.F) {
	for _, s := range []string{"8", "64K", "1G", "1.5M", "2 GiB", "1KB", "-1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		z, err := ParseSize(s)
		if err != nil {
			return
		}
		if again, err := ParseSize(z.String()); err != nil || again != z || z < 0 {
			t.Errorf("%q = %d prints as %q, which reads as %d, %v", s, z, z, again, err)
		}
	})
}

func TestCount(t *testing.T) {
	for _, c := range []struct {
		n    int
		noun string
		want string
	}{{0, "rank", "0 ranks"}, {1, "switch", "1 switch"}, {2, "switch", "2 switches"}, {1, "process", "1 process"},
		{3, "process", "3 processes"}} {
		if got := Count(c.n, c.noun); got != c.want {
			t.Errorf("Count(%d, %q) = %q, want %q", c.n, c.noun, got, c.want)
		}
	}
}
