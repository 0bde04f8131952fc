// SPDX-License-Identifier: Apache-2.0

package compare

import (
	"fmt"
	"testing"
)

// Rows with one key are joined in their order, and rows without a partner are named.
func TestRows(t *testing.T) {
	a, b := []string{"x1", "y1", "x2", "z1"}, []string{"y2", "x3", "w1", "x4", "x5"}
	j := Rows(a, b, func(r string) byte { return r[0] })
	if got := fmt.Sprint(j.Pairs, j.Only); got != "[[x1 x3] [y1 y2] [x2 x4]] [[z1] [w1 x5]]" {
		t.Error(got)
	}
}

func TestPercent(t *testing.T) {
	if p := Percent(200, 250); p == nil || *p != 25 {
		t.Error(p)
	}
	if p := Percent(0, 250); p != nil {
		t.Error(*p)
	}
}
