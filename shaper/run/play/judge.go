// SPDX-License-Identifier: Apache-2.0

package play

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
	"github.com/ddlemu/ddlemu/shaper/run/internal/expected"
	"github.com/ddlemu/ddlemu/shaper/run/job"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// judge judges the messages, the values, and that nothing went around the emulated links.
func (a *attempt) judge(j *job.Job, r *Result) {
	v := j.Verdict()
	for _, text := range a.facts.wrong {
		v.Add(verdict.Finding{Cause: verdict.CauseJob, Text: text})
	}
	transports := a.ranks.Connections()
	for _, c := range slices.Sorted(maps.Keys(a.facts.Topologies)) {
		emulate.JudgeConnections(&v, a.facts.Topologies[c], transports, a.facts.nodesOf(c))
		transports = nil // they are judged once
	}
	emulate.JudgeTraffic(&v, a.leastTraffic(), j.Traffic())
	if p := a.facts.logProblem; p != "" {
		a.o.On.Unchecked(&v, verdict.CauseJob, "the nodes that NCCL counted and its connections are not checked: "+p)
	}
	a.o.On.Unchecked(&v, verdict.CauseFabric, j.JudgeLinkChanges(&v))
	if n := j.Concurrent(); n > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("%d other jobs used the fabric at the same time", n))
	}
	if !a.o.NoCheck && r.Checked == 0 && len(a.facts.counts) > 0 {
		v.Notes = append(v.Notes, "no values were compared")
	}
	r.Verdict = v
}

// leastTraffic is the minimum of bytes that the calls of the replay move between each node and the others.
func (a *attempt) leastTraffic() map[int]job.Traffic {
	least := map[int]job.Traffic{}
	for _, c := range used(a.o.Workload) {
		ranks := a.o.Workload.Comms[c].Ranks
		node := func(rank int) int { return a.facts.Node(ranks[rank]) }
		times := expected.New(a.fabric, node, os.Getenv)
		for call, n := range a.facts.counts {
			switch {
			case call.Comm != c:
			case call.Kind == workload.Send:
				addMessages(least, node(call.From), node(call.To), uint64(n)*bytesOf(call))
			case rankFuncs[call.Func] != "":
				if _, known := call.Func.Collective(); known {
					times.Move(a.caseOf(call))
				}
			}
		}
		for n, t := range times.Least() {
			sum := least[n]
			sum.Out += t.Out
			sum.In += t.In
			least[n] = sum
		}
	}
	return least
}

func bytesOf(c Call) uint64 {
	op := workload.Op{Kind: c.Kind, Func: c.Func, Count: c.Count, Type: c.Type}
	return uint64(op.Bytes(1))
}

// addMessages adds bytes from one node to another.
func addMessages(least map[int]job.Traffic, from, to int, bytes uint64) {
	if from == to {
		return
	}
	out, in := least[from], least[to]
	out.Out += bytes
	in.In += bytes
	least[from], least[to] = out, in
}
