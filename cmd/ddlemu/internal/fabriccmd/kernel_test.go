// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
)

func TestNodeOf(t *testing.T) {
	p, err := netns.NewPlan("/d", "f", 3, 2, netip.MustParsePrefix("10.77.0.0/16"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{
		"node0": 0, "node2": 2, "node2-eth1": 2, "node1-ipv6": 1, "node0-eth1-ipv6": 0, "10.77.0.2": 1, "10.77.1.3": 2,
		p.Nodes[1].NICs[1].Addr6.String(): 1,
		"node3":                           -1, "node2-eth2": -1, "node": -1, "": -1, "10.77.0.4": -1, "::1": -1,
		"node01": -1, "NODE1": -1,
	} {
		got, err := nodeOf(p, name)
		if want < 0 && (err == nil || !strings.Contains(err.Error(), "it has node0 to node2")) || want >= 0 &&
			(err != nil || got != want) {
			t.Errorf("%q: got %d, %v; want %d", name, got, err, want)
		}
	}
}
