// SPDX-License-Identifier: Apache-2.0

package needs

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// `make race` tests the packages that start goroutines, by themselves, by another package or only in their tests, and
// no others. With --programs the script knows those that start programs.
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

	programs := []string{module + "shaper/engine/link", module + "cmd/ddlemu", module + "shaper/run/play"}
	out, err = exec.Command("../../.ci/concurrent", append([]string{"--programs", module + "intercept/metrics",
		module + "shaper/nccl/plan"}, programs...)...).Output()
	if got := strings.Fields(string(out)); err != nil || !slices.Equal(got, programs) {
		t.Errorf("%v: %q, want %q", err, got, programs)
	}
}
