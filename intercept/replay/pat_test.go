// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"testing"

	"github.com/ddlemu/ddlemu/intercept/messages"
)

// A call that says it is PAT, and whose communicator is not known because its record is damaged, has no
// schedule. Its messages wait for what their ranks had got.
func TestPATWithoutCommunicator(t *testing.T) {
	m := message(0, 1000, 0)
	m.Received, m.Due, m.Complete = true, 3000, 4000
	tr := traceOf(m)
	tr.Tasks = []messages.Task{{Func: "AllGather", Algo: "PAT", Rank: -1}}
	tr.Calls = []messages.Call{{Name: "AllGather", Tasks: []int{0}, Messages: []int{0}}}
	if calls, byRules := NewCalls(tr, Waiting).ByRules(); calls != 1 || byRules != 1 {
		t.Errorf("%d of %d calls by rules, want 1", byRules, calls)
	}
}
