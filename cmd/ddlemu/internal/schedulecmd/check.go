// SPDX-License-Identifier: Apache-2.0

package schedulecmd

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/check"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/msccl"
)

func newScheduleCheckCommand(g *cli.Global) *cobra.Command {
	o := &scheduleMakeOptions{}
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Say what is wrong with schedules",
		Long: `Execute schedules symbolically and say what is wrong with them: wrong results, deadlocks with
their cycle, messages whose ends count different chunks, unordered accesses to a chunk, chunks
outside of buffers. A schedule that exceeds the limits of MSCCL's executor gets a warning.

` + cli.ExitCheckHelp + `
Page: docs/schedules.md`,
		Example: `  ddlemu schedule check algo.xml
  ddlemu schedule check ring --coll all_reduce --gpus 4`,
		Args: cli.AtLeast(1, "check takes at least one schedule: a file of MSCCL XML"),
		RunE: func(_ *cobra.Command, args []string) error { return runScheduleCheck(g, o, args) },
	}
	o.AddFlags(cmd.Flags())
	g.AddJSONFlag(cmd.Flags())
	return cmd
}

// checkedSchedule is the result for one file, for --json.
type checkedSchedule struct {
	File         string          `json:"file"`
	OK           bool            `json:"ok"`
	Error        string          `json:"error,omitempty"` // the file could not be read
	Findings     []check.Finding `json:"findings"`
	More         int             `json:"more"` // findings that are left out
	Warnings     []string        `json:"warnings"`
	Root         *int            `json:"root"` // of a rooted collective; null: none, or none fits
	NeedsBuffers bool            `json:"needs_buffers"`
}

func newCheckedSchedule(file string, r *check.Report) checkedSchedule {
	c := checkedSchedule{
		File: file, OK: r.Good(), Findings: append([]check.Finding{}, r.Findings...), More: r.More,
		Warnings: append([]string{}, r.Warnings...), NeedsBuffers: r.NeedsBuffers,
	}
	if r.Root >= 0 {
		c.Root = &r.Root
	}
	return c
}

func runScheduleCheck(g *cli.Global, o *scheduleMakeOptions, args []string) error {
	return cli.CheckFiles(g, args, func(arg string, w io.Writer) (checkedSchedule, bool, error) {
		s, r, err := o.check(g, arg)
		if err != nil {
			failed := newCheckedSchedule(arg, &check.Report{Root: schedule.None})
			failed.OK, failed.Error = false, err.Error()
			return failed, false, err
		}
		printCheck(w, arg, s, r)
		return newCheckedSchedule(arg, r), r.Good(), nil
	})
}

// check reads and checks one schedule.
func (o *scheduleMakeOptions) check(g *cli.Global, arg string) (*schedule.Schedule, *check.Report, error) {
	s, err := o.read(g, arg)
	if err != nil {
		return nil, nil, err
	}
	r, err := check.Check(s)
	if err != nil {
		return nil, nil, &cli.InputError{Err: fmt.Errorf("%s: %w", arg, err)}
	}
	return s, r, nil
}

func printCheck(w io.Writer, arg string, s *schedule.Schedule, r *check.Report) {
	fmt.Fprintf(w, "%s: %s\n", arg, describeSchedule(s))
	lines.Print(w, "  warning: %s\n", r.Warnings)
	for _, f := range r.Findings {
		fmt.Fprintf(w, "  %s: %s\n", f.Kind, f.Text)
	}
	if r.More > 0 {
		fmt.Fprintf(w, "  and %d more\n", r.More)
	}
	if !r.Good() {
		fmt.Fprintf(w, "  BAD: %s\n", units.Count(len(r.Findings)+r.More, "mistake"))
		return
	}
	if s.CheckOnly != "" {
		fmt.Fprintf(w, "  cannot be run: %s\n", s.CheckOnly)
	}
	if r.Root >= 0 {
		fmt.Fprintf(w, "  the root is GPU %d\n", r.Root)
	}
	switch {
	case r.NeedsBuffers:
		fmt.Fprintln(w, "  good only if connections hold more messages than NCCL's: see the deadlock above")
		return
	case s.Coll.HasResult():
		fmt.Fprintln(w, "  good")
		return
	}
	fmt.Fprintf(w, "  good as far as can be told: the name %s does not define a result\n", s.Coll)
}

type makeFileOptions struct {
	scheduleMakeOptions
	cli.FileOption
}

func (o *makeFileOptions) AddFlags(fs *pflag.FlagSet) {
	o.scheduleMakeOptions.AddFlags(fs)
	o.AddOutputFlags(fs, "`file` to write (default: standard output)")
}

func newScheduleMakeCommand(g *cli.Global) *cobra.Command {
	o := &makeFileOptions{}
	cmd := &cobra.Command{
		Use:   "make ring|allpairs|tree|chain|double-binary",
		Short: "Make a schedule, as MSCCL XML",
		Long: cli.Long("docs/schedules.md", `Make a schedule and write it as MSCCL XML.
  ring           --k rings in the order of the ranks, on a channel each
  allpairs       every GPU exchanges with every other, in --k blocks per peer
  tree, chain    --k binary trees or chains for each root, the rank to whose share a chunk belongs
  double-binary  --k pairs of binary trees for each root; inner ranks of one are mostly leaves of the other
An all-reduce adds up towards the roots and then sends from them.`),
		Example: `  ddlemu schedule make allpairs --coll all_gather --k 4 --gpus 8 -o allpairs.xml
  ddlemu schedule make ring --coll all_reduce --k 4 --grain 256K --gpus 8 -o ring.xml`,
		Args: oneKind,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := o.CheckOutput(); err != nil {
				return err
			}
			s, err := o.make(args[0])
			if err != nil {
				return err
			}
			return o.write(g, s)
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func newScheduleExportCommand(g *cli.Global) *cobra.Command {
	o := &makeFileOptions{}
	cmd := &cobra.Command{
		Use:   "export FILE",
		Short: "Write a schedule of another format or dialect as MSCCL XML",
		Long: cli.Long("docs/schedules.md", `
Read a schedule of any format that ddlemu reads and write it as the MSCCL XML that RCCL reads.
A file of trees (ForestColl) does not say for which collective it is: give --coll.`),
		Example: `  ddlemu schedule export old.xml -o new.xml
  ddlemu schedule export trees.xml --coll all_reduce -o allreduce.xml`,
		Args: oneSource,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := o.CheckOutput(); err != nil {
				return err
			}
			s, err := o.readOne(g, args[0])
			if err != nil {
				return err
			}
			return o.write(g, s)
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

// write writes a schedule to standard output, or to the file of --output and says so.
func (o *makeFileOptions) write(g *cli.Global, s *schedule.Schedule) error {
	if o.Output == "" {
		return msccl.Write(g.Stdout, s)
	}
	if err := cli.WriteFile("-o", o.Output, o.Force, 0o644,
		func(w io.Writer) error { return msccl.Write(w, s) }); err != nil {
		return err
	}
	fmt.Fprintf(g.Stdout, "%s: %s\n", o.Output, describeSchedule(s))
	return nil
}
