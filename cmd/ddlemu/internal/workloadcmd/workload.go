// SPDX-License-Identifier: Apache-2.0

// Package workloadcmd has the command workload: files that say what a job does.
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

// sizeFlag is a flag for the size of a bucket in bytes.
func sizeFlag(to *int64) pflag.Value {
	return cli.Value(to, "size", func(text string) (int64, error) {
		size, err := units.ParseSize(text)
		if err == nil && size == 0 {
			err = fmt.Errorf("%q is no size of a bucket: must be above 0", text)
		}
		return int64(size), err
	}, func(size int64) string { return units.Size(size).String() })
}

// rateText writes a rate with its unit, "" for 0.
func rateText(unit string) func(float64) string {
	return func(rate float64) string {
		if rate == 0 {
			return ""
		}
		return units.SI(rate) + unit
	}
}

// flopsFlag is a flag for floating point operations per second.
func flopsFlag(to *float64) pflag.Value { return cli.Value(to, "rate", parseFLOPS, rateText("FLOPS")) }

func parseFLOPS(text string) (float64, error) {
	number, ok := strings.CutSuffix(text, "FLOPS")
	if !ok {
		return 0, fmt.Errorf("%q is no rate: write 312TFLOPS or 1.98PFLOPS", text)
	}
	factor := 1.0
	if n := len(number); n > 0 {
		if i := strings.IndexByte("GTP", number[n-1]); i >= 0 {
			factor, number = math.Pow(1000, float64(3+i)), number[:n-1]
		}
	}
	x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !(x > 0 && x*factor <= 1e21) {
		return 0, fmt.Errorf("%q is no rate above 0, and 1000000PFLOPS at most: write 312TFLOPS or 1.98PFLOPS", text)
	}
	return x * factor, nil
}

// shareFlag is a flag for a part of a whole: above 0, and 1 at most.
func shareFlag(to *float64) pflag.Value {
	return cli.Value(to, "share", func(text string) (float64, error) {
		number, percent := strings.CutSuffix(text, "%")
		x, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if percent {
			x /= 100
		}
		if err != nil || !(x > 0 && x <= 1) {
			return 0, fmt.Errorf("%q is no share above 0, and 1 at most: write 0.4 or 40%%", text)
		}
		return x, nil
	}, func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) })
}

// layersFlag is a flag for sizes of layers, as 512-256-1.
func layersFlag(to *[]int64) pflag.Value {
	return cli.Value(to, "sizes", func(text string) (out []int64, err error) {
		for part := range strings.SplitSeq(text, "-") {
			n, err := strconv.ParseInt(part, 10, 64)
			if err != nil {
				return nil, errors.New("write the sizes of the layers as 512-256-1")
			}
			out = append(out, n)
		}
		return out, nil
	}, func(sizes []int64) string { return strings.ReplaceAll(strings.Trim(fmt.Sprint(sizes), "[]"), " ", "-") })
}
