// SPDX-License-Identifier: Apache-2.0

package schedulecmd

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/chart"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/model"
)

type scheduleSweepOptions struct {
	scheduleMakeOptions
	scheduleFabric
	plotOption
	Ks, Grains, Size string
}

func (o *scheduleSweepOptions) AddFlags(g *cli.Global, fs *pflag.FlagSet) {
	o.scheduleMakeOptions.AddFlags(fs)
	o.scheduleFabric.AddFlags(fs)
	o.plotOption.AddFlags(fs, "the bus bandwidth over the grain")
	fs.StringVar(&o.Ks, "ks", "1,2,4,8", "`numbers` for --k")
	fs.StringVar(&o.Grains, "grains", "16K,64K,256K,1M,4M,16M", "`sizes` for --grain")
	fs.StringVar(&o.Size, "size", "1G", "`size` of the call")
	g.AddJSONFlag(fs)
	g.AddQuietFlag(fs)
}

func newScheduleSweepCommand(g *cli.Global) *cobra.Command {
	o := &scheduleSweepOptions{}
	cmd := &cobra.Command{
		Use:   "sweep ring|allpairs|tree|chain|double-binary",
		Short: "Calculate what k and the grain of a schedule do",
		Long: `Calculate with the link model how long a schedule takes for several k and grains, at one
size. Rows are grains, columns are k.

` + cli.ExitHelp,
		Example: `  ddlemu schedule sweep allpairs --gpus 8 --profile dgx-a100-nvlink
  ddlemu schedule sweep ring --coll all_reduce --ks 1,4 --grains 64K,1M --profile ndr400 --plot ring.svg`,
		Args: oneKind,
		RunE: func(cmd *cobra.Command, args []string) error { return runScheduleSweep(cmd.Context(), g, o, args[0]) },
	}
	o.AddFlags(g, cmd.Flags())
	return cmd
}

// sweepResult is the result, for --json.
type sweepResult struct {
	Kind   string      `json:"kind"`
	Coll   string      `json:"collective"`
	Fabric string      `json:"fabric"`
	Size   int64       `json:"size"`
	Bound  float64     `json:"bound_us"`
	Ks     []int       `json:"k"`
	Grains []int64     `json:"grains"`
	Times  [][]float64 `json:"times_us"` // by grain, then k

	factor float64 // from algbw to busbw
}

func runScheduleSweep(ctx context.Context, g *cli.Global, o *scheduleSweepOptions, kind string) error {
	r, err := o.lists()
	if err != nil {
		return err
	}
	if err := o.plotOption.check(); err != nil {
		return err
	}
	place, err := o.place(g, o.GPUs)
	if err != nil {
		return err
	}
	show, stop := g.ShowProgress("schedule sweep")
	defer stop()
	r.Kind, r.Fabric = kind, place.Fabric.Config.Name
	for i, grain := range r.Grains {
		r.Times = append(r.Times, nil)
		for _, k := range r.Ks {
			s, err := o.make(fmt.Sprintf("%s:k=%d,grain=%d", kind, k, grain))
			if err != nil {
				return err
			}
			if err := r.add(ctx, place, s); err != nil {
				return fmt.Errorf("k %d, grain %d: %w", k, grain, err)
			}
		}
		show.Part("times are calculated", float64(i+1)/float64(len(r.Grains)))
	}
	if err := o.plotOption.write(r.chart()); err != nil {
		return err
	}
	if g.JSON {
		return g.PrintJSON(r)
	}
	r.print(g)
	return nil
}

// lists reads the lists of k and grains, and the size.
func (o *scheduleSweepOptions) lists() (*sweepResult, error) {
	r := &sweepResult{}
	var err error
	if r.Size, err = bench.ParseSize(o.Size); err != nil || r.Size <= 0 {
		return nil, cli.BadInput("--size %s: must be a size such as 1G", o.Size)
	}
	for _, text := range strings.Split(o.Ks, ",") {
		k, err := strconv.Atoi(text)
		if err != nil || k < 1 {
			return nil, cli.BadInput("--ks %s: must be numbers such as 1,2,4", o.Ks)
		}
		r.Ks = append(r.Ks, k)
	}
	for _, text := range strings.Split(o.Grains, ",") {
		grain, err := parseGrain(text)
		if err != nil || grain == 0 {
			return nil, cli.BadInput("--grains %s: must be sizes such as 64K,1M, of 256 bytes to 1G each", o.Grains)
		}
		r.Grains = append(r.Grains, grain)
	}
	return r, nil
}

// add adds the time of a schedule to the last row.
func (r *sweepResult) add(ctx context.Context, place *model.Place, s *schedule.Schedule) error {
	cut, err := s.Cut(uint64(r.Size), 4)
	if err != nil {
		return &cli.InputError{Err: err}
	}
	f, err := place.Expect()
	if err != nil {
		return err
	}
	out, err := model.Play(ctx, s, &cut, f, 1)
	if err != nil {
		return err
	}
	r.Coll, r.factor = string(s.Coll), busFactor(s)
	r.Bound = units.Microseconds(place.Bound(s, &cut))
	last := len(r.Times) - 1
	// The time per byte, if the size is not a multiple of the chunks.
	t := units.Microseconds(time.Duration(out.Times[0])) * float64(r.Size) / float64(cut.Bytes)
	r.Times[last] = append(r.Times[last], t)
	return nil
}

func (r *sweepResult) print(g *cli.Global) {
	fmt.Fprintf(g.Stdout, "# ddlemu schedule sweep %s: %s of %d bytes on fabric %s, expected times in us, bound %s\n",
		r.Kind, r.Coll, r.Size, r.Fabric, cli.Us(r.Bound))
	header := []string{"grain "}
	for _, k := range r.Ks {
		header = append(header, fmt.Sprintf("k %d ", k))
	}
	t := cli.NewTable(g.Stdout, header...)
	for i, grain := range r.Grains {
		row := table.Row{units.Size(grain).String()}
		for _, x := range r.Times[i] {
			row = append(row, twoDigits(x))
		}
		t.AppendRow(row)
	}
	t.Render()
}

// chart draws the bus bandwidth over the grain, a line for each k.
func (r *sweepResult) chart() *chart.Chart {
	out := &chart.Chart{Title: fmt.Sprintf("%s: %s of %s on %s", r.Kind, r.Coll, units.Size(r.Size), r.Fabric),
		X: "grain", Y: "bus bandwidth, GB/s", Legend: chart.BottomRight}
	busbw := func(us float64) float64 { return float64(r.Size) * r.factor / us / 1e3 }
	bound := chart.Line{Name: boundLine}
	for _, grain := range r.Grains {
		out.Ticks = append(out.Ticks, sizeTick(grain))
		if r.Bound > 0 {
			bound.Points = append(bound.Points, chart.Point{X: float64(grain), Y: busbw(r.Bound)})
		}
	}
	for n, k := range r.Ks {
		line := chart.Line{Name: fmt.Sprintf("k %d", k)}
		for i, grain := range r.Grains {
			line.Points = append(line.Points, chart.Point{X: float64(grain), Y: busbw(r.Times[i][n])})
		}
		out.Lines = append(out.Lines, line)
	}
	out.Lines = append(out.Lines, bound)
	return out
}
