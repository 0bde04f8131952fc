// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// firstFlags are those that most users give, in the order in which the help shows them. Of those that a command has,
// mostFirst come before all groups.
var firstFlags = []string{"profile", "file", "nodes", "ranks", "minbytes", "maxbytes", "stepfactor", "bw", "lat",
	"iters", "gpus-per-node", "clock", "soft-cuda", "torch-alias", "trace"}

const mostFirst = 10

// flagGroup are flags that the help shows together.
type flagGroup struct {
	title string
	names []string
}

// flagGroups are in the order of the help. A flag of a command that is in none of them follows the first flags.
var flagGroups = []flagGroup{
	{"Rows of the table", []string{"minbytes", "maxbytes", "stepbytes", "stepfactor", "iters", "warmup_iters",
		"run_cycles", "datatype", "op", "root", "check", "seeds"}},
	{"Links", []string{"bw", "lat", "jitter", "loss", "reorder", "queue", "ecn", "transport", "congestion", "ecmp",
		"seed"}},
	{"Nodes and GPUs", []string{"nodes", "ranks", "gpus-per-node", "nics-per-node", "node-gpus", "gpu", "node-time",
		"nvlink", "nvlink-domain", "nvlinks-per-gpu", "cpu"}},
	{"NCCL and CUDA", []string{"nccl", "nccl-view", "nccl-latency", "nccl-env", "soft-cuda", "torch-alias"}},
	{"Where and how it runs", []string{"fabric", "clock", "time-scale", "compute", "compute-hold", "on-deadlock",
		"budget", "datapath", "shaper", "subnet", "per-node"}},
	{"Results", []string{"trace", "stall", "strict", "tolerance", "min-busbw", "max-time", "baseline",
		"baseline-tolerance", "expect-exit", "junit",
		"json", "csv", "plot", "svg", "output", "force", "log-dir", "verbose", "quiet", "help"}},
}

// GroupFlags lets the help of cmd, and of the commands below it, show flags in groups if those of a fabric are among
// them: then they are more than 30.
func GroupFlags(cmd *cobra.Command) {
	if cmd.Flags().Lookup("datapath") != nil {
		cmd.SetUsageFunc(groupedUsage)
	}
	for _, c := range cmd.Commands() {
		GroupFlags(c)
	}
}

// groupedUsage prints the usage of a command that has no commands below it.
func groupedUsage(cmd *cobra.Command) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n  %s\n", cmd.UseLine())
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	for _, part := range partsOf(cmd) {
		fmt.Fprintf(&b, "\n%s:\n%s", part.title, part.flags.FlagUsages())
	}
	if cmd.HasAvailableInheritedFlags() {
		fmt.Fprintf(&b, "\nGlobal flags:\n%s", cmd.InheritedFlags().FlagUsages())
	}
	_, err := fmt.Fprint(cmd.OutOrStdout(), b.String())
	return err
}

// shownFlags are the flags below one title.
type shownFlags struct {
	title string
	flags *pflag.FlagSet
}

// partsOf divides the flags of cmd that the help shows. Each is in one part, and no part is empty.
func partsOf(cmd *cobra.Command) (parts []shownFlags) {
	left := map[string]*pflag.Flag{}
	var own []string // in alphabetical order
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		left[f.Name] = f
		if !slices.ContainsFunc(flagGroups, func(g flagGroup) bool { return slices.Contains(g.names, f.Name) }) {
			own = append(own, f.Name)
		}
	})
	add := func(title string, names []string, most int) {
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		fs.SortFlags = false
		n := 0
		for _, name := range names {
			if f := left[name]; f != nil && n < most {
				fs.AddFlag(f)
				delete(left, name)
				n++
			}
		}
		if n > 0 {
			parts = append(parts, shownFlags{title, fs})
		}
	}
	add("Flags", firstFlags, mostFirst)
	add("Flags of "+strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" "), own, len(own))
	for _, g := range flagGroups {
		add(g.title, g.names, len(g.names))
	}
	return parts
}
