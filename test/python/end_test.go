// SPDX-License-Identifier: Apache-2.0

package python

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/world"
)

// A rank that ends with open connections ends normally, also while NCCL's threads call the plugin,
// and while a data loader of it lives on. Its peer gets an error and does not hang.
func TestEndWithConnectionsOpen(t *testing.T) {
	poll := shared(t, "poll.c")
	for _, tc := range []struct{ how, want string }{
		{"returns", "rank 0: 0, rank 1: 3"},
		{"polled", "rank 0: 0, rank 1: 3"},
		{"polled_through_python", "rank 0: 0, rank 1: 3"},
		{"returns_with_worker", "rank 0: 0, rank 1: 3"},
		{"killed", "rank 0: -9, rank 1: 3"},
		{"killed_with_worker", "rank 0: -9, rank 1: 3"},
	} {
		t.Run(tc.how, func(t *testing.T) {
			t.Parallel()
			o := run(t, world.Folder(t), []string{"POLL=" + poll}, "end.py", tc.how)
			if o.Stdout != tc.want+"\n" || !strings.Contains(o.Stderr, "peer: test: ncclResult_t 6") {
				t.Errorf("%q, want %q, and an error for the peer:\n%s", o.Stdout, tc.want, o.Stderr)
			}
			if n := strings.Count(o.Stderr, "ddlemu: verdict on fabric "); n != 1 {
				t.Errorf("%d verdicts, not one:\n%s", n, o.Stderr)
			}
			if died := strings.Contains(o.Stderr, "a rank died"); died != strings.HasPrefix(tc.how, "killed") {
				t.Errorf("a rank died: %v\n%s", died, o.Stderr)
			}
		})
	}
}
