// SPDX-License-Identifier: Apache-2.0

// Package xmltext escapes text for XML that is printed line by line.
package xmltext

import (
	"encoding/xml"
	"strings"
)

// Escape is s as text of an element or as the value of an attribute.
func Escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // writing to a strings.Builder does not fail
	return b.String()
}
