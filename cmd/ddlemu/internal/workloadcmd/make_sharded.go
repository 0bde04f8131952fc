// SPDX-License-Identifier: Apache-2.0

package workloadcmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/shaper/workload/parallel"
)

type makeZeROOptions struct {
	networkOptions
	parallel.ZeRO
	NoOverlap bool
}

func newMakeZeROCommand(g *cli.Global) *cobra.Command {
	o := &makeZeROOptions{ZeRO: parallel.ZeRO{Bucket: 5e8, GatherBucket: 5e8, Reduce: parallel.ReduceByAllReduce,
		ReuseDistance: 1e9, Persist: 1e5}}
	o.defaultType = "bfloat16"
	cmd := &cobra.Command{
		Use:   "zero --stage 1|2|3 --model NAME --ranks N --compute TIME",
		Short: "Data parallel training with ZeRO 1, 2 or 3, as with DeepSpeed",
		Long: cli.Long("docs/workloads.md", `
DeepSpeed's ZeRO: stage 1 shares the state of the optimizer, stage 2 the gradients too, stage 3
the parameters too. Defaults are DeepSpeed's; each flag names its key of zero_optimization.
Stages 1 and 2 call an all-reduce for each bucket, as DeepSpeed does by default. --reduce reduce
is one reduce to each owner of a part, --reduce reduce-scatter what the paper counts.
PyTorch's FullyShardedDataParallel is "make fsdp".`),
		Example: `  ddlemu workload make zero --stage 2 --model llama2-7b --ranks 16 --flops 312TFLOPS \
    -o zero2.jsonl
  ddlemu workload make zero --stage 3 --params 1540000000 --blocks 28 --ranks 4 --compute 2.4s \
    -o zero3.jsonl`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runMakeZeRO(cmd.Context(), g, o) },
	}
	fs := cmd.Flags()
	o.AddFlags(fs)
	fs.IntVar(&o.Stage, "stage", 0, "`stage` of ZeRO: 1, 2 or 3")
	fs.Int64Var(&o.Bucket, "bucket", o.Bucket, "`elements` of a bucket of gradients (reduce_bucket_size)")
	fs.Int64Var(&o.GatherBucket, "gather-bucket", o.GatherBucket,
		"stages 1 and 2: `elements` of an all-gather (allgather_bucket_size)")
	fs.StringVar(&o.Reduce, "reduce", o.Reduce, "stages 1 and 2: what reduces a bucket (`call`: "+
		strings.Join(parallel.ReduceKinds(), ", ")+")")
	fs.BoolVar(&o.NoOverlap, "no-overlap", false, "do not reduce beside the backward pass (overlap_comm false)")
	fs.Int64Var(&o.ReuseDistance, "reuse-distance", o.ReuseDistance,
		"stage 3: parameters used again within so many `elements` stay gathered (stage3_max_reuse_distance)")
	fs.Int64Var(&o.Persist, "persist", o.Persist,
		"stage 3: tensors of at most so many `elements` stay gathered (stage3_param_persistence_threshold)")
	return cli.Ruled(cmd,
		o.rules(cli.Required("stage", "the stage of ZeRO is missing"), cli.Range("stage", 1, 3),
			cli.Needs("reuse-distance persist", "stage=3", ""), cli.Needs("gather-bucket reduce", "stage=1 stage=2", ""))...)
}

func runMakeZeRO(_ context.Context, g *cli.Global, o *makeZeROOptions) error {
	n, err := o.network()
	if err != nil {
		return err
	}
	job := o.ZeRO
	job.Training, job.Overlap = o.training(n), !o.NoOverlap
	return o.write(g, &job)
}

type makeDiLoCoOptions struct {
	networkOptions
	parallel.DiLoCo
	OuterBits int
}

func newMakeDiLoCoCommand(g *cli.Global) *cobra.Command {
	o := &makeDiLoCoOptions{DiLoCo: parallel.DiLoCo{PerWorker: 1, Fragments: 1}, OuterBits: 32}
	o.defaultType = "bfloat16"
	cmd := &cobra.Command{
		Use:   "diloco --model NAME --ranks N --inner-steps H --compute TIME",
		Short: "Local SGD: workers that train alone and exchange every H steps, as with DiLoCo",
		Long: cli.Long("docs/workloads.md", `
Each worker trains alone for --inner-steps steps of --compute. Then an all-reduce exchanges by how
much the parameters have changed, --outer-bits for each. --steps counts exchanges of all of them.

--fragments F exchanges the network in F parts (Streaming DiLoCo). --delay T lets a worker go on
for T inner steps before it needs the result. --per-worker R gives a worker R ranks.`),
		Example: `  ddlemu workload make diloco --model gpt2 --ranks 8 --inner-steps 100 --compute 300ms \
    -o diloco.jsonl
  ddlemu workload make diloco --model gpt2 --ranks 4 --inner-steps 96 --fragments 12 --delay 2 \
    --outer-bits 4 --compute 300ms -o streaming.jsonl`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runMakeDiLoCo(cmd.Context(), g, o) },
	}
	fs := cmd.Flags()
	o.AddFlags(fs)
	fs.IntVar(&o.InnerSteps, "inner-steps", 0, "`steps` that a worker trains between two exchanges")
	fs.IntVar(&o.PerWorker, "per-worker", o.PerWorker, "`ranks` of a worker")
	fs.IntVar(&o.OuterBits, "outer-bits", o.OuterBits, "`bits` of an element of the exchange: 32, 16, 8 or 4")
	fs.IntVar(&o.Fragments, "fragments", o.Fragments, "`parts` of the network that are exchanged one after the other")
	fs.IntVar(&o.Delay, "delay", 0,
		"inner `steps` that go on before the result of an exchange is needed (default: the worker waits)")
	return cli.Ruled(cmd,
		o.rules(
			cli.Required("inner-steps", "nothing says how long a worker trains alone"), cli.Least("inner-steps", 1))...)
}

func runMakeDiLoCo(_ context.Context, g *cli.Global, o *makeDiLoCoOptions) error {
	n, err := o.network()
	if err != nil {
		return err
	}
	job := o.DiLoCo
	job.Training, job.OuterBits = o.training(n), o.OuterBits
	return o.write(g, &job)
}
