// SPDX-License-Identifier: Apache-2.0

package play

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
	ncclplan "github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/internal/expected"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// callGroup are the collectives of a group on one communicator, at least two. NCCL decides on them together.
type callGroup struct {
	calls []Call
	lines []nccllog.Decision // in the order of NCCL's log
	// decided are the decisions on the calls; nil until call.
	decided []nccllog.Decision
}

func keyOf(calls []Call) string { return fmt.Sprint(calls) }

// isSchedule says whether NCCL decides on how to do a call. AllToAll, Gather and Scatter are sends and receives.
func (c *Call) isSchedule() bool {
	_, known := c.Func.Collective()
	return c.Kind == workload.Coll && known && c.Func != workload.AllToAll
}

// isNothing says whether NCCL discards a call, or copies within a rank.
func (f *Facts) isNothing(c *Call) bool {
	return c.isSchedule() && (c.Count == 0 || len(f.Workload.Comms[c.Comm].Ranks) == 1)
}

// schedules are the calls of an operation on a communicator on which NCCL decides.
func (f *Facts) schedules(it *item, comm int32) []Call {
	var out []Call
	for i := range it.calls {
		if c := &it.calls[i].what; c.Comm == comm && c.isSchedule() && !f.isNothing(c) {
			out = append(out, *c)
		}
	}
	return out
}

// commsOf are the communicators of an operation in the order of their first calls that do something.
func (f *Facts) commsOf(it *item) []int32 {
	var out []int32
	for i := range it.calls {
		if c := &it.calls[i].what; !f.isNothing(c) && !slices.Contains(out, c.Comm) {
			out = append(out, c.Comm)
		}
	}
	return out
}

// inOrder are the communicators of a group in the order in which NCCL launches their kernels.
func (m *modeller) inOrder(comms []int32) ([]int32, error) {
	if len(comms) < 2 {
		return comms, nil
	}
	if byHash, err := ncclplan.StartsByHash(m.job.Comms[comms[0]].P2P.Version); err != nil || !byHash {
		return comms, err
	}
	hash := map[int32]uint64{}
	for _, c := range comms {
		id := m.facts.ids[c]
		var err error
		if hash[c], err = strconv.ParseUint(id, 0, 64); err != nil {
			return nil, fmt.Errorf("the order of a group's communicators is not known: NCCL's log says commId %q of %s",
				id, m.facts.Workload.Comms[c].Name)
		}
	}
	out := slices.Clone(comms)
	slices.SortFunc(out, func(a, b int32) int { return cmp.Compare(hash[a], hash[b]) })
	return out, nil
}

// groups are the groups of a communicator, as its first rank calls them.
func (f *Facts) groups(plans []*plan, comm int32) []*callGroup {
	var out []*callGroup
	seen := map[string]bool{}
	p := plans[f.Workload.Comms[comm].Ranks[0]]
	for i := range p.items {
		if len(p.items[i].calls) < 2 {
			continue
		}
		calls := f.schedules(&p.items[i], comm)
		if key := keyOf(calls); len(calls) > 1 && !seen[key] {
			seen[key] = true
			out = append(out, &callGroup{calls: calls})
		}
	}
	return out
}

// decideGroups asks NCCL for its decisions on the groups of a communicator.
func (a *attempt) decideGroups(ctx context.Context, plans []*plan, comm int32) error {
	for _, g := range a.facts.groups(plans, comm) {
		var cases []bench.Case
		for _, call := range g.calls {
			cases = append(cases, a.caseOf(call))
		}
		var err error
		if g.lines, err = a.ranks.DecideGroup(ctx, commName(comm), cases); err != nil {
			return err
		}
		a.facts.Groups[comm] = append(a.facts.Groups[comm], g)
	}
	return nil
}

// inGroup is NCCL's decision on a call in the first group that has it; nil if it is not known.
func (f *Facts) inGroup(call Call) *nccllog.Decision {
	for _, g := range f.Groups[call.Comm] {
		if i := slices.Index(g.calls, call); i >= 0 && g.decided != nil {
			return &g.decided[i]
		}
	}
	return nil
}

// call is what NCCL does with a group: its collectives in their order, with the decisions from NCCL's log.
func (g *callGroup) call(f *Facts, comm *expected.Times) (ncclplan.Group, error) {
	decisions := make([]ncclplan.Decision, len(g.calls))
	for i, c := range g.calls {
		d, err := comm.Decision(f.Decided[c])
		if err != nil {
			return nil, err
		}
		decisions[i] = d
	}
	lists, err := ncclplan.Aggregates(decisions, func(i int) string { return g.calls[i].class() })
	if err != nil {
		return nil, err
	}
	if g.decided, err = g.assign(f, lists); err != nil {
		return nil, err
	}
	var out ncclplan.Group
	for _, list := range lists {
		var part []ncclplan.Decision
		for _, i := range list {
			decided := f.Decided[g.calls[i]]
			decided.Decision = &g.decided[i]
			d, err := comm.Decision(decided)
			if err != nil {
				return nil, err
			}
			part = append(part, d)
		}
		out = append(out, part)
	}
	return out, nil
}

// assign returns the decision on each call. NCCL before 2.23 logs one for each of the lists, later ones for each call.
func (g *callGroup) assign(f *Facts, lists [][]int) ([]nccllog.Decision, error) {
	var lines []nccllog.Decision
	for _, l := range g.lines {
		lines = append(lines, slices.Repeat([]nccllog.Decision{l}, l.Count)...)
	}
	perList := len(lines) > 0 && lines[0].Func == ""
	known := true
	take := func(name workload.Func, bytes int64) (l nccllog.Decision) {
		if known = known && len(lines) > 0 && lines[0].Func == string(name) && lines[0].Bytes == bytes; known {
			l, lines = lines[0], lines[1:]
		}
		return l
	}
	out := make([]nccllog.Decision, len(g.calls))
	for _, list := range lists {
		sum := int64(0)
		for _, i := range list {
			c := g.calls[i]
			if sum += f.Decided[c].Size; !perList {
				out[i] = take(c.Func, int64(bytesOf(Call{Kind: workload.Send, Count: c.Count, Type: c.Type})))
			}
		}
		if !perList {
			continue
		}
		l := take("", sum)
		for _, i := range list {
			out[i] = l
		}
	}
	if !known || len(lines) > 0 {
		return nil, fmt.Errorf(
			"NCCL's decisions on a group of %d collectives are not known: its log has others than the model expects",
			len(g.calls))
	}
	return out, nil
}

// class is the same for calls of a function that NCCL may decide on together: whose types, and operators as its kernels
// know them, are the same.
func (c *Call) class() string {
	if !c.Func.Reduces() {
		return ""
	}
	op, integer := c.RedOp, strings.HasPrefix(rankTypes[c.Type], "int") || strings.HasPrefix(rankTypes[c.Type], "uint")
	switch {
	case op == "min" || op == "max":
		op = "minmax"
	case op == "avg" && integer:
		op = "sum, then divide"
	}
	return rankTypes[c.Type] + " " + op
}
