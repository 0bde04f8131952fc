// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/built"
)

// A plugin with a planted fault fails the case for that fault, with the right message. Without
// the fault the same plugin passes.
func TestPlantedFaultsAreFound(t *testing.T) {
	lib := built.Path(t, "faults", "libgoemu.so")
	for _, tc := range []struct{ fault, name, says string }{
		{"flip 7", "sizes", "was changed on the way"},
		{"flip 11", "interleave", "was changed on the way"},
		{"early 128", "nothing-early", "written before they were due"},
		{"lose 5", "order", "which is lost"},
		{"lose 9", "interleave", "lost"},
		{"leakfd 1", "descriptors", "more file descriptors and 0 more mappings than before"},
	} {
		t.Run(tc.fault+" in "+tc.name, func(t *testing.T) {
			c := testCase{name: tc.name, mode: "alone"}
			if o := drive(t, lib, lastVersion, c, 1); o.word != "PASS" {
				t.Fatalf("without a fault: %s\n%s", o.why, o.stderr)
			}
			o := drive(t, lib, lastVersion, c, 1, "DDLEMU_FAULT="+tc.fault)
			found := "PASS"
			if o.word != "FAIL" || !strings.Contains(o.why, tc.says) {
				found = "FAIL"
				t.Errorf("%s %s\nwant FAIL with %q", o.word, o.why, tc.says)
			}
			if *verbose {
				fmt.Printf("%-4s v%-2d planted fault %q in %s: %s %s\n", found, lastVersion, tc.fault, tc.name, o.word,
					o.why)
			}
		})
	}
}
