// SPDX-License-Identifier: Apache-2.0

package units

import (
	"math"
	"testing"
)

func TestVolume(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 B", 999: "999 B", 1000: "1 kB", 1_249_999: "1.25 MB",
		999_900_000: "1 GB", math.MaxUint64: "18.4 EB"} {
		if got := Volume(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
