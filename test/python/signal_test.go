// SPDX-License-Identifier: Apache-2.0

package python

import (
	"strings"
	"syscall"
	"testing"

	"github.com/ddlemu/ddlemu/test/world"
)

// The host program's handlers, masks and timers work as without the plugin, and so do its
// connections.
func TestSignalsReachTheHost(t *testing.T) {
	for _, what := range []string{"handlers_before", "handlers_after", "no_handlers", "ignored_before"} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			good(t, nil, "signals.py", what)
		})
	}
}

// A signal that kills a process also does with the plugin loaded, after the host's handler has
// printed its message.
func TestSignalsStillKill(t *testing.T) {
	for _, tc := range []struct {
		how, says string
		signal    syscall.Signal
	}{
		{"fault_default", "", syscall.SIGSEGV},
		{"fault_before", "Fatal Python error: Segmentation fault", syscall.SIGSEGV},
		{"fault_after", "Fatal Python error: Segmentation fault", syscall.SIGSEGV},
		{"fault_in_thread", "Fatal Python error: Segmentation fault", syscall.SIGSEGV},
		{"aborted", "Fatal Python error: Aborted", syscall.SIGABRT},
		{"terminated", "", syscall.SIGTERM},
		{"pipe_kills", "", syscall.SIGPIPE},
	} {
		t.Run(tc.how, func(t *testing.T) {
			t.Parallel()
			o := run(t, world.Scratch(t), []string{"WORLD_SIZE=1"}, "signals.py", tc.how)
			if o.Signal != tc.signal || o.Stdout != "" {
				t.Errorf("exit status %d, signal %v, want %v; it printed %q and\n%s", o.Exit, o.Signal, tc.signal,
					o.Stdout, o.Stderr)
			}
			if strings.Count(o.Stderr, "Fatal Python error") > 1 || !strings.Contains(o.Stderr, tc.says) {
				t.Errorf("want %q, once, in\n%s", tc.says, o.Stderr)
			}
		})
	}
}
