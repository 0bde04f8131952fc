// SPDX-License-Identifier: Apache-2.0

package play

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/expect"
	ncclplan "github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/internal/expected"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// expected returns when each operation of each rank should begin and end, as the replay measures it, in stated ns. It
// plays NCCL's schedules of all calls with shaper/nccl/expect: hosts, kernels and data within a node take the time of
// the fabric's nodes, none if it has none.
func (f *Facts) expected(ctx context.Context) ([][]bench.Span, error) {
	m, err := newModeller(f)
	if err != nil {
		return nil, err
	}
	return m.play(ctx)
}

// newModeller makes the job of the plans.
func newModeller(f *Facts) (*modeller, error) {
	m := &modeller{facts: f, numbers: map[Call]int{}, groups: map[string]int{}}
	var err error
	if m.fabric, err = expected.New(f.Fabric, f.Node, f.variables.get).FabricOf(nil, nil); err != nil {
		return nil, err
	}
	for i := range m.fabric.Changes {
		m.fabric.Changes[i].Time = max(m.fabric.Changes[i].Time-int64(f.begun), 0)
	}
	m.fabric.Connected = connectsFirst(f.Fabric)
	if err := m.addComms(); err != nil {
		return nil, err
	}
	for _, p := range f.plans {
		items, err := m.items(p)
		if err != nil {
			return nil, err
		}
		m.job.Ranks = append(m.job.Ranks, items)
	}
	return m, nil
}

// play is when the operations begin and end.
func (m *modeller) play(ctx context.Context) ([][]bench.Span, error) {
	used := newOccupation(m.facts.Steps)
	m.fabric.Occupied = used.add
	e, err := expect.SimulateJob(ctx, &m.job, m.fabric)
	if err != nil {
		return nil, err
	}
	m.facts.occupied = used
	out := make([][]bench.Span, len(e.Spans))
	for r, spans := range e.Spans {
		first := 0
		for _, last := range m.last[r] {
			out[r] = append(out[r], bench.Span{Ready: spans[first].Start, End: spans[last].End})
			first = last + 1
		}
	}
	return out, nil
}

// modeller makes the job of shaper/nccl/expect.
type modeller struct {
	facts   *Facts
	job     ncclplan.Job
	fabric  *expect.Fabric
	numbers map[Call]int   // of collectives that are not in a group, in the Calls of their communicator
	groups  map[string]int // of groups, the same
	last    [][]int        // by rank and item: the last of its items in the job
}

// addComms adds the communicators, with the decisions on their calls. Those that no operation names stay empty, so that
// numbers are the same as in the workload.
func (m *modeller) addComms() error {
	ix := m.facts.Workload
	m.job.Comms = make([]ncclplan.Comm, len(ix.Comms))
	of := make([]*expect.Fabric, len(ix.Comms)) // for the ranks of each
	m.fabric.Path = func(c expect.Conn) ([]link.PathHop, []int, error) { return of[c.Comm].Path(c) }
	m.fabric.Made = func(c expect.Conn) (through, place int) {
		if made := of[c.Comm].Made; made != nil {
			return made(c)
		}
		return c.Src, 0
	}
	for c, topology := range m.facts.Topologies {
		ranks := ix.Comms[c].Ranks
		comm := expected.New(m.facts.Fabric, func(r int) int { return m.facts.Node(ranks[r]) },
			m.facts.variables.get)
		jc := &m.job.Comms[c]
		jc.Ranks = ranks
		for call, decided := range m.facts.Decided {
			if call.Comm != c || decided.Count == 0 {
				continue
			}
			d, err := comm.Decision(decided)
			if err != nil {
				return fmt.Errorf("%s of %d on %s: %w", call.Func, call.Count, ix.Comms[c].Name, err)
			}
			m.numbers[call] = len(jc.Calls)
			jc.Calls = append(jc.Calls, ncclplan.Alone(d))
		}
		for _, g := range m.facts.Groups[c] {
			call, err := g.call(m.facts, comm)
			if err != nil {
				return fmt.Errorf("a group of %d collectives on %s: %w", len(g.calls), ix.Comms[c].Name, err)
			}
			m.groups[keyOf(g.calls)] = len(jc.Calls)
			jc.Calls = append(jc.Calls, call)
		}
		var err error
		if jc.P2P, err = comm.Decision(bench.Case{Collective: nccl.SendRecv, Ranks: len(ranks), NCCL: m.facts.NCCL,
			Topology: topology}); err != nil {
			return fmt.Errorf("sends and receives on %s: %w", ix.Comms[c].Name, err)
		}
		if of[c], err = comm.FabricOf(m.facts.NICs[c], func(r int) int { return ranks[r] }); err != nil {
			return err
		}
	}
	return nil
}

// items are the items of a plan: one for each, or as many as a group has communicators.
func (m *modeller) items(p *plan) ([]ncclplan.Item, error) {
	var out []ncclplan.Item
	ends := make([]int, len(p.items))
	last := map[int32]int{} // by stream
	for i := range p.items {
		it := &p.items[i]
		var after []int
		for _, before := range it.after {
			after = append(after, ends[before])
		}
		switch it.op.Kind {
		case workload.Calc:
			out = append(out, ncclplan.Item{Stream: int(it.stream), After: after, Nanos: it.op.Nanos})
		case workload.Wait:
			if len(it.op.After) == 0 {
				after = slices.Sorted(maps.Values(last))
			}
			out = append(out, ncclplan.Item{Kind: ncclplan.HostWait, After: after})
		default:
			calls, err := m.calls(it, p.rank)
			if err != nil {
				return nil, fmt.Errorf("rank %d, %s: %w", p.rank, m.facts.describe(it), err)
			}
			calls[0].After = after
			out = append(out, calls...)
		}
		ends[i] = len(out) - 1
		if it.stream >= 0 {
			last[it.stream] = ends[i]
		}
	}
	m.last = append(m.last, ends)
	return out, nil
}

// calls are what an item calls, on one communicator after the other: NCCL launches a kernel for each.
func (m *modeller) calls(it *item, rank int) ([]ncclplan.Item, error) {
	comms, err := m.inOrder(m.facts.commsOf(it))
	if err != nil {
		return nil, err
	}
	var out []ncclplan.Item
	for _, comm := range comms {
		call := ncclplan.Item{Kind: ncclplan.Exchange, Stream: int(it.stream), Comm: int(comm), Sends: map[int]uint64{},
			Recvs: map[int]uint64{}}
		if err := m.callsOn(&call, it, rank); err != nil {
			return nil, err
		}
		out = append(out, call)
	}
	if out == nil {
		out = []ncclplan.Item{{Stream: int(it.stream)}} // it takes no time
	}
	return out, nil
}

// callsOn sets what an item calls on the communicator of out.
func (m *modeller) callsOn(out *ncclplan.Item, it *item, rank int) error {
	comm := int32(out.Comm)
	ranks := m.facts.Workload.Comms[comm].Ranks
	at := slices.Index(ranks, rank)
	collectives := m.facts.schedules(it, comm)
	if c := it.calls[0].what; len(it.calls) == 1 && c.Func == workload.AllToAll && c.Count > 0 {
		collectives = []Call{c} // the same for all ranks
		out.Kind = ncclplan.Collective
	}
	for i := range it.calls {
		if c := &it.calls[i].what; c.Comm == comm && out.Kind == ncclplan.Exchange && !c.isSchedule() {
			if err := exchange(out, *c, at, len(ranks)); err != nil {
				return err
			}
		}
	}
	if len(collectives) == 0 {
		return nil
	}
	known := false
	if out.Kind = ncclplan.Collective; len(collectives) > 1 {
		out.Call, known = m.groups[keyOf(collectives)]
	} else {
		out.Call, known = m.numbers[collectives[0]]
	}
	switch {
	case known:
		return nil
	case m.facts.logProblem != "":
		return fmt.Errorf("NCCL's decision is not known: %s", m.facts.logProblem)
	}
	return fmt.Errorf("NCCL's decision is not known")
}

// exchange adds the messages of a call of rank at of a communicator.
func exchange(out *ncclplan.Item, c Call, at, ranks int) error {
	bytes := bytesOf(Call{Kind: workload.Send, Count: c.Count, Type: c.Type})
	var err error
	send := func(to int) { err = addMessage(out.Sends, to, bytes, err) }
	receive := func(from int) { err = addMessage(out.Recvs, from, bytes, err) }
	switch {
	case c.Kind == workload.Send:
		send(c.To)
	case c.Kind == workload.Recv:
		receive(c.From)
	case c.Func == workload.Gather || c.Func == workload.Scatter || c.Func == workload.AllToAll:
		for peer := range ranks {
			if c.Func == workload.AllToAll || c.Func == workload.Gather && peer == c.Root ||
				c.Func == workload.Scatter && at == c.Root {
				send(peer)
			}
			if c.Func == workload.AllToAll || c.Func == workload.Gather && at == c.Root || c.Func == workload.Scatter &&
				peer == c.Root {
				receive(peer)
			}
		}
	default:
		return fmt.Errorf("the model does not know groups with a collective and other calls")
	}
	return err
}

// addMessage adds a message to or from a peer.
func addMessage(messages map[int]uint64, peer int, bytes uint64, err error) error {
	if _, twice := messages[peer]; twice && err == nil {
		return fmt.Errorf("the model does not know groups with two messages between the same ranks")
	}
	messages[peer] = bytes
	return err
}
