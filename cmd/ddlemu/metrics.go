// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/intercept/metrics"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// metricsOptions are the flags of metrics.
type metricsOptions struct {
	Output string
	Force  bool
}

func newMetricsCommand(g *global) *cobra.Command {
	o := &metricsOptions{}
	cmd := &cobra.Command{
		Use:   "metrics",
		Short: "Print the counters of the fabrics that are up for Prometheus",
		Long: `Prints the parameters and counters of links and ports, and the jobs, of all fabrics that
are up, in Prometheus' text format. With -o they are in a file, for the textfile collector
of node_exporter. The file is replaced as a whole, so a reader never sees a part of it.

Times and rates are those of the emulated network.

` + exitHelp,
		Example: `  ddlemu metrics
  ddlemu metrics --force -o /var/lib/node_exporter/ddlemu.prom`,
		Args: noArgs,
		RunE: func(_ *cobra.Command, _ []string) error { return runMetrics(g, o) },
	}
	g.addFabricFlag(cmd.Flags())
	cmd.Flags().StringVarP(&o.Output, "output", "o", "", "write this `file`")
	cmd.Flags().BoolVar(&o.Force, "force", false, "replace the file if it exists")
	return cmd
}

func runMetrics(g *global, o *metricsOptions) error {
	if o.Output != "" {
		if err := checkOutput(o.Output, o.Force); err != nil {
			return err
		}
	}
	dir, err := g.openDir(false)
	if errors.Is(err, fs.ErrNotExist) {
		return g.noFabric(g.named())
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	all, err := g.allMetrics(dir)
	if err != nil {
		return err
	}
	if o.Output == "" {
		return metrics.Write(g.Stdout, all)
	}
	// Its reader is another user: node_exporter.
	return writeOutput(o.Output, o.Force, 0o644, func(w io.Writer) error { return metrics.Write(w, all) })
}

// allMetrics reads one fabric or all. For one that cannot be used it prints a warning.
func (g *global) allMetrics(dir *state.Dir) (all []metrics.Fabric, err error) {
	names, err := dir.Names()
	if err != nil {
		return nil, err
	}
	named := g.named()
	if named != "" {
		names = []string{named}
	}
	for _, name := range names {
		s, err := g.readStatus(dir, name)
		switch {
		case named == "" && errors.Is(err, fs.ErrNotExist): // taken down meanwhile
		case named == "" && errors.Is(err, state.ErrNotUsable):
			g.warn("%v", err)
		case err != nil:
			return nil, err
		default:
			all = append(all, metricsOf(s))
		}
	}
	if len(all) == 0 {
		return nil, g.noFabric("")
	}
	return all, nil
}

func metricsOf(s *fabricStatus) metrics.Fabric {
	f := metrics.Fabric{
		Name: s.Fabric, Profile: s.Profile, Transport: s.Transport, Datapath: s.Datapath, Clock: s.Clock, Nodes: s.Nodes, TimeScale: s.TimeScale, Up: time.Duration(s.UpNs),
	}
	for _, l := range s.Links {
		f.Links = append(f.Links, metrics.Hop{
			Name: l.From + ":" + l.To, Bandwidth: l.BandwidthBps, Latency: time.Duration(l.LatencyNs), Down: !l.Up, Counters: l.Counters, Messages: l.Messages,
		})
	}
	for _, p := range s.Ports {
		f.Ports = append(f.Ports, metrics.Hop{Name: p.NIC, Direction: p.Direction, Bandwidth: p.BandwidthBps, Counters: p.Counters})
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		m := metrics.Job{Number: j.Job, Running: j.Running, Joined: j.Joined, Left: j.Left, Died: j.Died, Messages: j.Messages, Bytes: j.Bytes}
		if s.Datapath != configs.Kernel { // there the plugin does not know when a message is due
			m.Late = &j.late
		}
		f.Jobs = append(f.Jobs, m)
	}
	return f
}
