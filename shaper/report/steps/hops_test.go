// SPDX-License-Identifier: Apache-2.0

package steps

import (
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/run/play"
)

// The table has the busiest hops and says how many it leaves out; JSON has all.
func TestHops(t *testing.T) {
	use := func(name string, rate units.Bandwidth, busy int) play.HopUse {
		return play.HopUse{Name: name, Bandwidth: rate, Bytes: uint64(busy) * 1000, Busy: time.Duration(busy) * time.Millisecond}
	}
	all := []play.HopUse{use("node1:node2", units.Gbps, 8), use("node1 rx", 10*units.Gbps, 5),
		use("node0 tx", 10*units.Gbps, 2), use("node2 tx", 10*units.Gbps, 1), use("node3 tx", 10*units.Gbps, 1)}
	text := &text{Result: &Result{Result: &play.Result{Hops: all, Time: 10 * time.Millisecond}}}
	text.hops()
	for _, want := range []string{
		"  node1:node2         1Gbps            8000        0.0064      80.0         -\n",
		"  node0 tx           10Gbps            2000        0.0016      20.0         -\n",
		"# and 1 more hop, less busy: see --json\n",
	} {
		if !strings.Contains(text.b.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.b.String())
		}
	}
	reports := text.hopReports()
	if r := reports[1]; len(reports) != 5 || *r.Busy != 0.5 || r.Rate != 4e6 || *r.Bandwidth != 1e10 || r.Peak != nil {
		t.Errorf("%+v", reports[1])
	}
}
