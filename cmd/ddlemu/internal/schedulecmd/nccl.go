// SPDX-License-Identifier: Apache-2.0

package schedulecmd

import (
	"context"
	"fmt"
	"math"

	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/runcmd"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/compare"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/model"
)

// ncclColumn is the argument of compare that stands for NCCL's own algorithms.
const ncclColumn = "nccl"

// addNCCL adds a column of what real NCCL would choose for each size, and how long that takes in the model until the
// last rank is done: "last rank" of `ddlemu expect`.
func addNCCL(ctx context.Context, g *cli.Global, o *scheduleCompareOptions, t *compare.Table,
	place *model.Place) error {
	bo := runcmd.BenchOptions{
		Begin: o.Begin, End: o.End, Step: "1M", Factor: o.Factor, Iters: 20, Warmup: 1, Cycles: 1, Type: "int32",
		Op: "sum", Flags: o.scheduleFabric.Flags,
	}
	b, err := bo.Bench(g, t.Coll)
	if err != nil {
		return cli.BadInput("nccl: %w", err)
	}
	e, err := onPlace(g, place, o.scheduleFabric.Flags, "", b)
	if err != nil {
		return fmt.Errorf("nccl: %w", err)
	}
	defer e.Dir.Close()
	rows, info, err := emulate.Expect(ctx, e)
	if err != nil {
		return fmt.Errorf("nccl: %w", err)
	}
	t.AddColumn(ncclColumn, func(size int64) *float64 { return forecastOf(rows, size) })
	t.Notes = append(t.Notes,
		fmt.Sprintf("nccl is NCCL %s with its own decisions, 20 calls back to back; the others are single calls",
			info.NCCL))
	return nil
}

// onPlace is NCCL on the fabric of a schedule, with a rank for each GPU. version is the value of --nccl. The caller
// closes the folder.
func onPlace(g *cli.Global, place *model.Place, fs *pflag.FlagSet, version string, b bench.Config) (e emulate.Options,
	err error) {
	b.Ranks = place.GPUs
	cfg := place.Fabric.Config
	cfg.GPUsPerNode, cfg.NodeTime = place.PerNode, false // steps of a schedule cost the links alone
	e, err = g.RanksOn(&cfg, b, fs, version, false, false)
	g.Tell(e.Header.Unused)
	return e, err
}

// forecastOf is the expected time in us of the row nearest to a size, nil if it is not known.
func forecastOf(rows []emulate.Forecast, size int64) *float64 {
	var best *emulate.Forecast
	for i := range rows {
		r := &rows[i]
		if best == nil || math.Abs(float64(r.Case.Size-size)) < math.Abs(float64(best.Case.Size-size)) {
			best = r
		}
	}
	if best == nil || !best.Known {
		return nil
	}
	return new(float64(best.LastRank) / 1e3)
}
