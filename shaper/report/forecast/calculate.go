// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric/verdict"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
)

// Calculate calculates the calls of e with the model, and judges the times of log by them if it is not nil; notes are
// of the log. If it is interrupted, it returns a report of the rows so far with the error, in which nothing is judged.
// Else there is no report with an error.
func Calculate(ctx context.Context, e emulate.Options, log *tables.Table, notes []string) (*Report, error) {
	rows, info, stopped := emulate.Expect(ctx, e)
	if stopped != nil && ctx.Err() == nil {
		return nil, stopped
	}
	if stopped != nil {
		log = nil // it needs all rows
	}
	r := NewReport(rows, e.Bench.Ranks, log)
	r.describe(&e, &info)
	r.explainRows(rows, &e.Config)
	if log != nil {
		r.RankCauses(ctx, e, emulate.Expect)
		r.nameSlow()
		r.judgeNetwork(portsOf(&e.Config), log)
		r.Notes = slices.Concat(r.Notes, otherNodes(log.Nodes, r.Nodes), notes, log.NCCLRemark(info.NCCL),
			log.LaunchRemarks(), noTime(e.Config.GPU))
	} else {
		r.NotIn = append([]string{emulate.NoRun}, r.NotIn...)
	}
	uncrossed, err := emulate.UncrossedBy(&e.Config, rows)
	caveats, err2 := e.Notes()
	if err := cmp.Or(err, err2); err != nil {
		return nil, err
	}
	r.Notes = slices.Concat(r.Notes, uncrossed, caveats, e.Header.Unused)
	if stopped != nil {
		r.Verdict = verdict.Incomplete
	}
	return r, stopped
}

// describe says in r on what the times are calculated.
func (r *Report) describe(e *emulate.Options, info *bench.Info) {
	c, in := &e.Config, e.Header.Fabric
	r.NCCL, r.Profile, r.Nodes, r.GPU, r.GPUTime = info.NCCL, c.Name, e.Nodes(c), c.GPUName(), in.GPUTime
	r.InForce, r.Fabric, r.NotIn = in.Changes(), in, e.NotIn(c, true)
	r.Collective, r.Iters, r.Root, r.Seed = e.Bench.Collective.String(), e.Bench.Iters, e.Bench.Root, c.Seed
}

// otherNodes is a note if the ranks of a log were on another number of hosts than here. hosts is 0 if the log does not
// say it.
func otherNodes(hosts, nodes int) []string {
	switch hosts {
	case 0, nodes:
		return nil
	case 1:
		return []string{
			fmt.Sprintf(
				"the ranks of the log were on 1 host, here they are on %d: its times are of what joins the GPUs "+
					"of a host, "+
					"and the links of a fabric are between nodes", nodes)}
	}
	return []string{fmt.Sprintf("the ranks of the log were on %s, here they are on %d: give --nodes %d",
		units.Count(hosts, "host"), nodes, hosts)}
}

// noTime is a note if the kind of GPU has no times.
func noTime(gpu *configs.GPU) []string {
	if gpu == nil || gpu.Time != nil {
		return nil
	}
	return []string{fmt.Sprintf("the time of nodes with %s is not known: one fixed cost of a call stands for it "+
		"(docs/node-time.md)", gpu.Name)}
}

// portsOf are the NICs of a node of c. With the time of nodes they have the rate of its NICs.
func portsOf(c *configs.Fabric) ports {
	return ports{Number: c.NICsPerNode, Line: float64(c.Link.Bandwidth),
		Payload: bitsPerByte * c.Link.PayloadRate()}
}
