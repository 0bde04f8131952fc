// SPDX-License-Identifier: Apache-2.0

package play

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The ranks have the variables of the job, but for those that the user has set.
func TestJobVariables(t *testing.T) {
	t.Setenv("NCCL_PROTO", "LL")
	t.Setenv("NCCL_BUFFSIZE", "4096")
	lookup := func(name string) (string, bool) {
		if name == "NCCL_PROTO" {
			return "LL", true
		}
		return "", false
	}
	v := newJobVariables(map[string]string{"NCCL_PROTO": "Simple", "NCCL_ALGO": "Ring"}, lookup, os.Getenv)
	if d := cmp.Diff([]string{"NCCL_ALGO=Ring"}, v.env()); d != "" {
		t.Error(d)
	}
	for name, want := range map[string]string{"NCCL_ALGO": "Ring", "NCCL_PROTO": "LL", "NCCL_BUFFSIZE": "4096",
		"NCCL_NTHREADS": ""} {
		if got := v.get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if d := cmp.Diff([]string{"NCCL_ALGO=Ring, as the job had it",
		"NCCL_PROTO=LL, from the environment; the job had Simple"}, (&Facts{variables: v}).VariableNotes()); d != "" {
		t.Error(d)
	}
}
