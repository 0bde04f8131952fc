// SPDX-License-Identifier: Apache-2.0

package parallel

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/check"
	"github.com/ddlemu/ddlemu/shaper/workload/layers"
)

type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// checked makes a workload whose calls match.
func checked(t tester, job interface {
	Workload() (*workload.Workload, error)
}) (*workload.Workload, *workload.Index) {
	t.Helper()
	w, err := job.Workload()
	if err != nil {
		t.Fatal(err)
	}
	ix, err := w.Index()
	if err != nil {
		t.Fatal(err)
	}
	found, err := check.Run(context.Background(), ix)
	if err != nil || len(found) > 0 {
		t.Fatalf("%+v, %v", found, err)
	}
	return w, ix
}

func network(t tester, name string) *layers.Network {
	t.Helper()
	n, err := layers.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// counts are the counts of all calls of a function by a rank.
func counts(ix *workload.Index, rank int, fn workload.Func) (list []int64) {
	for _, o := range ix.OfRank(rank) {
		if o.Func == fn {
			list = append(list, o.Count)
		}
	}
	return list
}

// computed is the time for which a rank computes.
func computed(ix *workload.Index, rank int) (sum time.Duration) {
	for _, o := range ix.OfRank(rank) {
		sum += time.Duration(o.Nanos)
	}
	return sum
}

// A trace of ResNet-50 with DistributedDataParallel has these buckets.
func TestBucketsOfResNet50(t *testing.T) {
	var got []int64
	for _, b := range Buckets(network(t, "resnet50"), 4, 1<<20, 25<<20) {
		got = append(got, b.Elements)
	}
	if want := []int64{2_049_000, 7_875_584, 6_563_840, 6_637_568, 2_431_040}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func ddp(t tester) *DDP {
	return &DDP{
		Training: Training{Network: network(t, "resnet50"), Ranks: 4, Steps: 2, Batch: 64,
			Compute: Compute{Step: 252900 * time.Microsecond}, Type: "float32"},
		FirstBucket: 1 << 20, BucketCap: 25 << 20, Overlap: true, Buffers: true,
	}
}

func near(a, b time.Duration) bool { return a-b < time.Microsecond && b-a < time.Microsecond }

func TestDDP(t *testing.T) {
	_, ix := checked(t, ddp(t))
	if got := counts(ix, 3, workload.Broadcast); !slices.Equal(got, []int64{53_120, 53, 53_120, 53}) {
		t.Errorf("broadcasts of %v", got)
	}
	if got := computed(ix, 0); !near(got, 2*252900*time.Microsecond) {
		t.Errorf("computes %v", got)
	}
	if n := len(counts(ix, 0, workload.AllReduce)); n != 10 {
		t.Errorf("%d all-reduces", n)
	}
	// An all-reduce starts when its bucket is ready, while the next one is computed.
	p := ix.Program(0)
	for _, c := range p.Calls {
		if o := ix.Workload.Ops[c.Op]; o.Func == workload.AllReduce &&
			(len(o.After) != 1 || ix.Workload.Ops[c.Op-1].ID != o.After[0]) {
			t.Errorf("line %d comes after %v", workload.Line(int(c.Op)), o.After)
		}
	}
}

func TestDDPFused(t *testing.T) {
	d := ddp(t)
	d.Fused, d.Overlap, d.Buffers, d.Steps = true, false, false, 1
	w, ix := checked(t, d)
	if got := counts(ix, 0, workload.AllReduce); !slices.Equal(got, []int64{25_557_032}) {
		t.Errorf("all-reduces of %v", got)
	}
	var kinds []string
	for _, o := range w.Ops {
		kinds = append(kinds, string(o.Kind))
	}
	if got := strings.Join(kinds, " "); got != "calc calc coll calc step" {
		t.Error(got)
	}
}

// Without a time, the multiplications and the rate of the GPU say it: ResNet-50's 4.1e9 of a sample and pass.
func TestComputeOfRate(t *testing.T) {
	d := ddp(t)
	d.Steps, d.Compute = 1, Compute{FLOPS: 15.7e12, MFU: 0.5}
	_, ix := checked(t, d)
	if got, want := computed(ix, 0).Seconds(), 64*6*4.09e9/(15.7e12*0.5); got < 0.99*want || got > 1.01*want {
		t.Errorf("%g s, want %g s", got, want)
	}
}

func TestFSDP(t *testing.T) {
	n := network(t, "gpt2")
	_, ix := checked(t, &FSDP{Training{Network: n, Ranks: 8, Steps: 2, Batch: 1, Compute: Compute{Step: time.Second},
		Type: "bfloat16"}})
	sum := func(fn workload.Func) (all int64) {
		for _, c := range counts(ix, 0, fn) {
			all += c
		}
		return 8 * all
	}
	units := int64(len(n.Blocks))
	last := n.Blocks[units-1].Elements()
	if got, want := sum(workload.ReduceScatter), 2*n.Elements(); got < want || got > want+2*8*units {
		t.Errorf("%d gradients, want %d", got, want)
	}
	if got, want := sum(workload.AllGather), 2*(2*n.Elements()-last); got < want || got > want+4*8*units {
		t.Errorf("%d parameters, want %d", got, want)
	}
	if got := computed(ix, 7); !near(got, 2*time.Second) {
		t.Errorf("computes %v", got)
	}
}

func gpt() *GPT {
	return &GPT{
		Layers: 96, Hidden: 12288, Heads: 96, Seq: 2048, Vocab: 51200, TP: 8, PP: 8, DP: 2, Batch: 64, MicroBatch: 2,
		Steps:   1,
		Compute: Compute{FLOPS: 312e12, MFU: 0.4}, Type: "bfloat16", GradType: "float32",
	}
}

// GPT-3 has 175e9 parameters: 12 L h^2 (1 + 13/12h) + (V + s) h, and once more V h for the output (Narayanan et al.
// 2021).
func TestGPTParameters(t *testing.T) {
	g := gpt()
	g.TP = 1
	sum := int64(0)
	for stage := range g.PP {
		dense, _ := g.parameters(stage)
		sum += dense
	}
	h := float64(g.Hidden)
	want := 12*96*h*h*(1+13/(12*h)) + (2*51200+2048)*h
	if got := float64(sum); got < want || got > 1.00001*want {
		t.Errorf("%g parameters, want %g", got, want)
	}
}

func TestGPT(t *testing.T) {
	g := gpt()
	w, ix := checked(t, g)
	// 16 micro-batches of 12 layers: two all-reduces each way, those of the embeddings, and the gradients' two.
	if got, want := len(counts(ix, 0, workload.AllReduce)), 16*(12*4+1)+2; got != want {
		t.Errorf("%d all-reduces of rank 0, want %d", got, want)
	}
	if got, want := len(counts(ix, 127, workload.AllReduce)), 16*(12*4+1)+2; got != want {
		t.Errorf("%d all-reduces of rank 127, want %d", got, want)
	}
	if len(ix.Programs) != g.PP {
		t.Errorf("%d programs", len(ix.Programs))
	}
	// Rank 40 is of stage 2: after 5 forward passes, 11 groups with the next stage and 10 with the one before.
	sends, groups := 0, 0
	for _, o := range ix.OfRank(40) {
		if o.Kind == workload.Group {
			groups++
		}
		for part := range o.Parts() {
			if part.Kind == workload.Send {
				sends++
			}
		}
	}
	if sends != 2*16 || groups != 11+10 {
		t.Errorf("rank 40 sends %d messages, want 32, and has %d groups, want 21", sends, groups)
	}
	// 8 sequences of 2048 tokens and 6 operations per parameter and token, with those of the output.
	want := 6 * 32 * 2048 * (12*12*12288*12288 + 12288*51200) / 8 / (312e12 * 0.4)
	if got := computed(ix, 127).Seconds(); got < 0.999*want || got > 1.001*want {
		t.Errorf("rank 127 computes %g s, want %g s", got, want)
	}
	if n := len(w.Ops); n > 30_000 {
		t.Errorf("%d lines", n)
	}
}

// With sequence parallelism a layer has 2 all-gathers and 2 reduce-scatters forward, and 4 and 2 backward.
func TestSequenceParallel(t *testing.T) {
	g := gpt()
	g.SequenceParallel = true
	_, ix := checked(t, g)
	share := int64(2 * 2048 * 12288 / 8)
	for fn, want := range map[workload.Func]int{workload.AllGather: 16 * (12*6 + 2),
		workload.ReduceScatter: 16 * (12*4 + 1)} {
		got := counts(ix, 127, fn)
		if len(got) != want || got[0] != share {
			t.Errorf("%d %s of %d, want %d of %d", len(got), fn, got[0], want, share)
		}
	}
	for _, o := range ix.OfRank(40) {
		for part := range o.Parts() {
			if part.Kind == workload.Send && part.Count != share {
				t.Fatalf("sends %d, want %d", part.Count, share)
			}
		}
	}
}

func TestMoE(t *testing.T) {
	g := gpt()
	g.Layers, g.Hidden, g.Heads, g.PP, g.DP, g.EP, g.Experts, g.TopK = 8, 1024, 16, 2, 8, 4, 8, 2
	_, ix := checked(t, g)
	all := counts(ix, 5, workload.AllToAll)
	if got, want := len(all), 4*g.microBatches()*4; got != want {
		t.Errorf("%d all-to-alls, want %d", got, want)
	}
	if want := int64(2 * 2048 * 1024 * 2 / 4); all[0] != want {
		t.Errorf("all-to-all of %d, want %d", all[0], want)
	}
	// 8 data parallel ranks, and each expert on two of them.
	for name, want := range map[string]int{"tp": 8, "dp": 8, "ep": 4, "expert-dp": 2, "pp": 2, "embedding": 2} {
		if p, ok := ix.Place(name, 77); !ok || len(ix.Comms[p.Comm].Ranks) != want {
			t.Errorf("rank 77 in %s: %v, of %d ranks, want %d", name, ok, len(ix.Comms[p.Comm].Ranks), want)
		}
	}
}

// Whatever the sizes are, all calls match and no rank waits for ever.
func TestAnyGPT(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, from, to int) int { return rapid.IntRange(from, to).Draw(t, name) }
		g := gpt()
		g.Hidden, g.Heads, g.Seq, g.Vocab = 64, 4, 16, 100
		g.SequenceParallel = rapid.Bool().Draw(t, "sequence parallel")
		g.TP, g.PP, g.MicroBatch, g.Steps = 1<<draw("tp", 0, 2), draw("pp", 1, 5), draw("micro-batch", 1, 2),
			draw("steps", 1, 2)
		g.Layers = int64(g.PP * draw("layers", 1, 2))
		g.DP = 1
		if rapid.Bool().Draw(t, "experts") {
			g.EP, g.TopK = draw("ep", 1, 3), 1
			g.Experts = 2 * g.EP
			g.DP = g.EP
		}
		g.DP *= draw("dp", 1, 3)
		g.Batch = g.DP * g.MicroBatch * draw("micro-batches", 1, 9)
		checked(t, g)
	})
}

func TestDLRM(t *testing.T) {
	d := &DLRM{Tables: 26, Dim: 64, Bottom: []int64{13, 512, 256, 64}, Top: []int64{512, 512, 256, 1}, Ranks: 8,
		Steps: 3, Batch: 256,
		Compute: Compute{Step: 10 * time.Millisecond}, Type: "float32"}
	_, ix := checked(t, d)
	if got := counts(ix, 0, workload.AllToAll); len(got) != 6 || got[0] != 256*4*64 {
		t.Errorf("all-to-alls of %v", got)
	}
	// 13*512+512 + 512*256+256 + 256*64+64, and from 27*26/2+64 inputs.
	if got := counts(ix, 0, workload.AllReduce); len(got) != 6 || got[1] != 154_944 ||
		got[0] != 416*512+512*512+512*256+256+512+256+1 {
		t.Errorf("all-reduces of %v", got)
	}
	if got := computed(ix, 0); !near(got, 30*time.Millisecond) {
		t.Errorf("computes %v", got)
	}
}

func TestRefused(t *testing.T) {
	for want, job := range map[string]interface {
		Workload() (*workload.Workload, error)
	}{
		"say how long a step computes": func() *DDP {
			d := ddp(
				t)
			d.Compute = Compute{}
			return d
		}(),
		"not both": func() *DDP { d := ddp(t); d.Compute.FLOPS = 1; return d }(),
		"must be above 0, and 1 at most": func() *DDP {
			d := ddp(t)
			d.Compute = Compute{FLOPS: 1,
				MFU: 40}
			return d
		}(),
		"batch 0: must be at least 1":                    func() *DDP { d := ddp(t); d.Batch = 0; return d }(),
		"-1 ranks: must be 1 to":                         func() *DDP { d := ddp(t); d.Ranks = -1; return d }(),
		"0 steps: must be 1 to":                          func() *DDP { d := ddp(t); d.Steps = 0; return d }(),
		"operations for each of 999999 steps: more than": func() *DDP { d := ddp(t); d.Steps = 999999; return d }(),
		`"float" is no type`:                             func() *DDP { d := ddp(t); d.Type = "float"; return d }(),
		"buckets of 0 and":                               func() *DDP { d := ddp(t); d.FirstBucket = 0; return d }(),
		"layers 96: must be a multiple of pp, 7":         func() *GPT { g := gpt(); g.PP = 7; return g }(),
		"heads 96: must be a multiple of tp, 5":          func() *GPT { g := gpt(); g.TP = 5; return g }(),
		"batch 64: must be a multiple of dp":             func() *GPT { g := gpt(); g.DP = 3; return g }(),
		"seq 2047: must be a multiple of tp, with": func() *GPT {
			g := gpt()
			g.SequenceParallel, g.Seq = true,
				2047
			return g
		}(),
		"give the number of experts": func() *GPT { g := gpt(); g.EP = 2; return g }(),
		"ep 4: dp, 2, and experts, 8": func() *GPT {
			g := gpt()
			g.EP, g.Experts, g.TopK = 4, 8,
				1
			return g
		}(),
		"top-k 9: must be 1 to": func() *GPT {
			g := gpt()
			g.EP, g.Experts, g.TopK = 2, 8,
				9
			return g
		}(),
		"are more than 1048576 ranks": func() *GPT { g := gpt(); g.DP = 1 << 20; g.Batch = 1 << 21; return g }(),
		"the activations of a micro-batch have": func() *GPT {
			g := gpt()
			g.Seq, g.MicroBatch,
				g.Batch = 1<<24, 1<<16, 1<<17
			return g
		}(),
		"the parameters have": func() *GPT { g := gpt(); g.Hidden = 96 << 17; return g }(),
		"the vectors of a batch have": &DLRM{Tables: 1 << 24, Dim: 1 << 24, Batch: 1 << 24,
			Bottom: []int64{1, 1 << 24}, Top: []int64{1}, Ranks: 2, Steps: 1, Type: "int8", Compute: Compute{Step: 1}},
		"a call of 1125899906842624 elements of float32": func() *DDP {
			d := ddp(t)
			d.Network,
				d.Fused = layers.Uniform(1<<50, 1), true
			return d
		}(),
		"the bottom perceptron ends with 13": &DLRM{Tables: 1, Dim: 2, Batch: 1, Bottom: []int64{1, 13},
			Top: []int64{1}, Ranks: 2, Steps: 1, Type: "int8", Compute: Compute{Step: 1}},
	} {
		if _, err := job.Workload(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
