// SPDX-License-Identifier: Apache-2.0

package workloadcmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/lines"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/check"
	"github.com/ddlemu/ddlemu/shaper/workload/rewrite"
)

type workloadRewriteOptions struct {
	OutputOptions
	Scale, Replace []string
	BucketCap      sizeFlag
}

func (o *workloadRewriteOptions) AddFlags(fs *pflag.FlagSet) {
	o.OutputOptions.AddFlags(fs)
	fs.StringArrayVar(&o.Scale, "scale-bytes", nil,
		"multiply the counts of a function, as allreduce=0.01, or sendrecv=0.5 (`rule`; may be given several times)")
	fs.StringArrayVar(&o.Replace, "replace", nil,
		"replace each call of a function by two: allreduce=reduce_scatter+all_gather or allreduce=reduce+broadcast "+
			"(`rule`)")
	fs.Var(&o.BucketCap, "bucket-cap",
		"put all-reduces that follow each other together, until they have this `size` or more")
}

func newWorkloadRewriteCommand(g *cli.Global) *cobra.Command {
	o := &workloadRewriteOptions{}
	cmd := &cobra.Command{
		Use:   "rewrite FILE",
		Short: "Change the calls of a workload by rules: compression, buckets, other collectives",
		Long: `Writes the workload with other calls, and notes the rules in its head. They are applied in
this order: --bucket-cap, --scale-bytes, --replace. Computation and dependencies stay.
A rule for a function that no call has is refused.

--bucket-cap puts all-reduces of the same ranks, communicator, stream and type together. A
bucket is reduced when the last of its parts is ready. It ends before that size where
something waits for a part, or uses the stream or communicator, or a step ends.

The calls of the file must match before, as ` + "`ddlemu workload check`" + ` says.

` + cli.ExitHelp,
		Example: `  ddlemu workload rewrite job.jsonl --scale-bytes allreduce=0.01 -o compressed.jsonl
  ddlemu workload rewrite job.jsonl --replace allreduce=reduce_scatter+all_gather -o two.jsonl
  ddlemu workload rewrite job.jsonl --bucket-cap 100M -o large.jsonl`,
		Args: oneWorkload,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runWorkloadRewrite(cmd.Context(), g, o, args[0])
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
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
	r := &rewrite.Rules{BucketCap: int64(o.BucketCap)}
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
	if r.Empty() && len(o.NCCLEnv) == 0 {
		return nil, cli.BadInput("say what changes: give --scale-bytes, --replace, --bucket-cap or --nccl-env")
	}
	return r, nil
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
