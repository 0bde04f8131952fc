// SPDX-License-Identifier: Apache-2.0

package workloadcmd

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload/layers"
	"github.com/ddlemu/ddlemu/shaper/workload/parallel"
)

// routingOptions say how tokens choose their experts.
type routingOptions struct {
	Skew     parallel.Skew
	Capacity float64
	Seed     uint64
	flags    *pflag.FlagSet
}

func (o *routingOptions) AddFlags(fs *pflag.FlagSet) {
	fs.Var(cli.Value(&o.Skew, "skew", parallel.ParseSkew, parallel.Skew.String), "skew",
		"how unequally tokens choose experts: 3x (the hottest gets 3 times the mean) or zipf:1.2 (`skew`; default: equally)")
	fs.Float64Var(&o.Capacity, "capacity-factor", 0,
		"`factor`: an expert takes at most this times the mean of a rank's tokens and drops the rest (default: no limit)")
	fs.Uint64Var(&o.Seed, "seed", 0,
		"draw the experts of each token from this `number` (default: each expert gets its expected number)")
	o.flags = fs
}

func (o *routingOptions) routing() (parallel.Routing, error) {
	if o.flags.Changed("capacity-factor") && !(o.Capacity > 0) {
		return parallel.Routing{}, cli.BadInput("--capacity-factor %g: must be above 0", o.Capacity)
	}
	return parallel.Routing{Skew: o.Skew, Capacity: o.Capacity, Drawn: o.flags.Changed("seed"),
		Seed: o.Seed}, nil
}

// memoryRate reads the bandwidth of a GPU's memory, in bytes per second.
func memoryRate(text string) (float64, error) {
	b, err := units.ParseBandwidth(text)
	if err == nil && b == units.Unlimited {
		err = cli.BadInput("%q is no rate of a memory: write 2TB/s", text)
	}
	return float64(b) / 8, err
}

type makeInferenceOptions struct {
	OutputOptions
	routingOptions
	parallel.Inference
	Model      string
	FLOPS      float64
	Memory     float64
	MFU, MBU   float64
	ComputeFor parallel.InferenceCompute
	flags      *pflag.FlagSet
}

// inferenceRules are the rules for the flags of the network and of what computes.
func inferenceRules() []cli.Rule {
	const sizes = "layers hidden intermediate kv vocab"
	rules := []cli.Rule{cli.Required("model "+sizes, "no network is named"),
		cli.Excludes("model", "experts top-k "+sizes, "the network has its own"),
		cli.Excludes("flops memory", "prefill-compute decode-compute", "times follow from rates"),
		cli.Needs("mfu", "flops", "it is a share of the rate"), cli.Needs("mbu", "memory", "it is a share of the bandwidth")}
	for _, size := range strings.Fields(sizes) {
		rules = append(rules, cli.Needs("!model", size, "the network needs all its sizes"))
	}
	return append(rules, cli.Needs("top-k", "experts", "the network has none"))
}

func newMakeInferenceCommand(g *cli.Global) *cobra.Command {
	o := &makeInferenceOptions{MFU: 1, MBU: 1, Inference: parallel.Inference{TP: 1, PP: 1, EP: 1, InFlight: 1,
		Type: "bfloat16"}}
	cmd := &cobra.Command{
		Use:   "inference --model NAME --batch B [--prefill TOKENS] [--decode TOKENS] [--tp T] [--pp P] [--ep E]",
		Short: "Inference of a Llama or Mixtral: prefill and decode, with tensor, pipeline and expert parallelism",
		Long: cli.Long("docs/workloads.md", `
Each step is a pass: the prefill of the prompts, then --decode times a pass that decodes one token
of each sequence. Layers have all-reduces among the --tp ranks, and with experts all-to-alls among
the --ep ranks. Pipeline stages send hidden states, and the last one gathers the logits.

The computation is measured (--prefill-compute, --decode-compute), or follows from your GPU:
--flops and --mfu, --memory and --mbu. Without --mfu and --mbu, times are lower bounds.`),
		Example: `  ddlemu workload make inference --model llama3-70b --tp 2 --pp 2 --batch 64 \
    --decode 8 --context 1000 --memory 3.35TB/s -o decode.jsonl
  ddlemu workload make inference --model mixtral-8x7b --ep 8 --batch 16 --prefill 512 --decode 4 \
    --flops 989TFLOPS --memory 3.35TB/s --skew 3x -o moe.jsonl
  ddlemu workload make inference --model llama2-70b --pp 2 --batch 64 --decode 3 \
    --decode-compute 17.5ms --vllm -o pp2.jsonl`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runMakeInference(cmd.Context(), g, o) },
	}
	fs := cmd.Flags()
	fs.StringVar(&o.Model, "model", "", "`name` of the network: "+strings.Join(layers.Decoders(), ", "))
	fs.Int64Var(&o.Decoder.Layers, "layers", 0, "`number` of layers of another network, instead of --model")
	fs.Int64Var(&o.Decoder.Hidden, "hidden", 0, "its hidden `size`")
	fs.Int64Var(&o.Decoder.Intermediate, "intermediate", 0,
		"the `size` between the matrices of its MLP, or of an expert")
	fs.Int64Var(&o.Decoder.KeyValue, "kv", 0,
		"`size` of its keys, and of its values: heads of them times the size of a head")
	fs.Int64Var(&o.Decoder.Words, "vocab", 0, "`words` of its vocabulary")
	fs.IntVar(&o.Decoder.Experts, "experts", 0, "`number` of experts of each layer (default: the model's; none)")
	fs.IntVar(&o.Decoder.TopK, "top-k", 2, "`experts` that each token is sent to")
	fs.IntVar(&o.TP, "tp", o.TP, "tensor parallel `ranks`")
	fs.IntVar(&o.PP, "pp", o.PP, "`stages` of the pipeline")
	fs.IntVar(&o.EP, "ep", o.EP, "expert parallel `ranks`")
	fs.IntVar(&o.Batch, "batch", 0, "`sequences` of a batch, of each expert parallel rank")
	fs.IntVar(&o.InFlight, "in-flight", o.InFlight, "`batches` that are in the pipeline at a time")
	fs.IntVar(&o.Prefill, "prefill", 0, "`tokens` of each prompt (default: no prefill)")
	fs.IntVar(&o.Decode, "decode", 0, "`tokens` of each sequence to decode after that")
	fs.IntVar(&o.Context, "context", 0, "`tokens` of a sequence before the first that is decoded (default: --prefill)")
	fs.DurationVar(&o.ComputeFor.Prefill, "prefill-compute", 0, "`time` for which a rank computes in the prefill")
	fs.DurationVar(&o.ComputeFor.Decode, "decode-compute", 0, "`time` for which a rank computes in a pass that decodes")
	fs.Var(flopsFlag(&o.FLOPS), "flops", "`rate` of a GPU, such as 989TFLOPS, instead of times")
	fs.Var(shareFlag(&o.MFU), "mfu", "`share` of --flops that is reached, as 0.4 or 40%")
	fs.Var(cli.Value(&o.Memory, "rate", memoryRate, rateText("B/s")), "memory",
		"`bandwidth` of a GPU's memory, such as 3.35TB/s, instead of times")
	fs.Var(shareFlag(&o.MBU), "mbu", "`share` of --memory that is reached, as 0.6 or 60%")
	fs.BoolVar(&o.VLLM, "vllm", false,
		"stages send what vLLM sends: hidden states and residual, in parts of the tensor parallel ranks")
	fs.StringVar(&o.Type, "dtype", o.Type, "`type` of weights, activations, keys and values")
	o.routingOptions.AddFlags(fs)
	o.OutputOptions.AddFlags(fs)
	o.flags = fs
	return cli.Ruled(cmd, inferenceRules()...)
}

// decoder sets the sizes of --model.
func (o *makeInferenceOptions) decoder() error {
	if o.Model == "" {
		if o.Decoder.Experts == 0 {
			o.Decoder.TopK = 0
		}
		o.Name = "a decoder"
		return nil
	}
	n, err := layers.Named(o.Model)
	if err != nil {
		return cli.BadInput("--model: %w", err)
	}
	if n.Decoder == nil {
		return cli.BadInput("--model %s: inference is made of one of %s", o.Model,
			strings.Join(layers.Decoders(), ", "))
	}
	o.Name, o.Decoder = n.Name, *n.Decoder
	return nil
}

// compute is the computation that the flags describe.
func (o *makeInferenceOptions) compute() (parallel.InferenceCompute, error) {
	c := o.ComputeFor
	if o.FLOPS > 0 {
		c.FLOPS = o.FLOPS * o.MFU
	}
	if o.Memory > 0 {
		c.Memory = o.Memory * o.MBU
	}
	switch {
	case c.FLOPS+c.Memory > 0:
	case o.Prefill > 0 && c.Prefill == 0:
		return c, cli.BadInput(
			"say how long the prefill computes: give its time, as --prefill-compute 300ms, or the GPU's rates, as " +
				"--flops 989TFLOPS --memory 3.35TB/s")
	case o.Decode > 0 && c.Decode == 0:
		return c, cli.BadInput(
			"say how long a pass that decodes computes: give its time, as --decode-compute 17.5ms, or the rate of " +
				"the GPU's memory, as --memory 3.35TB/s")
	}
	if o.Decode > 0 && o.Prefill == 0 && c.FLOPS+c.Memory > 0 && !o.flags.Changed("context") {
		return c, cli.BadInput(
			"--context: without --prefill, say how many tokens the sequences have, whose keys and values are read")
	}
	return c, nil
}

func runMakeInference(_ context.Context, g *cli.Global, o *makeInferenceOptions) error {
	if err := o.Check(); err != nil {
		return err
	}
	if err := o.decoder(); err != nil {
		return err
	}
	job := o.Inference
	var err error
	if job.Compute, err = o.compute(); err != nil {
		return err
	}
	if job.Routing, err = o.routing(); err != nil {
		return err
	}
	if !o.flags.Changed("context") {
		job.Context = o.Prefill
	}
	w, err := job.Workload()
	if err != nil {
		return cli.BadInput("%w", err)
	}
	return o.OutputOptions.Write(g, w)
}
