// SPDX-License-Identifier: Apache-2.0

package tracecmd

import (
	"strings"
	"testing"
)

// What a change of links does not change has the cause that the fabric's nodes have.
func TestComputedNote(t *testing.T) {
	for timed, want := range map[bool]string{false: "as if it had computed", true: "launches, kernels"} {
		if note := computedNote(7, 2.5, timed); !strings.Contains(note, want) || !strings.Contains(note, "7 times") ||
			!strings.Contains(note, "by 2.500 us together") {
			t.Errorf("timed nodes %v: %s", timed, note)
		}
	}
}
