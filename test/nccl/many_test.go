// SPDX-License-Identifier: Apache-2.0

package nccl

import "testing"

// Many nodes on a small host, in virtual time.
func TestSixteenNodes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("sixteen ranks take long to start")
	}
	r := bench(t, folder(t), nil, "allreduce", "--profile", "eth1", "--ranks", "16", "--nodes", "16", "-b", "2K", "-e",
		"128K", "-f", "8", "-n", "3", "-w", "1")
	nearModel(t, r, 1)
}
