// SPDX-License-Identifier: Apache-2.0

package workloadcmd

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/shaper/workload/parallel"
)

type makeGPTOptions struct {
	makeOptions
	routingOptions
	parallel.GPT
	Ranks int
	flags *pflag.FlagSet
}

func newMakeGPTCommand(g *cli.Global) *cobra.Command {
	o := &makeGPTOptions{GPT: parallel.GPT{
		Seq: 2048, Vocab: 51200, TP: 1, PP: 1, DP: 1, EP: 1, TopK: 2, MicroBatch: 1, Type: "bfloat16",
		GradType: "float32",
	}}
	cmd := &cobra.Command{
		Use:   "gpt --layers L --hidden H --heads A --batch B [--tp T] [--pp P] [--dp D]",
		Short: "A GPT with tensor, pipeline, data and expert parallelism, as with Megatron-LM",
		Long: cli.Long("docs/workloads.md", `
Megatron-LM: each layer has two all-reduces forward and two backward in its tensor parallel group,
and with experts two all-to-alls each way; with --skew, --seed or --capacity-factor their sizes
differ. Pipeline stages exchange activations in the schedule 1F1B. Gradients are reduced at the end.

There are tp * pp * dp ranks: tensor parallel ranks are neighbours, stages are farthest apart.
Expert parallel ranks are data parallel ones.`),
		Example: `  ddlemu workload make gpt --layers 96 --hidden 12288 --heads 96 --tp 8 --pp 8 --dp 2 \
    --batch 64 --flops 312TFLOPS -o gpt3.jsonl
  ddlemu workload make gpt --layers 32 --hidden 4096 --heads 32 --dp 8 --ep 8 --experts 8 \
    --batch 64 --flops 312TFLOPS --skew 3x -o moe.jsonl`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runMakeGPT(cmd.Context(), g, o) },
	}
	fs := cmd.Flags()
	fs.Int64Var(&o.Layers, "layers", 0, "`number` of layers")
	fs.Int64Var(&o.Hidden, "hidden", 0, "hidden `size`")
	fs.Int64Var(&o.Heads, "heads", 0, "`number` of attention heads")
	fs.Int64Var(&o.Seq, "seq", o.Seq, "`tokens` of a sequence")
	fs.Int64Var(&o.Vocab, "vocab", o.Vocab, "`words` of the vocabulary")
	fs.IntVar(&o.Batch, "batch", 0, "`sequences` of a step, of all ranks together")
	fs.IntVar(&o.MicroBatch, "micro-batch", o.MicroBatch, "`sequences` of a micro-batch")
	fs.IntVar(&o.TP, "tp", o.TP, "tensor parallel `ranks`")
	fs.BoolVar(&o.SequenceParallel, "sequence-parallel", false,
		"share activations among tensor parallel ranks: reduce-scatters and all-gathers, no all-reduces")
	fs.IntVar(&o.PP, "pp", o.PP, "`stages` of the pipeline")
	fs.IntVar(&o.DP, "dp", o.DP, "data parallel `ranks`")
	fs.IntVar(&o.Ranks, "ranks", 0, "`number` of ranks, tp * pp * dp, instead of --dp")
	fs.IntVar(&o.Experts, "experts", o.Experts, "`number` of experts of each layer (default: a dense network)")
	fs.IntVar(&o.EP, "ep", o.EP, "expert parallel `ranks`")
	fs.IntVar(&o.TopK, "top-k", o.TopK, "`experts` that each token is sent to")
	fs.StringVar(&o.Type, "dtype", o.Type, "`type` of activations")
	fs.StringVar(&o.GradType, "grad-dtype", o.GradType, "`type` of gradients")
	o.routingOptions.AddFlags(fs)
	o.makeOptions.AddFlags(fs)
	o.flags = fs
	return cli.Ruled(cmd, jobRules...)
}

// setDP computes the number of data parallel ranks of --ranks.
func (o *makeGPTOptions) setDP() error {
	if !o.flags.Changed("ranks") || o.TP < 1 || o.PP < 1 {
		return nil
	}
	dp := o.Ranks / (o.TP * o.PP)
	switch {
	case dp < 1 || o.Ranks%(o.TP*o.PP) != 0:
		return cli.BadInput("--ranks %d: the ranks are tp * pp * dp, so it must be a multiple of %d * %d", o.Ranks,
			o.TP, o.PP)
	case o.flags.Changed("dp") && o.DP != dp:
		return cli.BadInput("--ranks %d: tp * pp * dp is %d * %d * %d: leave out --ranks or --dp", o.Ranks, o.TP, o.PP,
			o.DP)
	}
	o.DP = dp
	return nil
}

func runMakeGPT(_ context.Context, g *cli.Global, o *makeGPTOptions) error {
	if err := o.setDP(); err != nil {
		return err
	}
	job := o.GPT
	var err error
	if job.Routing, err = o.routing(); err != nil {
		return err
	}
	job.Steps, job.Compute = o.makeOptions.Steps, o.compute()
	return o.write(g, &job)
}

type makeDLRMOptions struct {
	makeOptions
	Tables, Dim int64
	Bottom, Top []int64
	Ranks       int
	Batch       int
	Type        string
}

func newMakeDLRMCommand(g *cli.Global) *cobra.Command {
	o := &makeDLRMOptions{Bottom: []int64{13, 512, 256, 64}, Top: []int64{512, 512, 256, 1}}
	cmd := &cobra.Command{
		Use:   "dlrm --ranks N --batch B --compute TIME",
		Short: "A recommendation model, DLRM: embedding tables and perceptrons",
		Long: cli.Long("docs/workloads.md", `
The embedding tables are distributed among the ranks, the two perceptrons are data parallel. An
all-to-all brings the vectors to the samples, another one their gradients back, and the gradients
of each perceptron are reduced.`),
		Example: `  ddlemu workload make dlrm --ranks 8 --batch 2048 --compute 10ms -o dlrm.jsonl`,
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return runMakeDLRM(cmd.Context(), g, o) },
	}
	fs := cmd.Flags()
	fs.IntVar(&o.Ranks, "ranks", 0, "`number` of ranks")
	fs.IntVar(&o.Batch, "batch", 2048, "`samples` of a rank in a step")
	fs.Int64Var(&o.Tables, "tables", 26, "`number` of embedding tables")
	fs.Int64Var(&o.Dim, "dim", 64, "`size` of an embedding")
	fs.Var(layersFlag(&o.Bottom), "bottom",
		"`sizes` of the layers of the bottom perceptron, from the dense inputs to the size of an embedding")
	fs.Var(layersFlag(&o.Top), "top", "`sizes` of the layers of the top perceptron, without its input")
	fs.StringVar(&o.Type, "dtype", "float32", "`type` of what is sent")
	o.AddFlags(fs)
	return cli.Ruled(cmd,
		slices.Concat(jobRules, []cli.Rule{cli.Required("ranks", "the job has no ranks"), cli.Least("ranks", 1)})...)
}

func runMakeDLRM(_ context.Context, g *cli.Global, o *makeDLRMOptions) error {
	return o.write(g, &parallel.DLRM{
		Tables: o.Tables, Dim: o.Dim, Bottom: o.Bottom, Top: o.Top, Ranks: o.Ranks, Steps: o.Steps, Batch: o.Batch,
		Compute: o.compute(), Type: o.Type,
	})
}
