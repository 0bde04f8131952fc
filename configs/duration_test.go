// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "5us": 5000, "5µs": 5000, "1.2ms": 1200000, "1.5us": 1500, ".5us": 500, "1.us": 1000,
		"1h2m3s": 3723 * time.Second, "1.000000001s": 1000000001,
	} {
		if got, err := ParseDuration(text); got != want || err != nil {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"0.1ns":       `"0.1ns" is not a whole number of nanoseconds, the smallest unit`,
		"1.0005us":    `"1.0005us" is not a whole number of nanoseconds, the smallest unit`,
		"5us0.5ns":    `"5us0.5ns" is not a whole number of nanoseconds, the smallest unit`,
		"":            `"" is not a duration: write 5us, 1.2ms or 3s`,
		"-0s":         `"-0s" is not a duration: write 5us, 1.2ms or 3s`,
		"+5us":        `"+5us" is not a duration: write 5us, 1.2ms or 3s`,
		"1e3us":       `"1e3us" is not a duration: write 5us, 1.2ms or 3s`,
		"-1s":         `"-1s" is not a duration: write 5us, 1.2ms or 3s`,
		"5":           `"5" is not a duration: write 5us, 1.2ms or 3s`,
		"99999999h":   `"99999999h" is not a duration: write 5us, 1.2ms or 3s`,
		"0.0000001us": `"0.0000001us" is not a whole number of nanoseconds, the smallest unit`,
	} {
		if _, err := ParseDuration(text); err == nil || err.Error() != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestPropertyDurationsAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, 1<<62).Draw(t, "ns"))
		if got, err := ParseDuration(d.String()); got != d || err != nil {
			t.Fatalf("%v: %v, %v", d, got, err)
		}
	})
}
