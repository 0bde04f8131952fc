// SPDX-License-Identifier: Apache-2.0

package workloadcmd

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// NewWorkloadCommand is `ddlemu workload`.
func NewWorkloadCommand(g *cli.Global) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "workload",
		Short: "Describe a job by what its ranks compute and call: make, convert, check, show, rewrite",
		Long: cli.Long("docs/workloads.md", `
A workload is a file that says what each rank of a job does: for how long it computes, which
collectives, sends and receives it calls, and what waits for what. Its format,
ddlemu.workload/1, is JSON lines.`),
		Example: `  ddlemu workload make ddp --model resnet50 --ranks 8 --compute 252.9ms -o resnet50.jsonl
  ddlemu workload convert rank0.pt.trace.json.gz -o job.jsonl
  ddlemu workload show resnet50.jsonl
  ddlemu workload check resnet50.jsonl
  ddlemu workload rewrite resnet50.jsonl --scale-bytes allreduce=0.01 -o compressed.jsonl`,
		Args: cli.KnownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newWorkloadShowCommand(g), newWorkloadCheckCommand(g), newWorkloadMakeCommand(g),
		newWorkloadRewriteCommand(g), newWorkloadConvertCommand(g))
	return cmd
}

// oneWorkload asks for the name of one file.
func oneWorkload(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return cli.BadInput("%s takes one workload, a file or - for standard input: see `%[1]s --help`",
			cmd.CommandPath())
	}
	return nil
}

// ReadWorkload reads the workload of a file, or of standard input if its name is -.
func ReadWorkload(g *cli.Global, path string) (*workload.Index, error) {
	var w *workload.Workload
	var err error
	if path == cli.StandardInput {
		w, err = workload.Read("standard input", g.Stdin)
	} else {
		w, err = workload.ReadFile(path)
	}
	if err != nil {
		if kind, unknown := formats.Detect(input.Path(path)); path != cli.StandardInput && unknown == nil &&
			kind != formats.Native {
			return nil, cli.BadInput(
				"%s looks like a file in the format %s: `ddlemu workload convert` makes a workload of it",
				path, kind)
		}
		return nil, cli.BadInput("%w", err)
	}
	ix, err := w.Index()
	if err != nil {
		return nil, cli.BadInput("%s: %w", path, err)
	}
	return ix, nil
}

// OutputOptions say where a workload goes.
type OutputOptions struct {
	cli.FileOption
	NCCLEnv []string // variables of the job, as NAME=VALUE
}

// AddFlags adds the flags for the file.
func (o *OutputOptions) AddFlags(fs *pflag.FlagSet) {
	o.AddOutputFlags(fs, "`file` to write, or - (default: standard output)")
	o.addNCCLFlag(fs)
}

func (o *OutputOptions) addNCCLFlag(fs *pflag.FlagSet) {
	fs.StringArrayVar(&o.NCCLEnv, "nccl-env", nil,
		"a variable of NCCL of the job, for the head of the file, as NCCL_ALGO=Ring (`NAME=VALUE`; may be repeated)")
}

// Check refuses an output that cannot be written, before the work is done.
func (o *OutputOptions) Check() error {
	if err := o.AddNCCL(&workload.Head{}); err != nil {
		return err
	}
	o.TakeDash()
	return o.CheckOutput()
}

// AddNCCL adds the variables of --nccl-env to a head.
func (o *OutputOptions) AddNCCL(h *workload.Head) error {
	for _, text := range o.NCCLEnv {
		if err := h.SetNCCL(text); err != nil {
			return cli.BadInput("--nccl-env: %w", err)
		}
	}
	return nil
}

// Write writes a workload, and says so if it went to a file.
func (o *OutputOptions) Write(g *cli.Global, w *workload.Workload) error {
	if err := o.AddNCCL(&w.Head); err != nil {
		return err
	}
	if o.Output == "" {
		return w.Write(g.Stdout)
	}
	if err := cli.WriteFile("-o", o.Output, o.Force, 0o644, w.Write); err != nil {
		return err
	}
	info, err := os.Stat(o.Output)
	if err != nil {
		return fmt.Errorf("look at what was written: %w", err)
	}
	fmt.Fprintf(g.Stdout, "%s: %s of %s, %s\n", o.Output, units.Count(len(w.Ops), "operation"),
		units.Count(w.Head.Ranks, "rank"), units.Volume(uint64(info.Size())))
	return nil
}

// sizeFlag is a flag for a size in bytes.
type sizeFlag int64

func (s *sizeFlag) String() string { return units.Size(*s).String() }
func (s *sizeFlag) Type() string   { return "size" }

func (s *sizeFlag) Set(text string) error {
	size, err := units.ParseSize(text)
	if err == nil && size == 0 {
		err = fmt.Errorf("%q is no size of a bucket: must be above 0", text)
	}
	if err != nil {
		return err
	}
	*s = sizeFlag(size)
	return nil
}

// flopsFlag is a flag for floating point operations per second.
type flopsFlag float64

func (f *flopsFlag) String() string {
	if *f == 0 {
		return ""
	}
	return units.SI(float64(*f)) + "FLOPS"
}
func (f *flopsFlag) Type() string { return "rate" }

func (f *flopsFlag) Set(text string) error {
	number, ok := strings.CutSuffix(text, "FLOPS")
	if !ok {
		return fmt.Errorf("%q is no rate: write 312TFLOPS or 1.98PFLOPS", text)
	}
	factor := 1.0
	if n := len(number); n > 0 {
		if i := strings.IndexByte("GTP", number[n-1]); i >= 0 {
			factor, number = math.Pow(1000, float64(3+i)), number[:n-1]
		}
	}
	x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !(x > 0 && x*factor <= 1e21) {
		return fmt.Errorf("%q is no rate above 0, and 1000000PFLOPS at most: write 312TFLOPS or 1.98PFLOPS", text)
	}
	*f = flopsFlag(x * factor)
	return nil
}

// shareFlag is a flag for a part of a whole: above 0, and 1 at most.
type shareFlag float64

func (s *shareFlag) String() string { return strconv.FormatFloat(float64(*s), 'g', -1, 64) }
func (s *shareFlag) Type() string   { return "share" }

func (s *shareFlag) Set(text string) error {
	number, percent := strings.CutSuffix(text, "%")
	x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if percent {
		x /= 100
	}
	if err != nil || !(x > 0 && x <= 1) {
		return fmt.Errorf("%q is no share above 0, and 1 at most: write 0.4 or 40%%", text)
	}
	*s = shareFlag(x)
	return nil
}

// listFlag is a flag for sizes of layers, as 512-256-1.
type listFlag []int64

func (l *listFlag) Type() string { return "sizes" }

func (l *listFlag) String() string {
	var parts []string
	for _, n := range *l {
		parts = append(parts, strconv.FormatInt(n, 10))
	}
	return strings.Join(parts, "-")
}

func (l *listFlag) Set(text string) error {
	var out listFlag
	for _, part := range strings.Split(text, "-") {
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			return errors.New("write the sizes of the layers as 512-256-1")
		}
		out = append(out, n)
	}
	*l = out
	return nil
}
