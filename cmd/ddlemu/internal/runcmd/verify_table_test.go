// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/run/verify"
)

// With jitter, the table says that the distribution is judged and not the median.
func TestPrintVerifyWithJitter(t *testing.T) {
	const says = "\nwith jitter the distribution is judged instead of p50:\nlink"
	for name, jitter := range map[string]*verify.Jitter{"with": {}, "without": nil} {
		var got strings.Builder
		printVerify(&got, &verify.Report{Links: []verify.Link{{Name: "node0:node1", Jitter: jitter}}}, "")
		if strings.Contains(got.String(), says) != (jitter != nil) {
			t.Errorf("%s jitter:\n%s", name, got.String())
		}
	}
}
