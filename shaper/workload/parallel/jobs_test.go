// SPDX-License-Identifier: Apache-2.0

package parallel

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/layers"
)

// sent are the bytes of a rank's calls by function and communicator, nccl-tests' sizes; for messages send and recv.
func sent(ix *workload.Index, rank int) map[string]int64 {
	sum := map[string]int64{}
	for _, o := range ix.OfRank(rank) {
		for part := range o.Parts() {
			place, _ := ix.Place(part.Comm, rank)
			name := string(part.Func)
			if name == "" {
				name = string(part.Kind)
			}
			if comm := ix.Comms[place.Comm].Name; comm != workload.World {
				name += " " + comm
			}
			sum[name] += part.Bytes(len(ix.Comms[place.Comm].Ranks))
		}
	}
	return sum
}

// want compares all sums of a rank.
func want(t tester, ix *workload.Index, rank int, sums map[string]int64) {
	t.Helper()
	got := sent(ix, rank)
	for name, n := range sums {
		if n == 0 {
			delete(sums, name)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(sums) {
		t.Fatalf("rank %d has\n%v, want\n%v", rank, got, sums)
	}
}

func mixtral() layers.Decoder {
	n, err := layers.Named("mixtral-8x7b")
	if err != nil {
		panic(err)
	}
	return *n.Decoder
}

func inference() *Inference {
	return &Inference{
		Name: "x", Decoder: layers.Decoder{Layers: 8, Hidden: 512, Intermediate: 1024, KeyValue: 128, Words: 1000},
		TP: 2, PP: 2, EP: 1, Batch: 4, InFlight: 1,
		Prefill: 16, Decode: 3, Context: 16, Type: "bfloat16", Compute: InferenceCompute{Prefill: 10 * time.Millisecond,
			Decode: time.Millisecond},
	}
}

// A pass has the sizes of Megatron-LM (arXiv:1909.08053): two all-reduces of tokens * hidden in each layer and one for
// the embeddings, the hidden states between the stages, and the part of the words that each rank has of the logits.
func TestInference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, from, to int) int { return rapid.IntRange(from, to).Draw(t, name) }
		f := inference()
		f.TP, f.PP, f.Batch, f.InFlight, f.Decode = 1<<draw("tp", 0, 3), draw("pp", 1, 4), draw("batch", 1, 5),
			draw("in flight", 1, 3), draw("decode", 0, 3)
		f.Prefill = draw("prefill", 1, 9)
		f.Decoder.Layers = int64(f.PP * draw("layers", 1, 3))
		f.Decoder.Words = int64(draw("words", 1, 99))
		if rapid.Bool().Draw(t, "experts") {
			f.EP = draw("ep", 1, 3)
			f.Decoder.Experts, f.Decoder.TopK = 2*f.EP, draw("top-k", 1, 2)
		}
		_, ix := checked(t, f)
		tokens := int64(f.Batch * f.InFlight * (f.Prefill + f.Decode))
		sampled := int64(f.Batch * f.InFlight * (1 + f.Decode))
		layers := f.Decoder.Layers / int64(f.PP)
		inStage := f.TP * f.EP
		for _, rank := range []int{0, inStage - 1, f.Ranks() - 1} {
			stage := rank / inStage
			first, last := stage == 0, stage == f.PP-1
			sums := map[string]int64{}
			if f.TP > 1 {
				sums["AllReduce tp"] = 2 * layers * tokens * 512 * 2
				if first {
					sums["AllReduce tp"] += tokens * 512 * 2
				}
				if last {
					sums["AllGather tp"] = sampled * divide(f.Decoder.Words, int64(f.TP)) * 2 * int64(f.TP)
				}
			}
			if !first {
				sums["recv pp"] = tokens * 512 * 2
			} else if f.PP > 1 {
				sums["recv tokens"] = sampled * 4
			}
			if !last {
				sums["send pp"] = tokens * 512 * 2
			} else if f.PP > 1 {
				sums["send tokens"] = sampled * 4
			}
			if f.EP > 1 { // of the tokens of a pass, rounded up to a multiple of ep
				perPass := func(tokens int) int64 {
					return divide(int64(tokens*f.Decoder.TopK*512), int64(f.EP)) * int64(f.EP)
				}
				sums["AllToAll ep"] = 2 * layers * 2 * int64(f.InFlight) * (perPass(f.Batch*f.Prefill) +
					int64(f.Decode)*perPass(f.Batch))
			}
			want(t, ix, rank, sums)
		}
	})
}

// The file of a public generator, AICB (SimAI_inference_workload_generator.py, get_comm_size and dump_file): an
// all-reduce of 2 * m * hidden bytes after attention and after the MLP, all-to-alls of 2 * m * hidden * top-k, and 2 *
// batch * seq * hidden between stages, with m the batch of a pass that decodes, and the tokens of a prompt for a
// prefill of one sequence.
func TestInferenceAgainstAICB(t *testing.T) {
	f := inference()
	f.Decoder, f.TP, f.PP, f.EP, f.Batch, f.Prefill, f.Decode = mixtral(), 1, 2, 4, 32, 0, 1
	_, ix := checked(t, f)
	const m, hidden, topK = 32, 4096, 2
	if got := sent(ix, 0); got["AllToAll ep"] != 16*2*(2*m*hidden*topK) || got["send pp"] != 2*m*1*hidden {
		t.Error(got)
	}
	f.Decoder.Experts, f.EP, f.TP, f.Batch, f.Prefill, f.Decode = 0, 1, 4, 1, 2048, 0
	_, ix = checked(t, f)
	if got := sent(ix, 7); got["AllReduce tp"] != 16*2*(2*2048*hidden) || got["recv pp"] != 2*2048*hidden {
		t.Error(got)
	}
}

// vLLM sends hidden states and residual, in parts that the next stage gathers.
func TestInferenceVLLM(t *testing.T) {
	f := inference()
	f.VLLM, f.Prefill, f.Decode = true, 0, 1
	_, ix := checked(t, f)
	all := int64(4 * 512 * 2)
	want(t, ix, 0, map[string]int64{"AllReduce tp": 9 * all, "send pp": all, "recv tokens": 16})
	want(t, ix, 3, map[string]int64{"AllReduce tp": 8 * all, "recv pp": all, "AllGather tp": 2*all + 4*1000*2,
		"send tokens": 16})
}

// The computation of a dense model follows its formula: for a prefill 2 operations for each parameter and token, and
// for a pass that decodes its bytes over the memory's bandwidth.
func TestInferenceCompute(t *testing.T) {
	n := network(t, "llama2-7b")
	f := &Inference{Name: n.Name, Decoder: *n.Decoder, TP: 1, PP: 1, EP: 1, Batch: 1, InFlight: 1, Prefill: 512,
		Type: "float16", Compute: InferenceCompute{FLOPS: 100e12}}
	_, ix := checked(t, f)
	weights := float64(n.Elements() - 2*32000*4096 - 65*4096)
	seconds := 2*(weights*512+32000*4096+32*512*513*4096)/100e12 - computed(ix, 0).Seconds()
	if seconds < -1e-6 || seconds > 1e-6 {
		t.Errorf("prefill: %g s off", seconds)
	}
	f.Prefill, f.Decode, f.Context, f.Compute = 0, 1, 1000, InferenceCompute{Memory: 2e12}
	_, ix = checked(t, f)
	seconds = 2*(weights+32000*4096+32*2*1001*4096)/2e12 - computed(ix, 0).Seconds()
	if seconds < -1e-6 || seconds > 1e-6 {
		t.Errorf("decode: %g s off", seconds)
	}
	for tp, want := range map[int]bool{32: false, 64: true} { // 32 heads of 128
		f.TP = tp
		if got := strings.Contains(strings.Join(f.notes(), "\n"), "less than a usual head"); got != want {
			t.Errorf("tp %d: the note on heads: %v, want %v", tp, got, want)
		}
	}
	f.TP = 1
	f.Compute = InferenceCompute{Decode: 17500 * time.Microsecond}
	if _, ix = checked(t, f); !near(computed(ix, 0), 17500*time.Microsecond) {
		t.Errorf("computes %v, not as given", computed(ix, 0))
	}
}

// With a skew, what all ranks send in an all-to-all is still tokens * top-k, no expert gets a token twice, and the
// hottest expert gets what was asked for.
func TestRouting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, from, to int) int { return rapid.IntRange(from, to).Draw(t, name) }
		r := &Routing{Drawn: rapid.Bool().Draw(t, "drawn"), Seed: rapid.Uint64().Draw(t, "seed")}
		ep := draw("ep", 1, 4)
		experts := ep * draw("experts", 1, 8)
		topK := draw("top-k", 1, experts)
		if rapid.Bool().Draw(t, "zipf") {
			r.Skew.Zipf = rapid.Float64Range(0, 3).Draw(t, "exponent")
		} else {
			r.Skew.Hottest = rapid.Float64Range(1, float64(experts)/float64(topK)).Draw(t, "ratio")
		}
		tokens := int64(draw("tokens", 1, 300))
		router := newRouter(r, experts, topK)
		sum := 0.0
		for _, p := range router.chances {
			if sum += p; p > 1+1e-9 || p < 0 {
				t.Fatalf("chances %v", router.chances)
			}
		}
		if sum < float64(topK)-1e-6 || sum > float64(topK)+1e-6 {
			t.Fatalf("chances add up to %g, want %d", sum, topK)
		}
		if got := router.chances[0] * float64(experts) / float64(topK); r.Skew.Hottest > 0 &&
			(got < r.Skew.Hottest-1e-3 || got > r.Skew.Hottest+1e-3) {
			t.Fatalf("the hottest expert gets %g times the mean, want %g", got, r.Skew.Hottest)
		}
		x := router.exchange(ep, tokens, 0, 0)
		for source := range x {
			all := int64(0)
			for _, n := range x[source] {
				all += n
			}
			if all != tokens*int64(topK) {
				t.Fatalf("%d choices, want %d", all, tokens*int64(topK))
			}
		}
		for _, n := range router.take(tokens, 1, 7) {
			if n < 0 || n > tokens {
				t.Fatalf("an expert gets %d of %d tokens", n, tokens)
			}
		}
	})
}

// Draws have the chances as their means.
func TestDraws(t *testing.T) {
	r := newRouter(&Routing{Skew: Skew{Zipf: 1}, Drawn: true, Seed: 3}, 8, 2)
	counts := r.take(200_000, 0, 0)
	slices.Sort(counts)
	slices.Reverse(counts)
	for i, n := range counts {
		if got := float64(n) / 200_000; got < r.chances[i]-0.005 || got > r.chances[i]+0.005 {
			t.Errorf("expert %d is chosen by %g, want %g", i, got, r.chances[i])
		}
	}
}

// Each pass and layer draws anew, and the same each time. The hot experts are those of the layer.
func TestDrawsAreRepeatable(t *testing.T) {
	r := newRouter(&Routing{Skew: Skew{Zipf: 2}, Drawn: true, Seed: 3}, 16, 2)
	hottest := func(counts []int64) int { return slices.Index(counts, slices.Max(counts)) }
	first, again, next, other := r.take(1000, 0, 7), r.take(1000, 0, 7), r.take(1000, 0, 8), r.take(1000, 1, 7)
	if !slices.Equal(first, again) || slices.Equal(first, next) || hottest(first) != hottest(next) ||
		hottest(first) == hottest(other) {
		t.Errorf("%v\n%v\n%v\n%v", first, again, next, other)
	}
}

// With a skew, some ranks compute longer, and all together as long as without.
func TestSkewedComputation(t *testing.T) {
	g := gpt()
	g.Layers, g.Hidden, g.Heads, g.Vocab, g.TP, g.PP, g.DP, g.EP, g.Experts, g.TopK, g.Batch, g.MicroBatch = 2, 64, 4,
		1, 1, 1, 4, 4, 8, 2, 4, 1
	sum := func() (total, longest time.Duration) {
		_, ix := checked(t, g)
		for rank := range g.Ranks() {
			c := computed(ix, rank)
			total, longest = total+c, max(longest, c)
		}
		return total, longest
	}
	total, longest := sum()
	g.Routing.Skew.Hottest = 3
	skewed, busiest := sum()
	if d := total - skewed; d < -100 || d > 100 || busiest < longest*11/10 {
		t.Errorf("%v and %v, without a skew %v and %v", skewed, busiest, total, longest)
	}
}

// A capacity factor of 1 lets each expert take the mean, as in GShard and Megatron-LM's get_capacity.
func TestCapacity(t *testing.T) {
	r := newRouter(&Routing{Skew: Skew{Hottest: 3}, Capacity: 1}, 8, 2)
	for _, n := range r.take(100, 0, 0) {
		if n > 25 {
			t.Errorf("an expert takes %d of 200 choices, want 25 at most", n)
		}
	}
	if r.dropped == 0 || !strings.Contains(r.note(), "capacity factor 1 drops") {
		t.Error(r.dropped, r.note())
	}
}

// With a skew, calls match in training and inference, whatever the sizes, and the sum of what is sent is as without.
func TestSkewedJobs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, from, to int) int { return rapid.IntRange(from, to).Draw(t, name) }
		routing := Routing{Skew: Skew{Zipf: rapid.Float64Range(0.1, 3).Draw(t, "zipf")},
			Drawn: rapid.Bool().Draw(t, "drawn"), Seed: 5}
		g := gpt()
		g.Hidden, g.Heads, g.Seq, g.Vocab, g.Steps = 64, 4, 16, 100, draw("steps", 1, 2)
		g.TP, g.PP, g.MicroBatch, g.EP, g.TopK = 1<<draw("tp", 0, 1), draw("pp", 1, 3), draw("micro-batch", 1, 2),
			draw("ep", 1, 4), draw("top-k", 1, 2)
		g.SequenceParallel = rapid.Bool().Draw(t, "sequence parallel")
		g.Layers, g.Experts, g.DP = int64(g.PP), 2*g.EP, g.EP*draw("dp", 1, 2)
		g.Batch, g.Routing = g.DP*g.MicroBatch*draw("micro-batches", 1, 3), routing
		_, ix := checked(t, g)
		total := int64(0)
		for rank := range g.Ranks() {
			bytes := sent(ix, rank)
			if total += bytes["send ep"]; bytes["send ep"] != bytes["recv ep"] { // what goes to experts comes back
				t.Fatalf("rank %d sends %d bytes and gets %d", rank, bytes["send ep"], bytes["recv ep"])
			}
		}
		tokens := int64(g.Batch) * 16 * int64(g.Steps)
		lanes := int64(g.TP)
		if g.SequenceParallel {
			lanes = 1
		}
		if want := tokens * lanes * g.Layers * 4 * int64(g.TopK) * 64 * 2; g.EP > 1 && total != want {
			t.Fatalf("all ranks send %d bytes to experts, want %d", total, want)
		}
		f := inference()
		f.TP, f.EP, f.Decoder.Experts, f.Decoder.TopK, f.Routing = g.TP, g.EP, g.Experts, g.TopK, routing
		_, ix = checked(t, f)
		total = 0
		for rank := range f.Ranks() {
			total += sent(ix, rank)["send ep"]
		}
		if want := int64(4*(16+3)*f.TP*f.EP*8*2*f.Decoder.TopK) * 512 * 2; f.EP > 1 && total != want {
			t.Fatalf("all ranks send %d bytes to experts, want %d", total, want)
		}
	})
}

// aicbLlama7B is Llama 7B with the order of the parameters that AICB's mocked model has.
func aicbLlama7B() *layers.Network {
	n := &layers.Network{Name: "llama-7b", Tokens: 2048}
	add := func(name string, elements ...int64) {
		b := layers.Block{Name: name}
		for _, e := range elements {
			b.Tensors = append(b.Tensors, layers.Tensor{Name: name, Elements: e, Work: e})
		}
		n.Blocks = append(n.Blocks, b)
	}
	const h, i = 4096, 11008
	add("embeddings", 32000*h)
	for range 32 {
		add("layer", h, h*h, h*h, h*h, h*h, h, h*i, h*i, h*i)
	}
	add("head", h, 32000*h)
	return n
}

func zero(stage int) *ZeRO {
	return &ZeRO{
		Training: Training{Network: aicbLlama7B(), Ranks: 128, Steps: 1, Batch: 1, Compute: Compute{Step: time.Second},
			Type: "float16"},
		Stage:  stage,
		Bucket: 1e9, GatherBucket: 1e9, Reduce: ReduceByAllReduce, Overlap: true, ReuseDistance: 1e9, Persist: 1e5,
	}
}

// AICB's workload/physical/model_workload/L7B-D1-C01_Llama7B_zero2_mbs1.csv (128 ranks, buckets of 10^9 elements) has
// these all-reduces, and all-gathers of 13476831744 bytes together, padded by AICB for each call.
func TestZeRO2AgainstAICB(t *testing.T) {
	_, ix := checked(t, zero(2))
	var bytes []int64
	for _, n := range counts(ix, 5, workload.AllReduce) {
		bytes = append(bytes, 2*n)
	}
	if want := []int64{1971396608, 1933656064, 1990270976, 1990279168, 1990279168, 1990279168,
		1610670080}; !slices.Equal(bytes, want) {
		t.Errorf("all-reduces of\n%v, want\n%v", bytes, want)
	}
	gathers := counts(ix, 5, workload.AllGather)
	if got := sent(ix, 5)["AllGather"]; len(gathers) != 6 || got > 13476831744 || got < 13476831744-1024 {
		t.Errorf("%d all-gathers of %d bytes, want 6 of 13476831744", len(gathers), got)
	}
}

// AICB's L7B-D1-C02_Llama7B_zero3_mbs1.csv reduces and scatters 7 buckets, the last of 1610670080 bytes and two before
// it of 1990279168, and gathers the 65 normalizations of 8192 bytes after the optimizer. Each pass gathers all other
// parameters; DeepSpeed keeps those of the last blocks (stage3_max_reuse_distance), which AICB gathers again.
func TestZeRO3AgainstAICB(t *testing.T) {
	z := zero(3)
	_, ix := checked(t, z)
	scatters := counts(ix, 0, workload.ReduceScatter)
	if len(scatters) != 7 || scatters[6]*128*2 != 1610670080 || scatters[5]*128*2 != 1990279168 ||
		scatters[4]*128*2 != 1990279168 {
		t.Errorf("reduce-scatters of %v", scatters)
	}
	gathers := counts(ix, 0, workload.AllGather)
	if got := gathers[len(gathers)-1] * 128 * 2; got != 65*8192 {
		t.Errorf("after the optimizer %d bytes are gathered, want %d", got, 65*8192)
	}
	kept := int64(0)
	for i := range z.Network.Blocks {
		if z.kept(i) {
			kept += z.Network.Blocks[i].Elements() - 2*4096
			if z.Network.Blocks[i].Name == "head" {
				kept += 4096
			}
		}
	}
	all := int64(6738415616 - 65*4096)
	if got := sent(ix, 0)["AllGather"]; got != 2*(2*all-kept)+65*8192 {
		t.Errorf("all-gathers of %d bytes, want %d", got, 2*(2*all-kept)+65*8192)
	}
}

// A block stays gathered if at most ReuseDistance elements are between its two uses: those of the later blocks, twice.
func TestKeptBlocks(t *testing.T) {
	z := zero(3)
	z.Network, z.ReuseDistance = layers.Uniform(1000, 10), 400
	for unit := range 10 {
		if got, want := z.kept(unit), unit >= 7; got != want {
			t.Errorf("block %d: %v, want %v", unit, got, want)
		}
	}
}

// The volumes of the paper (arXiv:1910.02054, section 7): with P parameters, P reduced and P gathered for stages 1 and
// 2 by reduce-scatter, and one more P gathered for stage 3.
func TestZeROVolumes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, from, to int) int { return rapid.IntRange(from, to).Draw(t, name) }
		parameters, blocks := int64(draw("parameters", 100, 1_000_000)), draw("blocks", 1, 20)
		ranks := draw("ranks", 1, 9)
		z := zero(draw("stage", 1, 3))
		z.Network, z.Ranks, z.Steps = layers.Uniform(parameters, blocks), ranks, draw("steps", 1, 2)
		z.Bucket, z.GatherBucket = int64(draw("bucket", 1000, 2_000_000)), int64(draw("gather bucket", 1000, 2_000_000))
		z.Reduce, z.Overlap = rapid.SampledFrom(ReduceKinds()).Draw(t, "reduce"), rapid.Bool().Draw(t, "overlap")
		z.ReuseDistance, z.Persist = 0, 0
		_, ix := checked(t, z)
		got, steps := sent(ix, ranks-1), int64(z.Steps)
		atLeast := func(name string, want, padding int64) {
			t.Helper()
			if n := got[name]; n < 2*want*steps || n > 2*(want+padding)*steps {
				t.Fatalf("%s of %d bytes, want %d and at most %d elements of padding", name, n, 2*want*steps, padding)
			}
		}
		calls := int64(2*blocks + 2)
		if z.Stage == 3 {
			last := z.Network.Blocks[blocks-1].Elements()
			atLeast("ReduceScatter", parameters, calls*int64(ranks))
			atLeast("AllGather", 2*parameters-last, calls*int64(ranks))
			return
		}
		name := map[string]string{ReduceByAllReduce: "AllReduce", ReduceToOwners: "Reduce",
			ReduceByScatter: "ReduceScatter"}[z.Reduce]
		padding := int64(0)
		if z.Reduce == ReduceByScatter {
			padding = calls * int64(ranks)
		}
		atLeast(name, parameters, padding)
		atLeast("AllGather", parameters, 2*int64(ranks))
	})
}

// A worker exchanges all its parameters once in each round, in as many bytes as the bits say; DiLoCo's paper: 500
// times less often than data parallel training with 500 inner steps.
func TestDiLoCo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, from, to int) int { return rapid.IntRange(from, to).Draw(t, name) }
		d := &DiLoCo{
			Training: Training{
				Network: layers.Uniform(int64(draw("parameters", 100, 1_000_000)), draw("blocks", 4, 20)),
				Steps:   draw("rounds", 1, 3), Batch: 1, Compute: Compute{Step: time.Second}, Type: "bfloat16"},
			PerWorker: draw("ranks of a worker", 1, 3), Fragments: draw("fragments", 1, 4),
			OuterBits: rapid.SampledFrom([]int{32, 16, 8, 4}).Draw(t, "bits"),
		}
		d.Ranks = d.PerWorker * draw("workers", 2, 4)
		d.InnerSteps = d.Fragments * draw("inner steps", 1, 4)
		d.Delay = draw("delay", 0, d.InnerSteps-1)
		_, ix := checked(t, d)
		got := sent(ix, d.Ranks-1)
		exchanged := d.Network.Elements() * int64(d.OuterBits) / 8 / int64(d.PerWorker) * int64(d.Steps)
		if n := got["AllReduce outer"]; n < exchanged || n > exchanged+int64(d.Steps*d.Fragments)*8 {
			t.Fatalf("%d bytes are exchanged, want %d", n, exchanged)
		}
		inner := int64(0)
		if d.PerWorker > 1 {
			inner = 2 * d.Network.Elements() * int64(d.Steps*d.InnerSteps)
		}
		if got["AllReduce worker"] != inner {
			t.Fatalf("%d bytes within a worker, want %d", got["AllReduce worker"], inner)
		}
	})
}

// An exchange is beside the inner steps that its delay says, but for that of the last step: nothing comes after it,
// and a note says so.
func TestDiLoCoEnd(t *testing.T) {
	d := &DiLoCo{
		Training: Training{Network: layers.Uniform(1000, 4), Ranks: 2, Steps: 2, Batch: 1,
			Compute: Compute{Step: time.Second}, Type: "bfloat16"},
		PerWorker: 1, InnerSteps: 8, Fragments: 2, Delay: 2, OuterBits: 32,
	}
	w, _ := checked(t, d)
	step, begun, needed := 1, map[int]int{}, map[int]int{} // steps of exchanges, by their ids
	for _, o := range w.Ops {
		switch {
		case o.Kind == workload.Step:
			step++
		case o.Comm == "outer":
			begun[o.ID] = step
		case o.Name == "forward":
			for _, id := range o.After {
				needed[id] = step
			}
		}
	}
	for id, at := range begun {
		want := at + 1 + d.Delay
		if at == 16 {
			want = 0
		}
		if needed[id] != want {
			t.Errorf("the exchange after step %d is needed in step %d, want %d", at, needed[id], want)
		}
	}
	const note = "end: no inner step comes after step 16, so nothing hides its exchange, and the job ends with it; in a longer job the next 2 inner steps would"
	if len(begun) != 4 || !slices.Contains(w.Head.Source.Notes, note) {
		t.Errorf("%d exchanges; notes: %q", len(begun), w.Head.Source.Notes)
	}
	d.Delay = 0
	if w, _ := checked(t, d); slices.ContainsFunc(w.Head.Source.Notes,
		func(n string) bool { return strings.HasPrefix(n, "end:") }) {
		t.Errorf("each exchange is waited for: %q", w.Head.Source.Notes)
	}
}

func TestJobsRefused(t *testing.T) {
	change := func(f func(*Inference)) *Inference { i := inference(); f(i); return i }
	stage := func(f func(*ZeRO)) *ZeRO { z := zero(2); f(z); return z }
	local := func(f func(*DiLoCo)) *DiLoCo {
		d := &DiLoCo{
			Training: Training{Network: layers.Uniform(100, 4), Ranks: 4, Steps: 1, Batch: 1,
				Compute: Compute{Step: time.Second}, Type: "float32"},
			PerWorker: 1, InnerSteps: 4, Fragments: 1, OuterBits: 32,
		}
		f(d)
		return d
	}
	for want, job := range map[string]interface {
		Workload() (*workload.Workload, error)
	}{
		"no pass: give":                         change(func(f *Inference) { f.Prefill, f.Decode = 0, 0 }),
		"layers 8: must be a multiple of pp, 3": change(func(f *Inference) { f.PP = 3 }),
		"must be multiples of tp, 3":            change(func(f *Inference) { f.TP = 3 }),
		"ep 2: give the number of experts":      change(func(f *Inference) { f.EP = 2 }),
		"experts 6: must be a multiple of ep, 4": change(func(f *Inference) {
			f.EP, f.Decoder.Experts,
				f.Decoder.TopK = 4, 6, 2
		}),
		"top-k 9: must be 1 to": change(func(f *Inference) {
			f.Decoder.Experts,
				f.Decoder.TopK = 8, 9
		}),
		"say how long a pass that decodes computes":       change(func(f *Inference) { f.Compute.Decode = 0 }),
		"say how long the prefill computes":               change(func(f *Inference) { f.Compute.Prefill = 0 }),
		"or the rates of the GPU, not both":               change(func(f *Inference) { f.Compute.Memory = 1 }),
		"a skew, a capacity factor and a seed are of exp": change(func(f *Inference) { f.Routing.Drawn = true }),
		"gets at most 4 times the mean with top-k 2": change(func(f *Inference) {
			f.Decoder.Experts,
				f.Decoder.TopK, f.Routing.Skew.Hottest = 8, 2, 5
		}),
		"operations for each of 1000000 steps": change(func(f *Inference) {
			f.Decode, f.Prefill = 1_000_000,
				0
		}),
		"the activations of a pass have": change(func(f *Inference) {
			f.Batch, f.Prefill = 1<<24,
				1<<24
		}),
		"the weights of a layer have": change(func(f *Inference) {
			f.Decoder.Hidden,
				f.Decoder.Intermediate = 1<<24, 1<<24
		}),
		"a call of 8796093022208 elements of bfloat16: a": change(func(f *Inference) {
			f.Decoder.Words, f.Batch = 1<<24,
				1<<20
		}),
		"are 1099511627776 ranks":                        change(func(f *Inference) { f.TP, f.PP = 1<<20, 1<<20 }),
		"stage 4: must be 1, 2 or 3":                     stage(func(z *ZeRO) { z.Stage = 4 }),
		`reduce by "all": must be all-reduce, reduce or`: stage(func(z *ZeRO) { z.Reduce = "all" }),
		"a call of 1125899906842624 elements of float16": stage(func(z *ZeRO) {
			z.Network, z.Bucket,
				z.GatherBucket = layers.Uniform(1<<50, 1), 1<<50, 1<<50
		}),
		"buckets of 0 and": stage(func(z *ZeRO) { z.Bucket = 0 }),
		"4 ranks: must be a multiple of the ranks of a":  local(func(d *DiLoCo) { d.PerWorker = 3 }),
		"5 fragments: must be 1 to the number of blocks": local(func(d *DiLoCo) { d.Fragments = 5 }),
		"4 inner steps: must be a multiple of the frag":  local(func(d *DiLoCo) { d.Fragments = 3 }),
		"delay of 4 inner steps: must be 0 to 3":         local(func(d *DiLoCo) { d.Delay = 4 }),
		"5 bits of an element":                           local(func(d *DiLoCo) { d.OuterBits = 5 }),
	} {
		if _, err := job.Workload(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for _, text := range []string{"", "3", "x", "0.5x", "zipf:", "zipf:-1", "zipf:NaN", "NaNx", "zipf:21", "Infx"} {
		if _, err := ParseSkew(text); err == nil {
			t.Errorf("%q is a skew", text)
		}
	}
	for text, want := range map[string]Skew{"3x": {Hottest: 3}, "zipf:1.2": {Zipf: 1.2}} {
		if got, err := ParseSkew(text); err != nil || got != want || got.String() != text {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}
