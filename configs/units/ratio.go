// SPDX-License-Identifier: Apache-2.0

package units

import "fmt"

// Ratio prints r:1 with three digits, or with all digits before the point.
func Ratio(r float64) string {
	if r >= 999.5 {
		return fmt.Sprintf("%.0f:1", r)
	}
	return fmt.Sprintf("%.3g:1", r)
}
