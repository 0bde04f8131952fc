// SPDX-License-Identifier: Apache-2.0

package units_test

import (
	"testing"

	"github.com/ddlemu/ddlemu/configs/units"
)

func TestRatio(t *testing.T) {
	for r, want := range map[float64]string{1: "1:1", 1.5: "1.5:1", 100.0 / 3: "33.3:1", 999.4: "999:1",
		999.6: "1000:1", 1000: "1000:1", 12345.6: "12346:1"} {
		if got := units.Ratio(r); got != want {
			t.Errorf("%v: %s, want %s", r, got, want)
		}
	}
}
