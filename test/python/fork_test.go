// SPDX-License-Identifier: Apache-2.0

package python

import (
	"strings"
	"testing"
)

// forkWords begins the message to a forked child that uses NCCL.
const forkWords = "ddlemu: NCCL was called in a process that was forked after libgoemu.so was loaded"

// A process with connections forks. Whatever the child does, the parent's connections work, the
// parent stays in the job, and the job's verdict is printed once, by the parent.
func TestFork(t *testing.T) {
	t.Parallel()
	o := good(t, nil, "fork.py", "os_exit", "sys_exit", "killed", "crashed", "workers", "executed")
	if strings.Contains(o.Stderr, forkWords) {
		t.Errorf("a child that does not use NCCL printed:\n%s", o.Stderr)
	}
}

// In a forked child that uses NCCL every call returns an error, and one line says why.
func TestForkedChildThatUsesNCCL(t *testing.T) {
	t.Parallel()
	o := good(t, nil, "fork.py", "before_init", "calls")
	if strings.Count(o.Stderr, forkWords) != 2 {
		t.Errorf("want %q once from each of the two children, not\n%s", forkWords, o.Stderr)
	}
}
