// SPDX-License-Identifier: Apache-2.0

package play

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// Facts are the facts known of a job before it is played: where its ranks are, and what NCCL decides.
type Facts struct {
	Workload *workload.Index
	Steps    int // that are played
	Fabric   *fabric.Fabric
	Node     func(rank int) int
	NCCL     string // version
	NCCLLib  string
	CUDA     string // soft or gpu
	// Topologies are by position in Workload.Comms, of communicators that are called and whose log is known.
	Topologies map[int32]*nccllog.Topology
	// Decided has NCCL's decision on each collective, with the topology and the NICs of its communicator. Gather and
	// Scatter are not there: NCCL decides nothing for them. Nor are collectives of no elements or of one rank: NCCL
	// discards them, or copies, which fails on the buffers of ranks that only decide.
	Decided map[Call]bench.Case

	// Groups are the groups with several collectives of a communicator.
	Groups map[int32][]*callGroup

	// NICs are the NICs of the connections of communicators, by position in Workload.Comms. With several NICs per node,
	// NCCL is made to connect all ranks of a communicator with sends and receives, because its log tells their NICs
	// then.
	NICs map[int32]map[nccllog.Pair]nccllog.NICs

	variables  jobVariables
	ids        map[int32]string // that NCCL gives communicators
	messages   map[int32]bool   // communicators with sends and receives
	plans      []*plan
	occupied   *occupation // by the model; nil if it does not know the workload
	wrong      []string    // values, in words
	logProblem string
	begun      time.Duration // of the fabric, when the steps began; 0 if only the model plays them
	counts     map[Call]int  // how often each call is made by the plans
	alone      map[Call]bool // collectives that are made without others on their communicator
}

// used are the communicators that operations name, in order.
func used(ix *workload.Index) []int32 {
	called := map[int32]bool{}
	for i := range ix.Programs {
		p := &ix.Programs[i]
		for n := range p.Calls {
			for part := range ix.Workload.Ops[p.Calls[n].Op].Parts() {
				for _, rank := range p.Ranks {
					if place, ok := ix.Place(part.Comm, rank); ok {
						called[place.Comm] = true
					}
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(called))
}

// connect makes the communicators.
func (a *attempt) connect(ctx context.Context) error {
	ix, info := a.o.Workload, a.ranks.Info()
	a.facts = Facts{
		Workload: ix, Steps: a.o.Steps, Fabric: a.fabric, Node: a.o.On.Node(a.fabric), NCCL: info.NCCL,
		NCCLLib: info.NCCLLib,
		CUDA:    a.o.On.Libraries.CUDA, Topologies: map[int32]*nccllog.Topology{},
		Decided: map[Call]bench.Case{}, NICs: map[int32]map[nccllog.Pair]nccllog.NICs{}, variables: a.o.variables,
		Groups: map[int32][]*callGroup{}, ids: map[int32]string{},
	}
	comms := used(ix)
	if err := a.connectAll(ctx, comms); err != nil {
		return err
	}
	for n, c := range comms {
		a.o.say(fmt.Sprintf("communicator %d of %d: %s connect", n+1, len(comms),
			units.Count(len(ix.Comms[c].Ranks), "rank")), -1)
		if err := a.ranks.InitComm(ctx, bench.Comm{Name: commName(c), Ranks: ix.Comms[c].Ranks}); err != nil {
			return fmt.Errorf("communicator %s of ranks %v: %w", ix.Comms[c].Name, ix.Comms[c].Ranks, err)
		}
		topology, err := a.ranks.Topology(commName(c))
		if err != nil {
			a.facts.logProblem = err.Error()
			continue
		}
		a.facts.Topologies[c] = topology
		a.facts.ids[c] = a.ranks.CommID(commName(c))
	}
	return nil
}

// connectAll makes a communicator of all ranks if some rank is in none of comms: with its first communicator a process
// joins the job and its clock.
func (a *attempt) connectAll(ctx context.Context, comms []int32) error {
	in := map[int]bool{}
	for _, c := range comms {
		for _, rank := range a.o.Workload.Comms[c].Ranks {
			in[rank] = true
		}
	}
	all := make([]int, a.o.Workload.Workload.Head.Ranks)
	if len(in) == len(all) {
		return nil
	}
	for i := range all {
		all[i] = i
	}
	if err := a.ranks.InitComm(ctx, bench.Comm{Name: "all", Ranks: all}); err != nil {
		return fmt.Errorf("communicator of all ranks: %w", err)
	}
	return nil
}

// decide asks NCCL for its decision on each collective.
func (a *attempt) decide(ctx context.Context) error {
	steps, err := StepsOf(a.o.Workload)
	if err != nil {
		return err
	}
	plans, err := (&planner{ix: a.o.Workload, steps: min(steps, a.o.Steps)}).plans()
	if err != nil {
		return err
	}
	calls := a.count(plans)
	if !a.ranks.DecidesOnly() {
		a.facts.logProblem = "on a GPU NCCL is not asked for its decisions before the calls"
		return nil
	}
	a.o.say("NCCL decides", -1)
	for _, c := range slices.Sorted(maps.Keys(a.facts.Topologies)) {
		var cases []bench.Case
		of := calls[c]
		for _, call := range of {
			cases = append(cases, a.caseOf(call))
		}
		if a.facts.messages[c] && connectsFirst(a.fabric) {
			cases = append(cases,
				a.caseOf(Call{Comm: c, Kind: workload.Coll, Func: workload.AllToAll, Count: 1, Type: "int8"}))
		}
		decided, err := a.ranks.DecideOn(ctx, commName(c), cases)
		if err != nil {
			return err
		}
		for i, call := range of {
			a.facts.Decided[call] = decided[i]
		}
		if len(decided) > 0 {
			a.facts.NICs[c] = decided[0].NICs
		}
		if err := a.decideGroups(ctx, plans, c); err != nil {
			return err
		}
	}
	if len(a.facts.Topologies) > 1 {
		a.ranks.Forget()
	}
	return nil
}

// connectsFirst says whether NCCL connects the ranks of a communicator for sends and receives before the job begins:
// its log tells the NICs and the order of these connections then.
func connectsFirst(f *fabric.Fabric) bool {
	return f.Config.NICsPerNode > 1 || f.PerFlow() || f.Config.NodeTime
}

// count counts the calls of one rank of each communicator, and returns the collectives on which NCCL decides.
func (a *attempt) count(plans []*plan) map[int32][]Call {
	calls, first := map[int32][]Call{}, map[int32]int{}
	a.facts.counts, a.facts.messages, a.facts.alone = map[Call]int{}, map[int32]bool{}, map[Call]bool{}
	for _, c := range used(a.o.Workload) {
		first[c] = a.o.Workload.Comms[c].Ranks[0]
	}
	for _, p := range plans {
		for i := range p.items {
			for _, c := range p.items[i].calls {
				what := c.what
				switch what.Kind {
				case workload.Send:
					a.facts.messages[what.Comm] = true
					a.facts.counts[what]++
				case workload.Coll:
					if first[what.Comm] != p.rank {
						continue
					}
					if len(p.items[i].calls) == 1 || len(a.facts.schedules(&p.items[i], what.Comm)) == 1 {
						a.facts.alone[what] = true
					}
					_, decides := what.Func.Collective()
					a.facts.messages[what.Comm] = a.facts.messages[what.Comm] || !decides
					if a.facts.counts[what] == 0 && decides && !a.facts.isNothing(&what) {
						calls[what.Comm] = append(calls[what.Comm], what)
					}
					a.facts.counts[what]++
				}
			}
		}
	}
	return calls
}

// caseOf is a collective as the bench measures it.
func (a *attempt) caseOf(c Call) bench.Case {
	coll, _ := c.Func.Collective()
	types, _ := nccl.ParseDataTypes(rankTypes[c.Type])
	op := nccl.Sum
	if c.RedOp != "" {
		if ops, err := nccl.ParseRedOps(c.RedOp); err == nil {
			op = ops[0]
		}
	}
	ranks := len(a.o.Workload.Comms[c.Comm].Ranks)
	one := workload.Op{Kind: c.Kind, Func: c.Func, Count: c.Count, Type: c.Type}
	return bench.Case{
		Collective: coll, Type: types[0], Op: op, Root: c.Root, Ranks: ranks, Size: one.Bytes(ranks), Count: c.Count,
		Warmup: 1, Iters: 1, Launches: a.facts.counts[c],
	}
}

// describe names an operation for a person.
func (f *Facts) describe(it *item) string {
	if it.op.Name != "" {
		return it.op.Name
	}
	if len(it.calls) == 0 {
		return string(it.op.Kind)
	}
	c := it.calls[0].what
	name := string(c.Func)
	if name == "" {
		name = string(c.Kind)
	}
	return fmt.Sprintf("%s of %d %s on %s", name, c.Count, c.Type, f.Workload.Comms[c.Comm].Name)
}

func (f *Facts) choices(r *Result) {
	for i := range r.Calls {
		f.choice(&r.Calls[i])
	}
}

// choice sets NCCL's choice for calls. Equal calls of different communicators of a name have the same one, unless these
// are placed differently: then the first is shown. Calls that are only made in groups have that for their first group.
func (f *Facts) choice(c *Calls) {
	best := Call{Comm: -1}
	for call, decided := range f.Decided {
		if string(call.Func) != c.Func || decided.Decision == nil || decided.Size != c.Size ||
			decided.Ranks != c.Ranks ||
			f.Workload.Comms[call.Comm].Name != c.Comm || best.Comm >= 0 && best.Comm <= call.Comm {
			continue
		}
		best = call
	}
	if best.Comm < 0 {
		return
	}
	d := f.Decided[best].Decision
	if !f.alone[best] {
		d = f.inGroup(best)
	}
	if d == nil {
		return
	}
	c.Algo, c.Proto, c.Channels = d.Algo, d.Proto, 0
	if d.ChannelLo >= 0 && d.ChannelHi >= d.ChannelLo {
		c.Channels = d.ChannelHi - d.ChannelLo + 1
	}
}

// nodesOf is the number of nodes of the ranks of a communicator.
func (f *Facts) nodesOf(comm int32) int {
	nodes := map[int]bool{}
	for _, rank := range f.Workload.Comms[comm].Ranks {
		nodes[f.Node(rank)] = true
	}
	return len(nodes)
}
