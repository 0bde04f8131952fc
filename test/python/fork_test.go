// SPDX-License-Identifier: Apache-2.0

package python

import (
	"strings"
	"testing"
)

// forkWords is what a forked child that uses NCCL is told.
const forkWords = "ddlemu: NCCL was called in a process that was forked after NCCL had loaded libgoemu.so"

// A process that has connections forks: whatever becomes of the child, the
// parent's connections work, it keeps its place in the job, and the job's verdict
// comes once, from the parent.
func TestFork(t *testing.T) {
	t.Parallel()
	o := good(t, nil, "fork.py", "os_exit", "sys_exit", "killed", "crashed", "workers", "executed")
	if strings.Contains(o.stderr, forkWords) {
		t.Errorf("a child that does not use NCCL was told:\n%s", o.stderr)
	}
}

// A forked child that uses NCCL gets an error from every call, and one line that
// says why.
func TestForkedChildThatUsesNCCL(t *testing.T) {
	t.Parallel()
	o := good(t, nil, "fork.py", "before_init", "calls")
	if strings.Count(o.stderr, forkWords) != 2 {
		t.Errorf("want %q once from each of the two children, not\n%s", forkWords, o.stderr)
	}
}
