// SPDX-License-Identifier: Apache-2.0

package nccl

import "fmt"

// VersionText is the text of a version in ncclGetVersion's numbering: 2.29.7 for 22907, and 2.4.3 for 2403, which is
// how versions before 2.9 are numbered.
func VersionText(number int) string {
	const sinceNine = 10000
	if number < sinceNine {
		return fmt.Sprintf("%d.%d.%d", number/1000, number%1000/100, number%100)
	}
	return fmt.Sprintf("%d.%d.%d", number/10000, number%10000/100, number%100)
}
