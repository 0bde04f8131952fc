// SPDX-License-Identifier: Apache-2.0

package needs

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// `make race` tests the packages that start goroutines, by themselves, by another package or only in their tests, and
// no others.
func TestConcurrent(t *testing.T) {
	const module = "github.com/ddlemu/ddlemu/"
	concurrent := []string{
		"shaper/run/host",
		"intercept/metrics",  // intercept/messages starts them
		"shaper/engine/link", // its tests start a program
	}
	others := []string{"shaper/nccl/plan", "shaper/workload/schedule"} // the latter's tests are another package
	var packages []string
	for _, name := range slices.Concat(concurrent, others) {
		packages = append(packages, module+name)
	}
	out, err := exec.Command("../../.ci/concurrent", packages...).Output()
	if got := strings.Fields(string(out)); err != nil || !slices.Equal(got, packages[:len(concurrent)]) {
		t.Errorf("%v: %q, want %q", err, got, concurrent)
	}
}
