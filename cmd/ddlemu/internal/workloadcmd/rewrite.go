// SPDX-License-Identifier: Apache-2.0

package workloadcmd

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/check"
	"github.com/ddlemu/ddlemu/shaper/workload/rewrite"
)

type workloadRewriteOptions struct {
	OutputOptions
	Scale, Replace []string
	BucketCap      int64
	Compute        string
}

func (o *workloadRewriteOptions) AddFlags(fs *pflag.FlagSet) {
	o.OutputOptions.AddFlags(fs)
	fs.StringArrayVar(&o.Scale, "scale-bytes", nil,
		"multiply the counts of a function, as allreduce=0.01, or sendrecv=0.5 (`rule`; may be given several times)")
	fs.StringArrayVar(&o.Replace, "replace", nil,
		"replace each call by two (`rule`): allreduce=reduce_scatter+all_gather or allreduce=reduce+broadcast")
	fs.Var(sizeFlag(&o.BucketCap), "bucket-cap",
		"put all-reduces that follow each other together, until they have this `size` or more")
	fs.StringVar(&o.Compute, "scale-compute", "",
		"multiply times of computation by a `factor`, as 0.5, or by the ratio of two kinds of GPUs, as a100-sxm:h100-sxm")
}

func newWorkloadRewriteCommand(g *cli.Global) *cobra.Command {
	o := &workloadRewriteOptions{}
	cmd := &cobra.Command{
		Use:   "rewrite FILE",
		Short: "Change a workload by rules: compression, buckets, other collectives, faster GPUs",
		Long: cli.Long("docs/workloads.md", `
Write the workload with other calls or times, and note the rules in its head. They are applied in
this order: --bucket-cap, --scale-bytes, --replace, --scale-compute. Dependencies stay. A rule for
a function that no call has is refused, and so is a workload that "ddlemu workload check" refuses.

--bucket-cap joins all-reduces that follow each other. --scale-compute FROM:TO takes the ratio of
the data sheets of two kinds of GPUs; a factor that you measured is better.`),
		Example: `  ddlemu workload rewrite job.jsonl --scale-bytes allreduce=0.01 -o compressed.jsonl
  ddlemu workload rewrite job.jsonl --replace allreduce=reduce_scatter+all_gather -o two.jsonl
  ddlemu workload rewrite job.jsonl --bucket-cap 100M -o large.jsonl
  ddlemu workload rewrite job.jsonl --scale-compute a100-sxm:h100-sxm -o h100.jsonl`,
		Args: oneWorkload,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runWorkloadRewrite(cmd.Context(), g, o, args[0])
		},
	}
	o.AddFlags(cmd.Flags())
	return cli.Ruled(cmd,
		cli.Required("scale-bytes replace bucket-cap scale-compute nccl-env", "nothing would change"))
}

func runWorkloadRewrite(ctx context.Context, g *cli.Global, o *workloadRewriteOptions, path string) error {
	rules, err := o.rules()
	if err != nil {
		return err
	}
	if err := o.Check(); err != nil {
		return err
	}
	ix, err := ReadWorkload(g, path)
	if err != nil {
		return err
	}
	if err := matches(ctx, path, ix); err != nil {
		return err
	}
	out, err := rules.Apply(ix.Workload)
	if err != nil {
		return cli.BadInput("%s: %w", path, err)
	}
	after, err := out.Index()
	if err != nil {
		return cli.BadInput("%s, rewritten: %w", path, err)
	}
	if err := matches(ctx, path+", rewritten", after); err != nil {
		return err
	}
	if err := o.Write(g, out); err != nil || o.Output == "" {
		return err
	}
	lines.Print(g.Stdout, "note: %s\n", out.Head.Source.Notes[len(ix.Workload.Head.Source.Notes):])
	return nil
}

// rules are those that the flags name.
func (o *workloadRewriteOptions) rules() (*rewrite.Rules, error) {
	r := &rewrite.Rules{BucketCap: o.BucketCap}
	for _, text := range o.Scale {
		s, err := rewrite.ParseScale(text)
		if err != nil {
			return nil, cli.BadInput("--scale-bytes: %w", err)
		}
		r.Scales = append(r.Scales, s)
	}
	for _, text := range o.Replace {
		p, err := rewrite.ParseReplacement(text)
		if err != nil {
			return nil, cli.BadInput("--replace: %w", err)
		}
		r.Replacements = append(r.Replacements, p)
	}
	if o.Compute != "" {
		c, err := parseCompute(o.Compute)
		if err != nil {
			return nil, cli.BadInput("--scale-compute %s: %w", o.Compute, err)
		}
		r.Compute = c
	}
	return r, nil
}

// parseCompute reads a factor of computation, or two kinds of GPUs that have one.
func parseCompute(text string) (rewrite.Compute, error) {
	names := strings.Split(text, ":")
	if len(names) == 1 {
		factor, err := rewrite.ParseFactor(text)
		if err != nil {
			err = fmt.Errorf("%w, nor two kinds of GPUs such as a100-sxm:h100-sxm", err)
		}
		return rewrite.Compute{Factor: factor}, err
	}
	if len(names) != 2 {
		return rewrite.Compute{}, errors.New("give two kinds of GPUs, such as a100-sxm:h100-sxm")
	}
	var kinds [2]*configs.GPU
	for i, name := range names {
		kind, err := configs.LoadGPU(name, "")
		if err != nil {
			return rewrite.Compute{}, err
		}
		if kind.Peak.FP16 == 0 {
			return rewrite.Compute{}, fmt.Errorf("%s has no peak.fp16_tflops: give a factor, or a file with it", kind.Name)
		}
		kinds[i] = kind
	}
	return computeOf(kinds[0], kinds[1]), nil
}

// computeOf is the factor from one kind of GPU to another by the peaks of their data sheets.
func computeOf(from, to *configs.GPU) rewrite.Compute {
	basis := fmt.Sprintf("from %s to %s: %g and %g TFLOPS of FP16 on tensor cores without sparsity, by data sheets; no "+
		"kernel was measured", from.Name, to.Name, from.Peak.FP16, to.Peak.FP16)
	if a, b := from.Peak.Memory, to.Peak.Memory; a > 0 && b > 0 {
		basis += fmt.Sprintf(", and what memory limits would take %.4g times (%s and %s)", float64(a)/float64(b),
			cli.Rate(float64(a)/8), cli.Rate(float64(b)/8))
	}
	return rewrite.Compute{Factor: from.Peak.FP16 / to.Peak.FP16, Basis: basis}
}

// matches refuses a workload whose calls do not match.
func matches(ctx context.Context, name string, ix *workload.Index) error {
	found, err := check.Run(ctx, ix)
	if err != nil {
		return fmt.Errorf("check %s: %w", name, err)
	}
	if len(found) > 0 {
		return cli.BadInput("%s:%d: %s: see `ddlemu workload check`", name, found[0].Line, found[0].Text)
	}
	return nil
}
