// SPDX-License-Identifier: Apache-2.0

package units

import "fmt"

// SI is x, at least 0, with three digits and the prefix of its unit, which follows: "118 k", "1.25 G".
func SI(x float64) string {
	prefixes := []string{"", "k", "M", "G", "T", "P", "E"}
	i := 0
	for x >= 999.5 && i < len(prefixes)-1 {
		x /= 1000
		i++
	}
	return fmt.Sprintf("%.3g %s", x, prefixes[i])
}

// Volume is an amount of bytes with SI prefixes, as rates have them: "1.2 GB".
func Volume(bytes uint64) string { return SI(float64(bytes)) + "B" }
