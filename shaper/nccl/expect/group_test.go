// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"context"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// grouped are all-reduces of 4-byte elements, of so many bytes.
func grouped(version int, bytes ...uint64) []plan.Decision {
	var out []plan.Decision
	for _, n := range bytes {
		d := decide(nccl.AllReduce, plan.Ring, plan.Simple, 4, 2, n)
		d.Version = version
		out = append(out, d)
	}
	return out
}

// A group of one call is the call. A group takes less time than its calls one after another, because they share the
// channels, and no less than the bytes of all of them do.
func TestJobOfAGroup(t *testing.T) {
	f := inOrder(rdma())
	calls := grouped(22203, 4<<20, 3<<20, 1<<20)
	job := func(of ...plan.Group) float64 {
		j := &plan.Job{Comms: []plan.Comm{{Ranks: all(4), Calls: of}}}
		for range 4 {
			var items []plan.Item
			for i := range of {
				items = append(items, plan.Item{Kind: plan.Collective, Call: i})
			}
			j.Ranks = append(j.Ranks, items)
		}
		return float64(simulateJob(t, j, f).End())
	}
	if alone, one := job(plan.Alone(calls[0])), job(plan.Group{{calls[0]}}); alone != one {
		t.Errorf("a call alone takes %v ns, in a group %v", alone, one)
	}
	bound := 0.0
	for _, d := range calls {
		d.Iterations = 1
		e, err := Simulate(context.Background(), d, f)
		if err != nil {
			t.Fatal(err)
		}
		bound += e.Bound
	}
	group := job(plan.Group{{calls[1], calls[0]}, {calls[2]}})
	if after := job(plan.Alone(calls[0]), plan.Alone(calls[1]), plan.Alone(calls[2])); group >= after || group < bound {
		t.Errorf("the group takes %v ns, its calls one after another %v, their bytes %v", group, after, bound)
	}
}

// Messages of a group come after its collectives on each channel.
func TestJobOfAMixedGroup(t *testing.T) {
	f := inOrder(rdma())
	d := grouped(22203, 4<<20)[0]
	p2p := d
	p2p.P2PChannels, p2p.P2PChannelsPerPeer = 2, 2
	const bytes = 1 << 20
	job := func(kinds ...plan.Item) float64 {
		j := &plan.Job{Comms: []plan.Comm{{Ranks: all(4), Calls: []plan.Group{plan.Alone(d)}, P2P: p2p}}}
		for r := range 4 {
			items := append([]plan.Item(nil), kinds...)
			for i := range items {
				if items[i].Sends != nil {
					items[i].Sends, items[i].Recvs = map[int]uint64{(r + 1) % 4: bytes},
						map[int]uint64{(r + 3) % 4: bytes}
				}
			}
			j.Ranks = append(j.Ranks, items)
		}
		return float64(simulateJob(t, j, f).End())
	}
	some := map[int]uint64{}
	together := job(plan.Item{Kind: plan.Collective, Sends: some, Recvs: some})
	call, message := job(plan.Item{Kind: plan.Collective}), job(plan.Item{Kind: plan.Exchange, Sends: some, Recvs: some})
	if together <= call || together > call+message {
		t.Errorf("together %v ns, the call alone %v, the messages alone %v", together, call, message)
	}
}

// What the model does not know of a group is refused.
func TestGroupRefusals(t *testing.T) {
	other := grouped(22907, 1<<20, 2<<20)
	other[0].UsedChannels, other[0].FirstChannel = 1, 1
	many := grouped(22203, make([]uint64, 300)...)
	for i := range many {
		many[i].Count = 1 << 10
	}
	for want, of := range map[string]plan.Group{
		"in a group NCCL used 1 channels from 1 on for all_reduce of 262144, its rules give": {other},
		"the model does not know groups with so many collectives":                            {many},
	} {
		j := &plan.Job{Comms: []plan.Comm{{Ranks: all(4), Calls: []plan.Group{of}}}, Ranks: [][]plan.Item{{{Kind: plan.Collective}}}}
		f := inOrder(rdma())
		if _, err := SimulateJob(context.Background(), j, f); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
