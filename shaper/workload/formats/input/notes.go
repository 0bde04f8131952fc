// SPDX-License-Identifier: Apache-2.0

package input

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/ddlemu/ddlemu/configs/units"
)

// Title names the files of a workload in its source: the first one, and how many more there are.
func Title(first string, files int) string {
	title := filepath.Base(first)
	if files > 1 {
		title += fmt.Sprintf(" and %d more", files-1)
	}
	return title
}

// Counts returns a function that appends a note on n things, such as "3 calls: left out", to notes, unless n is 0.
func Counts(notes *[]string) func(n int, what, why string) {
	return func(n int, what, why string) {
		if n > 0 {
			*notes = append(*notes, units.Count(n, what)+": "+why)
		}
	}
}

// Sentences returns a function that appends a formatted sentence to list when it is true.
func Sentences(list *[]string) func(when bool, format string, args ...any) {
	return func(when bool, format string, args ...any) {
		if when {
			*list = append(*list, fmt.Sprintf(format, args...))
		}
	}
}

// Names keeps at most maxNames texts of at most maxName bytes, so that a file in which none comes twice takes bounded
// memory.
const (
	maxNames = 1 << 17
	maxName  = 1 << 10
)

// Names keeps one copy of each text that many records repeat. Its zero value is ready for use.
type Names struct{ known map[string]string }

// Shared returns the copy of a text. The text itself, which may be a part of a long line, is not kept.
func (n *Names) Shared(text string) string {
	if known, ok := n.known[text]; ok {
		return known
	}
	if n.known == nil {
		n.known = map[string]string{}
	}
	text = strings.Clone(text)
	if len(text) <= maxName && len(n.known) < maxNames {
		n.known[text] = text
	}
	return text
}
