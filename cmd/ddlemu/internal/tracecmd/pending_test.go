// SPDX-License-Identifier: Apache-2.0

package tracecmd

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// While ranks make their first communicator, pending says which ranks have begun to.
func TestPendingBeforeTheFirstCommunicator(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := loadPending(dir); err == nil || !strings.Contains(err.Error(), "its first ncclCommInitRank") {
		t.Errorf("without a ledger: %v", err)
	}
	for rank, want := range []string{
		"the first communicator: ncclCommInitRank was begun by rank 0; not begun by rank 1\n",
		"nothing: every call that was begun is finished (0 calls, 0 messages)\n",
	} {
		l, err := ledger.Create(ledger.Path(dir, rank, 100+rank), 4,
			ledger.Info{World: 2, Rank: uint32(rank), PID: uint32(100 + rank), TimeScale: 1})
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		trace, report, err := loadPending(dir)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if printPending(&out, trace, report); !strings.HasPrefix(out.String(), want) {
			t.Errorf("with ledgers up to rank %d:\n%s", rank, out.String())
		}
	}
}
