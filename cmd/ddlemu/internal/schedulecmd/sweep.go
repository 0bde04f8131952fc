// SPDX-License-Identifier: Apache-2.0

package schedulecmd

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/compare"
)

type scheduleSweepOptions struct {
	scheduleMakeOptions
	scheduleFabric
	plotOption
	Ks, Grains string
	Size       int64
}

func (o *scheduleSweepOptions) AddFlags(g *cli.Global, fs *pflag.FlagSet) {
	o.scheduleMakeOptions.AddFlags(fs)
	o.scheduleFabric.AddFlags(fs)
	o.plotOption.AddFlags(fs, "the bus bandwidth over the grain")
	fs.StringVar(&o.Ks, "ks", "1,2,4,8", "`numbers` for --k")
	fs.StringVar(&o.Grains, "grains", "16K,64K,256K,1M,4M,16M", "`sizes` for --grain")
	o.Size = 1 << 30
	fs.Var(cli.Size(&o.Size), "size", "`size` of the call")
	g.AddJSONFlag(fs)
	g.AddQuietFlag(fs)
}

func newScheduleSweepCommand(g *cli.Global) *cobra.Command {
	o := &scheduleSweepOptions{}
	cmd := &cobra.Command{
		Use:   "sweep ring|allpairs|tree|chain|double-binary",
		Short: "Calculate what k and the grain of a schedule do",
		Long: cli.Long("docs/schedules.md", `
Calculate with the link model how long a schedule takes for several k and grains, at one size.
Rows are grains, columns are k.`),
		Example: `  ddlemu schedule sweep allpairs --gpus 8 --profile dgx-a100-nvlink
  ddlemu schedule sweep ring --coll all_reduce --ks 1,4 --grains 64K,1M --profile ndr400 --plot ring.svg`,
		Args: oneKind,
		RunE: func(cmd *cobra.Command, args []string) error { return runScheduleSweep(cmd.Context(), g, o, args[0]) },
	}
	o.AddFlags(g, cmd.Flags())
	return cli.Ruled(cmd, cli.Least("size", 1), cli.NewFiles("plot"))
}

func runScheduleSweep(ctx context.Context, g *cli.Global, o *scheduleSweepOptions, kind string) error {
	r, err := o.lists()
	if err != nil {
		return err
	}
	place, err := o.place(g, o.GPUs)
	if err != nil {
		return err
	}
	show, stop := g.ShowProgress("schedule sweep")
	defer stop()
	r.Kind, r.InForce = kind, o.inForce
	err = r.Fill(ctx, place, func(k int, grain int64) (*schedule.Schedule, error) {
		return o.make(fmt.Sprintf("%s:k=%d,grain=%d", kind, k, grain))
	}, func(part float64) { show.Part("times are calculated", part) })
	if err != nil {
		return err
	}
	if err := o.plotOption.write(gridChart(r)); err != nil {
		return err
	}
	return g.Print(r, func(w io.Writer) { printGrid(w, r) })
}

// lists reads the lists of k and grains, and the size.
func (o *scheduleSweepOptions) lists() (*compare.Grid, error) {
	r := &compare.Grid{Size: o.Size}
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

func printGrid(w io.Writer, r *compare.Grid) {
	fmt.Fprintf(w, "# ddlemu schedule sweep %s: %s of %d bytes on fabric %s, expected times in us, bound %s\n",
		r.Kind, r.Coll, r.Size, r.Fabric, cli.Us(r.Bound))
	printInForce(w, &r.InForce)
	header := []string{"grain "}
	for _, k := range r.Ks {
		header = append(header, fmt.Sprintf("k %d ", k))
	}
	t := cli.NewTable(w, header...)
	for i, grain := range r.Grains {
		row := table.Row{units.Size(grain).String()}
		for _, x := range r.Times[i] {
			row = append(row, twoDigits(x))
		}
		t.AppendRow(row)
	}
	t.Render()
}
