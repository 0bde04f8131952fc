// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/fabric/state/statetest"
)

// Where nodes cost time, the GPU of a rank follows from its number. A rank that is elsewhere would use another's links.
func TestRankIsWhereItsNumberSays(t *testing.T) {
	spec := fabricSpec(unshaped, link.Transport{Kind: link.RDMA})
	spec.Virtual = true
	links := spec
	spec.NodeTime = state.NodeTime{On: 1, GPUs: 1, FirstHop: uint32(len(spec.Hops))}
	for gpu := range uint32(2) {
		for _, kind := range []link.HopKind{link.GPUOut, link.GPUIn} {
			spec.Hops = append(spec.Hops, state.HopSpec{Kind: kind, Src: gpu, Dst: gpu, Spec: unshaped})
		}
	}
	timed, free := statetest.Of(t, spec), statetest.Of(t, links)
	for _, tc := range []struct {
		file *state.File
		node int
		want string
	}{
		{timed, 1, ""},
		{timed, 0, "rank 1 is on node 0: in a fabric whose nodes cost time, each node has 1 rank, in order"},
		{free, 0, ""},
	} {
		err := checkNodeTime(tc.file, state.Rank{Rank: 1, Node: tc.node, World: 2})
		if (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("node %d: %v, want %q", tc.node, err, tc.want)
		}
	}
}
