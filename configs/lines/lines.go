// SPDX-License-Identifier: Apache-2.0

// Package lines prints lists of texts, such as notes and reasons.
package lines

import (
	"fmt"
	"io"
)

// Print prints each of the texts by a format. Errors of w are not returned.
func Print(w io.Writer, format string, texts []string) {
	for _, text := range texts {
		fmt.Fprintf(w, format, text)
	}
}
