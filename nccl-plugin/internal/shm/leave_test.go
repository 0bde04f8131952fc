// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"context"
	"os/exec"
	"testing"
	"time"
)

// A process does not leave the time of its node while a thread of it is in a call: the thread would change what belongs
// to another process by then. It waits at most a second, for a thread that does not come out.
func TestLeavesWithoutThreadsInCalls(t *testing.T) {
	program := compileC(t, "leave", []string{"-O2", "-Wl,--wrap=ddlemu_direct_make"})
	for name, args := range map[string][]string{"a call ends": nil, "a call does not end": {"stuck"}} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if out, err := exec.CommandContext(ctx, program, args...).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
