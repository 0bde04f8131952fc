// SPDX-License-Identifier: Apache-2.0

package workloadcmd

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/layers"
	"github.com/ddlemu/ddlemu/shaper/workload/parallel"
)

func newWorkloadMakeCommand(g *cli.Global) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "make",
		Short: "Make the workload of a job from its sizes: training or inference",
		Long: cli.Long("docs/workloads.md", `
Make the workload of a job, training or inference, from the sizes of its network and how it is
distributed. The head of the file notes what was assumed.`),
		Example: `  ddlemu workload make ddp --model resnet50 --ranks 8 --compute 252.9ms -o resnet50.jsonl
  ddlemu workload make gpt --layers 24 --hidden 2048 --heads 16 --tp 2 --pp 2 --dp 2 --batch 16 \
    --flops 312TFLOPS -o gpt.jsonl`,
		Args: cli.KnownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newMakeDDPCommand(g), newMakeFSDPCommand(g), newMakeZeROCommand(g), newMakeDiLoCoCommand(g),
		newMakeGPTCommand(g), newMakeDLRMCommand(g),
		newMakeInferenceCommand(g))
	return cmd
}

// makeOptions are the flags of all jobs.
type makeOptions struct {
	OutputOptions
	Steps   int
	Compute time.Duration
	FLOPS   float64
	MFU     float64
}

func (o *makeOptions) AddFlags(fs *pflag.FlagSet) {
	o.OutputOptions.AddFlags(fs)
	fs.IntVar(&o.Steps, "steps", 1, "`number` of steps")
	fs.DurationVar(&o.Compute, "compute", 0, "`time` for which a rank computes in a step, such as 252.9ms")
	fs.Var(flopsFlag(&o.FLOPS), "flops",
		"`rate` of a GPU, such as 312TFLOPS, instead of --compute: 6 operations for a multiplication of a forward pass")
	o.MFU = 0.4
	fs.Var(shareFlag(&o.MFU), "mfu", "`share` of --flops that the job reaches, as 0.4 or 40%")
}

func (o *makeOptions) compute() parallel.Compute {
	c := parallel.Compute{Step: o.Compute, FLOPS: o.FLOPS}
	if c.FLOPS > 0 {
		c.MFU = o.MFU
	}
	return c
}

// write makes a workload and writes it.
func (o *makeOptions) write(g *cli.Global, job interface {
	Workload() (*workload.Workload, error)
}) error {
	if err := o.Check(); err != nil {
		return err
	}
	w, err := job.Workload()
	if err != nil {
		return cli.BadInput("%w", err)
	}
	return o.OutputOptions.Write(g, w)
}

// networkOptions name a network and how many ranks train it.
type networkOptions struct {
	makeOptions
	Model       string
	Params      int64
	Blocks      int
	Ranks       int
	Batch       int
	Seq         int64
	Type        string
	defaultType string
	flags       *pflag.FlagSet
}

func (o *networkOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Model, "model", "",
		"`name` of the network, such as resnet50, bert-large or llama3-8b (all: docs/workloads.md)")
	fs.Int64Var(&o.Params, "params", 0, "`number` of parameters of another network, instead of --model")
	fs.IntVar(&o.Blocks, "blocks", 16, "`number` of equal blocks of the network of --params")
	fs.IntVar(&o.Ranks, "ranks", 0, "`number` of ranks")
	fs.IntVar(&o.Batch, "batch", 1, "`samples` of a rank in a step")
	fs.Int64Var(&o.Seq, "seq", 0, "`tokens` of a sample (default: what the model was trained with)")
	fs.StringVar(&o.Type, "dtype", o.defaultType, "`type` of what is sent, such as float32 or bfloat16")
	o.makeOptions.AddFlags(fs)
	o.flags = fs
}

// jobRules are the rules for the flags of [makeOptions].
var jobRules = []cli.Rule{cli.AtMostOne("compute flops", ""),
	cli.Required("compute flops", "nothing says how long a step computes"), cli.Least("compute", time.Nanosecond)}

// rules are the rules for the flags of a network, and these more.
func (o *networkOptions) rules(more ...cli.Rule) []cli.Rule {
	return slices.Concat(more, []cli.Rule{
		cli.AtMostOne("model params", ""), cli.Required("model params", "no network is named"),
		cli.Required("ranks", "the job has no ranks"), cli.Least("ranks", 1), cli.Range("seq", 1, 1<<24),
		cli.Range("params", 1, int64(1)<<50), cli.Range("blocks", 1, 100_000),
	}, jobRules)
}

// network is the network that the flags name.
func (o *networkOptions) network() (*layers.Network, error) {
	n := layers.Uniform(o.Params, max(o.Blocks, 1))
	if o.Model != "" {
		var err error
		if n, err = layers.Named(o.Model); err != nil {
			return nil, cli.BadInput("--model: %w", err)
		}
		if o.Seq > 0 && n.Tokens == 0 {
			return nil, cli.BadInput("--seq: the samples of %s are no sequences", o.Model)
		}
	} else if int64(o.Blocks) > o.Params {
		return nil, cli.BadInput("--blocks %d: --params %d gives a block no parameter: give fewer blocks", o.Blocks, o.Params)
	}
	if o.Seq > 0 {
		n.Tokens = o.Seq
	}
	return n, nil
}

// training is the training of a network that the flags describe.
func (o *networkOptions) training(n *layers.Network) parallel.Training {
	return parallel.Training{Network: n, Ranks: o.Ranks, Steps: o.Steps, Batch: o.Batch, Compute: o.compute(),
		Type: o.Type}
}

type makeDDPOptions struct {
	networkOptions
	FirstBucket, BucketCap int64
	Fused, NoBuffers       bool
	Overlap                string
}

func newMakeDDPCommand(g *cli.Global) *cobra.Command {
	o := &makeDDPOptions{FirstBucket: 1 << 20, BucketCap: 25 << 20, Overlap: "backward"}
	o.defaultType = "float32"
	cmd := &cobra.Command{
		Use:   "ddp --model NAME --ranks N --compute TIME",
		Short: "Data parallel training, as with PyTorch's DistributedDataParallel",
		Long: cli.Long("docs/workloads.md", `
Each rank computes a forward and a backward pass, and the gradients are reduced in buckets by
PyTorch's rules, in the reverse order of the parameters. PyTorch's bucket_cap_mb=25 is
--bucket-cap 25M, the default. With --fused there is one all-reduce after the backward pass.
The backward pass takes two thirds of the computation.`),
		Example: `  ddlemu workload make ddp --model resnet50 --ranks 8 --batch 64 --compute 252.9ms \
    -o resnet50.jsonl
  ddlemu workload make ddp --model resnet50 --ranks 8 --batch 64 --compute 252.9ms --fused -o horovod.jsonl
  ddlemu workload make ddp --params 60000000 --ranks 16 --compute 100ms --bucket-cap 4M`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runMakeDDP(cmd.Context(), g, o) },
	}
	fs := cmd.Flags()
	o.AddFlags(fs)
	fs.Var(sizeFlag(&o.FirstBucket), "first-bucket", "`size` of the first bucket")
	fs.Var(sizeFlag(&o.BucketCap), "bucket-cap", "`size` of the other buckets")
	fs.BoolVar(&o.Fused, "fused", false, "one all-reduce of all gradients after the backward pass")
	fs.StringVar(&o.Overlap, "overlap", o.Overlap, "what the all-reduces overlap with: backward or none (`pass`)")
	fs.BoolVar(&o.NoBuffers, "no-buffers", false,
		"do not broadcast the statistics of batch normalizations before each step (broadcast_buffers=False)")
	return cli.Ruled(cmd, o.rules(cli.Among("overlap", "backward", "none"))...)
}

func runMakeDDP(_ context.Context, g *cli.Global, o *makeDDPOptions) error {
	n, err := o.network()
	if err != nil {
		return err
	}
	return o.write(g, &parallel.DDP{
		Training: o.training(n), FirstBucket: o.FirstBucket, BucketCap: o.BucketCap, Fused: o.Fused,
		Overlap: o.Overlap == "backward", Buffers: !o.NoBuffers && !o.Fused,
	})
}

func newMakeFSDPCommand(g *cli.Global) *cobra.Command {
	o := &networkOptions{defaultType: "bfloat16"}
	cmd := &cobra.Command{
		Use:   "fsdp --model NAME --ranks N --compute TIME",
		Short: "Sharded data parallel training, as with PyTorch's FullyShardedDataParallel",
		Long: cli.Long("docs/workloads.md", `
Each block of the network is a unit. Its parameters are gathered before its forward and before its
backward pass, at most two units at a time, and its gradients are reduced and scattered after the
backward pass. The last unit stays gathered between its passes. DeepSpeed's ZeRO 3 is
"make zero --stage 3".`),
		Example: `  ddlemu workload make fsdp --model gpt2-xl --ranks 16 --batch 4 --flops 312TFLOPS \
    -o gpt2-xl.jsonl`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runMakeFSDP(cmd.Context(), g, o) },
	}
	o.AddFlags(cmd.Flags())
	return cli.Ruled(cmd, o.rules()...)
}

func runMakeFSDP(_ context.Context, g *cli.Global, o *networkOptions) error {
	n, err := o.network()
	if err != nil {
		return err
	}
	return o.write(g, &parallel.FSDP{Training: o.training(n)})
}
