// SPDX-License-Identifier: Apache-2.0

package torch

import (
	"strings"
	"testing"
)

// What a user does wrong ends in one line that says what to change.
func TestHints(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, python string) {
		o := job{python: python, ranks: 1}.run(t, "hints.py")
		if o.Exit != 1 || o.Stdout != "" ||
			strings.Count(o.Stderr, "ddlemu: there is no GPU in this job, and it needs none: ") != 1 {
			t.Errorf("exit status %d\n%s%s", o.Exit, o.Stdout, o.Stderr)
		}
	})
}

// A fabric that has fewer places than the job has ranks is refused with a line that says so.
func TestMoreRanksThanPlaces(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, python string) {
		o := job{python: python, ranks: 3, flags: []string{"--set", "gpus_per_node=1"}}.run(t, "installed.py")
		for _, want := range []string{
			"WORLD_SIZE: 3 ranks are more than the fabric's 2 nodes x 1 GPU",
			"ddlemu: the plugin did not start. A line above with 'will NOT be emulated' says why; if there is none, run again with NCCL_DEBUG=WARN.",
		} {
			if o.Exit == 0 || !strings.Contains(o.Stderr, want) {
				t.Errorf("exit status %d, no %q in\n%s", o.Exit, want, o.Stderr)
			}
		}
	})
}
