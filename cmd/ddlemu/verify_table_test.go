// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/verify"
)

// A median that is off by more than its limit is no contradiction where there is jitter.
func TestPrintVerifySaysWhatJitterIsHeldTo(t *testing.T) {
	const says = "\nwith jitter p50 is not held to a limit, but the distribution is:\nlink"
	for name, jitter := range map[string]*verify.Jitter{"with": {}, "without": nil} {
		var got strings.Builder
		printVerify(&got, &verify.Report{Links: []verify.Link{{Name: "node0:node1", Jitter: jitter}}})
		if strings.Contains(got.String(), says) != (jitter != nil) {
			t.Errorf("%s jitter:\n%s", name, got.String())
		}
	}
}
