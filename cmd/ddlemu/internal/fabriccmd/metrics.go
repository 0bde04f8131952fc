// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/intercept/metrics"
	"github.com/ddlemu/ddlemu/shaper/fabric/status"
)

// NewMetricsCommand is `ddlemu metrics`.
func NewMetricsCommand(g *cli.Global) *cobra.Command {
	o := &cli.FileOption{}
	cmd := &cobra.Command{
		Use:   "metrics [FOLDER...]",
		Short: "Print counters for Prometheus: of the fabrics that are up, or of traced jobs",
		Long: cli.Long("docs/metrics.md", `
Without folders, print the parameters and counters of links and ports, and the jobs, of all
fabrics that are up, in Prometheus' text format. With folders of jobs recorded with --trace, print
how long their collectives took, also under the names that NCCL Inspector gives these times.

With -o, replace a file as a whole, for node_exporter. All times are of the emulated network.`),
		Example: `  ddlemu metrics
  ddlemu metrics --force -o /var/lib/node_exporter/ddlemu.prom
  ddlemu metrics t --force -o /var/lib/node_exporter/ddlemu-t.prom`,
		RunE: func(_ *cobra.Command, args []string) error { return runMetrics(g, o, args) },
	}
	g.AddFabricFlag(cmd.Flags())
	o.AddOutputFlags(cmd.Flags(), "write this `file`")
	return cli.Ruled(cmd, cli.Excludes("fabric", "FOLDER", "a folder has a job that has ended"))
}

func runMetrics(g *cli.Global, o *cli.FileOption, dirs []string) error {
	o.TakeDash()
	if err := o.CheckOutput(); err != nil {
		return err
	}
	read := func() (metricsWriter, error) { return liveMetrics(g) }
	if len(dirs) > 0 {
		read = func() (metricsWriter, error) { return recordedMetrics(g, dirs) }
	}
	write, err := read()
	if err != nil {
		return err
	}
	if o.Output == "" {
		return write(g.Stdout)
	}
	// Its reader is another user: node_exporter.
	return cli.WriteFile("-o", o.Output, o.Force, 0o644, write)
}

// metricsWriter writes metrics that have been read.
type metricsWriter = func(w io.Writer) error

// liveMetrics reads the fabrics that are up, or the one that the user named.
func liveMetrics(g *cli.Global) (metricsWriter, error) {
	dir, names, err := openFabrics(g)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var all []*status.Reading
	states, err := statusOfAll(g, dir, names)
	for _, s := range states {
		all = append(all, s.Reading)
	}
	if err == nil && len(all) == 0 {
		err = g.NoFabric("")
	}
	return func(w io.Writer) error { return metrics.Write(w, all) }, err
}

// recordedMetrics reads what jobs have recorded. What is missing is a warning each.
func recordedMetrics(g *cli.Global, dirs []string) (metricsWriter, error) {
	t, fab, err := cli.LoadTraces(dirs)
	if err != nil {
		return nil, err
	}
	for i, name := range t.Jobs {
		if k := slices.Index(t.Jobs, name); k != i {
			return nil, cli.BadInput(
				"%s and %s are both named %s, which is the label of their metrics: rename one, or call ddlemu "+
					"metrics for each", dirs[k], dirs[i], name)
		}
	}
	_, r, err := cli.Explain(fab, t)
	if err != nil {
		return nil, err
	}
	if len(r.Calls) == 0 {
		g.Warn("no collective with messages between nodes is recorded: there are no metrics")
	}
	for _, note := range cli.WhyNotes(t, r) {
		g.Warn("%s", note)
	}
	return func(w io.Writer) error { return metrics.WriteRecorded(w, t, r, fab.Config.Name) }, nil
}
