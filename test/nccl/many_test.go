// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"fmt"
	"strings"
	"testing"
)

// Many nodes on a small host: their threads take turns on its processors. At the largest time scale that costs a run
// nothing that affects its verdict.
func TestSixteenNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("sixteen ranks take long to start")
	}
	dir := folder(t)
	retry(t, func(string) error {
		r := bench(t, dir, nil, "allreduce", "--profile", "eth1", "--ranks", "16", "--nodes", "16",
			"-b", "2K", "-e", "2K", "-n", "3", "-w", "1", "--time-scale", "1024")
		if err := nearModel(r, 5); err != nil {
			return err
		}
		if r.Verdict != "VALID" {
			return fmt.Errorf("%s: %s", r.Verdict, strings.Join(r.Reasons, "; "))
		}
		return nil
	})
}
