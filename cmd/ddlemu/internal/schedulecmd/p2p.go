// SPDX-License-Identifier: Apache-2.0

package schedulecmd

import (
	"context"
	"errors"
	"time"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/play"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/p2p"
)

// The values of --via.
const (
	viaNet = "net"
	viaP2P = "p2p"
)

// rowP2P plays the schedule as groups of ncclSend and ncclRecv of real NCCL.
func (r *scheduleRun) rowP2P(ctx context.Context, cut *schedule.Cut, inPlace bool) (row scheduleRow, note string,
	err error) {
	plan, err := p2p.Make(r.s, cut, inPlace, r.root)
	if err != nil {
		return row, "", cli.BadInput("--via p2p: %w", err)
	}
	ix, err := plan.Workload(r.s.Name).Index()
	if err != nil {
		return row, "", err
	}
	e, err := onPlace(r.g, r.place, r.o.scheduleFabric.Flags, r.o.NCCL, bench.Config{Stderr: r.g.Stderr})
	if err != nil {
		return row, "", err
	}
	defer e.Dir.Close()
	e.Progress = r.say
	out, err := play.Run(ctx, play.Options{On: e, Workload: ix, Groups: plan, Repeat: r.o.Iters})
	if err != nil {
		return row, "", err
	}
	row = r.newRow(cut, inPlace)
	var times []time.Duration
	for _, s := range out.Steps {
		times = append(times, s.Time)
	}
	row.Avg, row.Min = meanAndLeast(times)
	if len(out.Model) > 0 {
		row.Expected = units.Microseconds(out.Model[0].Time)
		row.Diff = new(100 * (row.Avg/row.Expected - 1))
	}
	if r.s.Coll.HasResult() {
		if wrong := uint64(out.Wrong); out.Checked > 0 {
			row.Wrong = &wrong
		} else {
			return row, "", errors.New("no element was compared")
		}
	}
	row.Busbw = row.algbw(row.Avg) * busFactor(r.s) / 1e9
	r.verdicts, r.nccl = append(r.verdicts, out.Verdict), out.Facts.NCCL
	return row, out.Problem, nil
}
