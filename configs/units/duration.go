// SPDX-License-Identifier: Apache-2.0

package units

import (
	"strings"
	"time"
)

// Short is a time with three digits: "12.3us", "1m40s"; "0" for 0.
func Short(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return strings.Replace(d.Round(unit).String(), "µ", "u", 1)
}
