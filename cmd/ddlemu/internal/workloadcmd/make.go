// SPDX-License-Identifier: Apache-2.0

package workloadcmd

import (
	"context"
	"strings"
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
		Long: `Make the workload of a job, training or inference, from the sizes of its network and how it is
distributed. The head of the file notes what was assumed.

` + cli.ExitHelp + `
Page: docs/workloads.md`,
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
	FLOPS   flopsFlag
	MFU     shareFlag
}

func (o *makeOptions) AddFlags(fs *pflag.FlagSet) {
	o.OutputOptions.AddFlags(fs)
	fs.IntVar(&o.Steps, "steps", 1, "`number` of steps")
	fs.DurationVar(&o.Compute, "compute", 0, "`time` for which a rank computes in a step, such as 252.9ms")
	fs.Var(&o.FLOPS, "flops",
		"`rate` of a GPU, such as 312TFLOPS, instead of --compute: 6 operations for a multiplication of a forward pass")
	o.MFU = 0.4
	fs.Var(&o.MFU, "mfu", "`share` of --flops that the job reaches, as 0.4 or 40%")
}

func (o *makeOptions) compute() parallel.Compute {
	c := parallel.Compute{Step: o.Compute, FLOPS: float64(o.FLOPS)}
	if c.FLOPS > 0 {
		c.MFU = float64(o.MFU)
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
	if (o.Compute == 0) == (o.FLOPS == 0) {
		return cli.BadInput(
			"say how long a step computes: give its time, as --compute 250ms, or the rate of the GPU, as --flops " +
				"312TFLOPS")
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

// network is the network that the flags name.
func (o *networkOptions) network() (*layers.Network, error) {
	if (o.Model == "") == (o.Params == 0) {
		return nil, cli.BadInput("name the network: give --model with one of %s, or --params",
			strings.Join(layers.Names(), ", "))
	}
	if o.Ranks < 1 {
		return nil, cli.BadInput("--ranks %d: give the number of ranks, at least 1", o.Ranks)
	}
	if o.Seq < 0 || o.Seq > 1<<24 {
		return nil, cli.BadInput("--seq %d: must be 1 to %d", o.Seq, 1<<24)
	}
	n := layers.Uniform(o.Params, max(o.Blocks, 1))
	if o.Model != "" {
		var err error
		if n, err = layers.Named(o.Model); err != nil {
			return nil, cli.BadInput("--model: %w", err)
		}
		if o.Seq > 0 && n.Tokens == 0 {
			return nil, cli.BadInput("--seq: the samples of %s are no sequences", o.Model)
		}
	} else if o.Params < 1 || o.Params > 1<<50 || o.Blocks < 1 || int64(o.Blocks) > min(o.Params, 100_000) {
		return nil, cli.BadInput(
			"--params %d, --blocks %d: must be 1 to %d, and 1 to 100000 blocks of at least one parameter",
			o.Params, o.Blocks, int64(1)<<50)
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
	FirstBucket, BucketCap sizeFlag
	Fused, NoBuffers       bool
	Overlap                string
}

func newMakeDDPCommand(g *cli.Global) *cobra.Command {
	o := &makeDDPOptions{FirstBucket: 1 << 20, BucketCap: 25 << 20, Overlap: "backward"}
	o.defaultType = "float32"
	cmd := &cobra.Command{
		Use:   "ddp --model NAME --ranks N --compute TIME",
		Short: "Data parallel training, as with PyTorch's DistributedDataParallel",
		Long: `Each rank computes a forward and a backward pass, and the gradients are reduced in buckets by
PyTorch's rules, in the reverse order of the parameters. PyTorch's bucket_cap_mb=25 is
--bucket-cap 25M, the default. With --fused there is one all-reduce after the backward pass.
The backward pass takes two thirds of the computation.

` + cli.ExitHelp + `
Page: docs/workloads.md`,
		Example: `  ddlemu workload make ddp --model resnet50 --ranks 8 --batch 64 --compute 252.9ms \
    -o resnet50.jsonl
  ddlemu workload make ddp --model resnet50 --ranks 8 --batch 64 --compute 252.9ms --fused -o horovod.jsonl
  ddlemu workload make ddp --params 60000000 --ranks 16 --compute 100ms --bucket-cap 4M`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runMakeDDP(cmd.Context(), g, o) },
	}
	fs := cmd.Flags()
	o.AddFlags(fs)
	fs.Var(&o.FirstBucket, "first-bucket", "`size` of the first bucket")
	fs.Var(&o.BucketCap, "bucket-cap", "`size` of the other buckets")
	fs.BoolVar(&o.Fused, "fused", false, "one all-reduce of all gradients after the backward pass")
	fs.StringVar(&o.Overlap, "overlap", o.Overlap, "what the all-reduces overlap with: backward or none (`pass`)")
	fs.BoolVar(&o.NoBuffers, "no-buffers", false,
		"do not broadcast the statistics of batch normalizations before each step (broadcast_buffers=False)")
	return cmd
}

func runMakeDDP(_ context.Context, g *cli.Global, o *makeDDPOptions) error {
	if o.Overlap != "backward" && o.Overlap != "none" {
		return cli.BadInput("--overlap: %q is not one of backward, none", o.Overlap)
	}
	n, err := o.network()
	if err != nil {
		return err
	}
	return o.write(g, &parallel.DDP{
		Training: o.training(n), FirstBucket: int64(o.FirstBucket), BucketCap: int64(o.BucketCap), Fused: o.Fused,
		Overlap: o.Overlap == "backward", Buffers: !o.NoBuffers && !o.Fused,
	})
}

func newMakeFSDPCommand(g *cli.Global) *cobra.Command {
	o := &networkOptions{defaultType: "bfloat16"}
	cmd := &cobra.Command{
		Use:   "fsdp --model NAME --ranks N --compute TIME",
		Short: "Sharded data parallel training, as with PyTorch's FullyShardedDataParallel",
		Long: `Each block of the network is a unit. Its parameters are gathered before its forward and before its
backward pass, at most two units at a time, and its gradients are reduced and scattered after the
backward pass. The last unit stays gathered between its passes. DeepSpeed's ZeRO 3 is
"make zero --stage 3".

` + cli.ExitHelp + `
Page: docs/workloads.md`,
		Example: `  ddlemu workload make fsdp --model gpt2-xl --ranks 16 --batch 4 --flops 312TFLOPS \
    -o gpt2-xl.jsonl`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runMakeFSDP(cmd.Context(), g, o) },
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func runMakeFSDP(_ context.Context, g *cli.Global, o *networkOptions) error {
	n, err := o.network()
	if err != nil {
		return err
	}
	return o.write(g, &parallel.FSDP{Training: o.training(n)})
}
