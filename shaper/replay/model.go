// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"context"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/bench"
	"github.com/ddlemu/ddlemu/shaper/bench/emulate"
	"github.com/ddlemu/ddlemu/shaper/expect"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// expected returns when each operation of each rank should begin and end, as the replay measures it, in stated ns. It
// plays NCCL's schedules of all calls with shaper/expect: a host costs nothing there, and data within a node takes no
// time.
func (f *Facts) expected(ctx context.Context) ([][]bench.Span, error) {
	m := &modeller{facts: f, numbers: map[Call]int{}}
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
	of, err := emulate.NewCommunicator(f.Fabric, f.Node, f.variables.get).Fabric(nil)
	if err != nil {
		return nil, err
	}
	e, err := expect.SimulateJob(ctx, &m.job, of)
	if err != nil {
		return nil, err
	}
	out := make([][]bench.Span, len(e.Spans))
	for r, spans := range e.Spans {
		for _, s := range spans {
			out[r] = append(out[r], bench.Span{Ready: s.Start, End: s.End})
		}
	}
	return out, nil
}

// modeller makes the job of shaper/expect.
type modeller struct {
	facts   *Facts
	job     expect.Job
	numbers map[Call]int // of collectives, in the Calls of their communicator
}

// addComms adds the communicators, with the decisions on their calls. Those that no operation names stay empty, so that
// numbers are the same as in the workload.
func (m *modeller) addComms() error {
	ix := m.facts.Workload
	m.job.Comms = make([]expect.JobComm, len(ix.Comms))
	for c, topology := range m.facts.Topologies {
		ranks := ix.Comms[c].Ranks
		comm := emulate.NewCommunicator(m.facts.Fabric, func(r int) int { return m.facts.Node(ranks[r]) }, m.facts.variables.get)
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
			jc.Calls = append(jc.Calls, d)
		}
		var err error
		if jc.P2P, err = comm.Decision(bench.Case{Collective: nccl.SendRecv, Ranks: len(ranks), NCCL: m.facts.NCCL, Topology: topology}); err != nil {
			return fmt.Errorf("sends and receives on %s: %w", ix.Comms[c].Name, err)
		}
		f, err := comm.Fabric(m.facts.NICs[c])
		if err != nil {
			return err
		}
		jc.Path = f.Path
	}
	return nil
}

// items are those of a plan, one for one.
func (m *modeller) items(p *plan) ([]expect.Item, error) {
	out := make([]expect.Item, len(p.items))
	last := map[int32]int{} // by stream
	for i := range p.items {
		it := &p.items[i]
		out[i] = expect.Item{Stream: int(it.stream), After: it.after}
		var err error
		switch it.op.Kind {
		case workload.Calc:
			out[i].Nanos = it.op.Nanos
		case workload.Wait:
			if out[i].Kind = expect.HostWait; len(it.op.After) == 0 {
				out[i].After = all(last)
			}
		default:
			err = m.calls(&out[i], it, p.rank)
		}
		if err != nil {
			return nil, fmt.Errorf("rank %d, %s: %w", p.rank, m.facts.describe(it), err)
		}
		if it.stream >= 0 {
			last[it.stream] = i
		}
	}
	return out, nil
}

func all(last map[int32]int) []int {
	var out []int
	for _, i := range last {
		out = append(out, i)
	}
	slices.Sort(out)
	return out
}

// calls sets what an item calls.
func (m *modeller) calls(out *expect.Item, it *item, rank int) error {
	first := it.calls[0].what
	out.Comm = int(first.Comm)
	ranks := m.facts.Workload.Comms[first.Comm].Ranks
	if len(it.calls) == 1 && first.Kind == workload.Coll {
		if _, decides := first.Func.Collective(); decides {
			return m.collective(out, first, len(ranks))
		}
	}
	out.Kind = expect.Exchange
	out.Sends, out.Recvs = map[int]uint64{}, map[int]uint64{}
	for _, c := range it.calls {
		if c.what.Comm != first.Comm {
			return fmt.Errorf("the model does not know groups of several communicators")
		}
		if err := exchange(out, c.what, slices.Index(ranks, rank), len(ranks)); err != nil {
			return err
		}
	}
	return nil
}

func (m *modeller) collective(out *expect.Item, c Call, ranks int) error {
	if ranks == 1 || c.Count == 0 {
		return nil // it takes no time
	}
	number, ok := m.numbers[c]
	if !ok {
		if m.facts.logProblem != "" {
			return fmt.Errorf("NCCL's decision is not known: %s", m.facts.logProblem)
		}
		return fmt.Errorf("NCCL's decision is not known")
	}
	out.Kind, out.Call = expect.Collective, number
	return nil
}

// exchange adds the messages of a call of rank at of a communicator.
func exchange(out *expect.Item, c Call, at, ranks int) error {
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
			if c.Func == workload.AllToAll || c.Func == workload.Gather && peer == c.Root || c.Func == workload.Scatter && at == c.Root {
				send(peer)
			}
			if c.Func == workload.AllToAll || c.Func == workload.Gather && at == c.Root || c.Func == workload.Scatter && peer == c.Root {
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
