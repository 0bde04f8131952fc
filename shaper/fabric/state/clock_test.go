// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/clock"
)

// The first rank of a job on a virtual clock finds every link idle and no flow, whatever ranks that died have left. A
// rank that joins while another one is there changes nothing.
func TestFirstRankFindsAnIdleFabric(t *testing.T) {
	s := twoNodes("t")
	s.Virtual = true
	f, flows := withFlows(t, s)
	list := (*[clock.FlowsHead / 4]uint32)(flows.Base()) // the heap, the list of posts, and which flows are in use
	leave := func() (later int64) {
		later = f.Now() + int64(time.Millisecond)
		f.hops()[0].NextFree, f.hops()[1].HostFree, f.hops()[2].BufferFree = later, later+1, later+2
		for i := range 64 {
			list[i] = 7
		}
		return later + 2
	}
	begin := f.Now()
	later := leave()
	job, err := f.JoinJob(7)
	if err != nil {
		t.Fatal(err)
	}
	first, err := f.Join(job, Rank{Rank: 0, World: 2})
	if err != nil {
		t.Fatal(err)
	}
	if f.Now() != later || list[0] != 0 || list[16] != 0 || list[32] != 0 {
		t.Errorf("the first rank finds the time %d, want %d, and %v", f.Now()-begin, later-begin, list[:64])
	}
	leave()
	second, err := f.Join(first.Job(), Rank{Rank: 1, Node: 1, World: 2})
	if err != nil {
		t.Fatal(err)
	}
	if f.Now() != later || list[0] != 7 {
		t.Errorf("the second rank set the time to %d, want %d, or emptied the flows", f.Now()-begin, later-begin)
	}
	first.Leave()
	second.Leave()
}
