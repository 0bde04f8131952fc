// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// An entry of links is named if no message crosses any link that it matches, and if it is known what messages cross.
func TestUncrossed(t *testing.T) {
	c, err := configs.Decode("test", []byte(`base: roce100
nodes: 4
topology: {kind: leaf-spine, leaves: 2, spines: 2, trunk: {latency: 1us}}
links:
  - {match: "leaf0:spine0", bandwidth: 10Gbps}
  - {match: "leaf*:spine1", bandwidth: 10Gbps}
  - {match: node1, bandwidth: 10Gbps}
`))
	if err != nil {
		t.Fatal(err)
	}
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	hop := func(pattern string) int {
		hops, err := f.Select(pattern)
		if err != nil {
			t.Fatal(err)
		}
		return hops[0]
	}
	for _, tc := range []struct {
		crossed []int
		want    []string
	}{
		{nil, nil},
		{[]int{hop("leaf0:spine0"), hop("leaf1:spine1"), hop("node1")}, nil},
		{[]int{hop("leaf1:spine1"), hop("node1")}, []string{"links leaf0:spine0: "}},
		{[]int{hop("leaf0:spine0")}, []string{"links leaf*:spine1: ", "links node1: "}},
	} {
		got := Uncrossed(f, tc.crossed)
		if len(got) != len(tc.want) {
			t.Errorf("crossed %v: %q, want %q", tc.crossed, got, tc.want)
			continue
		}
		for i := range got {
			if !strings.HasPrefix(got[i], tc.want[i]) {
				t.Errorf("crossed %v: %q, want %q", tc.crossed, got, tc.want)
			}
		}
	}
}
