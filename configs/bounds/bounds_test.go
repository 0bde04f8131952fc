// SPDX-License-Identifier: Apache-2.0

package bounds

import (
	"math"
	"strings"
	"testing"
)

func TestBudget(t *testing.T) {
	var b Budget
	if err := b.Make(free/8, 8); err != nil {
		t.Errorf("what any file may ask for: %v", err)
	}
	if err := b.Make(1, 1); err == nil || !strings.Contains(err.Error(), "32 MiB") {
		t.Errorf("one byte more: %v", err)
	}
	b.Read(2)
	if b.Make(2, perByte) != nil || b.Make(1, 1) == nil {
		t.Error("each byte that was read allows for perByte more")
	}
	for _, n := range []int64{1, math.MaxInt64, -1} {
		if b.Make(n, math.MaxInt64) == nil {
			t.Errorf("%d parts more than the most", n)
		}
	}
	if err := (*Budget)(nil).Make(math.MaxInt64, math.MaxInt64); err != nil {
		t.Errorf("without a bound: %v", err)
	}
}
