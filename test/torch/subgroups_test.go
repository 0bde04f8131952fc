// SPDX-License-Identifier: Apache-2.0

package torch

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var groupLine = regexp.MustCompile(`(?m)^rank \d (within|between|all) (\d+)$`)

// Groups of some of the ranks, where nodes take time: over NVLink their calls take less than over the network.
func TestGroupsOfSomeRanksTakeTime(t *testing.T) {
	t.Parallel()
	python := pythons(t)[0]
	o := job{python: python, ranks: 4, flags: append(slices.Clone(virtual), "--profile", "ndr400", "--set", "link.jitter=none",
		"--gpu", "a100-sxm", "--set", "node_time=on", "--set", "gpus_per_node=2")}.good(t, "subgroups.py")
	if !strings.Contains(o.Stderr, "verdict: VALID") {
		t.Errorf("the job is not VALID: %s", o.Stderr)
	}
	// In us. 1 MiB crosses 4.6 us of NVLink of a GPU, or 21 us of a NIC, which 2 groups share, and kernels take time.
	limits := map[string][2]int{"within": {15, 60}, "between": {61, 300}, "all": {61, 300}}
	took := groupLine.FindAllStringSubmatch(o.Stdout, -1)
	for _, m := range took {
		ns, _ := strconv.Atoi(m[2])
		if us, want := ns/1000, limits[m[1]]; us < want[0] || us > want[1] {
			t.Errorf("%s: not from %d to %d us", m[0], want[0], want[1])
		}
	}
	if len(took) != 12 {
		t.Errorf("it printed\n%s", o.Stdout)
	}
}
