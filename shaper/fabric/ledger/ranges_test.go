// SPDX-License-Identifier: Apache-2.0

package ledger_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger/ledgertest"
)

// Ranges are read in the order of their begins, with their names; damaged ones are not.
func TestRanges(t *testing.T) {
	all := []ledger.Range{
		{Number: 1, Thread: 9, Name: "inner", Depth: 1, Order: 1, Begun: 20, Ended: 30},
		{Number: 2, Thread: 9, Name: "öuter", Domain: "d", Style: ledger.Started, Order: 0, Begun: 10},
		{Number: 3, Thread: 9, Style: ledger.Mark, Order: 2, Begun: 40, Ended: 40},
	}
	x := ledgertest.Ledger{Info: ledger.Info{PID: 9, NCCL: 22907},
		Ranges: append(all, ledger.Range{Begun: 5, Ended: 4}, ledger.Range{Begun: -1}, ledger.Range{Style: 3},
			ledger.Range{Depth: 1 << 30}), LostRanges: 5}
	path := ledgertest.Write(t, t.TempDir(), 64, x)
	c, err := ledger.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := []ledger.Range{all[1], all[0], all[2]}; !reflect.DeepEqual(c.Ranges, want) || c.Unreadable != 4 ||
		c.LostRanges != 5 || c.NCCL != 22907 {
		t.Errorf("%+v", c)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.Index(string(b), "inner")
	copy(b[at:], "i\xff")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err = ledger.Read(path); err != nil || c.Ranges[1].Name != "i\uFFFDner" {
		t.Errorf("%v: a damaged name is %q", err, c.Ranges[1].Name)
	}
}
