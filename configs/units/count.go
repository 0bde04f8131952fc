// SPDX-License-Identifier: Apache-2.0

package units

import (
	"strconv"
	"strings"
)

// Count is a number before a noun, which gets its plural: "1 node", "2 nodes", "3 switches".
func Count(n int, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "ch"):
		noun += "es"
	default:
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}
