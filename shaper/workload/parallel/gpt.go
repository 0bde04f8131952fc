// SPDX-License-Identifier: Apache-2.0

package parallel

import (
	"cmp"
	"fmt"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// GPT is the training of a GPT with tensor, pipeline, data and expert parallelism, as Megatron-LM does it.
//
// Ranks are in Megatron's order: the ranks of a tensor parallel group are neighbours, then come the data parallel
// groups (in them the expert parallel ones), then the stages of the pipeline.
type GPT struct {
	Layers, Hidden, Heads, Seq, Vocab int64
	TP, PP, DP                        int
	// SequenceParallel shares the activations between layers among the tensor parallel ranks (Korthikanti et al. 2022,
	// arXiv:2205.05198): an all-reduce becomes a reduce-scatter and an all-gather, and the backward pass gathers the
	// input of each part once more.
	SequenceParallel bool
	// Experts is the number of experts of each layer, 0 for a dense network, EP the ranks that share them, and TopK how
	// many experts see each token.
	Experts, EP, TopK int
	Routing           Routing
	// Batch is the sequences of a step, in all data parallel groups together, and MicroBatch the sequences of a
	// micro-batch.
	Batch, MicroBatch int
	Steps             int
	Compute           Compute
	Type              string // of activations
	GradType          string // of gradients
}

// Ranks is the number of ranks.
func (g *GPT) Ranks() int { return g.TP * g.PP * g.DP }

// microBatches is how many of them a rank computes in a step.
func (g *GPT) microBatches() int { return g.Batch / (g.DP * g.MicroBatch) }

func (g *GPT) validate() error {
	if err := cmp.Or(checkSize("layers", g.Layers), checkSize("hidden", g.Hidden), checkSize("heads", g.Heads),
		checkSize("seq", g.Seq), checkSize("vocab", g.Vocab), checkSize("tp", g.TP), checkSize("pp", g.PP),
		checkSize("dp", g.DP), checkSize("batch", g.Batch), checkSize("micro-batch", g.MicroBatch)); err != nil {
		return err
	}
	if int64(g.TP)*int64(g.PP)*int64(g.DP) > workload.MaxRanks {
		return fmt.Errorf("tp %d, pp %d and dp %d are more than %d ranks", g.TP, g.PP, g.DP, workload.MaxRanks)
	}
	if err := checkSteps(g.Ranks(), g.Steps); err != nil {
		return err
	}
	if err := checkProduct("the activations of a micro-batch", int64(g.MicroBatch), g.Seq, g.Hidden,
		max(int64(g.TopK), 1)); err != nil {
		return err
	}
	if err := checkProduct("the parameters", g.Layers, 12, g.Hidden, g.Hidden, max(int64(g.Experts), 1)); err != nil {
		return err
	}
	for _, name := range []string{g.Type, g.GradType} {
		if _, err := workload.TypeSize(name); err != nil {
			return err
		}
	}
	return g.validateShares()
}

// validateShares refuses sizes that cannot be shared equally.
func (g *GPT) validateShares() error {
	sequenceShares := int64(1)
	if g.SequenceParallel {
		sequenceShares = int64(g.TP)
	}
	if err := cmp.Or(checkShare("layers", g.Layers, "pp", int64(g.PP)), checkShare("hidden", g.Hidden, "heads", g.Heads),
		checkShare("heads", g.Heads, "tp", int64(g.TP)),
		checkShare("batch", int64(g.Batch), "dp * micro-batch", int64(g.DP)*int64(g.MicroBatch)),
		checkShare("seq", g.Seq, "tp, with sequence parallelism", sequenceShares)); err != nil {
		return err
	}
	if g.Experts == 0 {
		if g.EP > 1 {
			return fmt.Errorf("ep %d: give the number of experts", g.EP)
		}
		return g.Routing.validate(0, 0)
	}
	if g.EP < 1 || g.DP%g.EP != 0 || g.Experts%g.EP != 0 {
		return fmt.Errorf("ep %d: dp, %d, and experts, %d, must be multiples of it", g.EP, g.DP, g.Experts)
	}
	if g.TopK < 1 || g.TopK > g.Experts {
		return fmt.Errorf("top-k %d: must be 1 to the number of experts, %d", g.TopK, g.Experts)
	}
	return g.Routing.validate(g.Experts, g.TopK)
}

// parameters are the parameters of a rank of a stage: the ones that all data parallel ranks have, and its experts.
func (g *GPT) parameters(stage int) (dense, experts int64) {
	h, tp, layers := g.Hidden, int64(g.TP), g.Layers/int64(g.PP)
	attention := divide(3*h*h+3*h, tp) + divide(h*h, tp) + h
	mlp := divide(4*h*h+4*h, tp) + divide(4*h*h, tp) + h
	norms := 4 * h
	dense = layers * (attention + norms)
	if g.Experts > 0 {
		dense += layers * h * int64(g.Experts) // the router
		experts = layers * mlp * int64(g.Experts/g.EP)
	} else {
		dense += layers * mlp
	}
	words := divide(g.Vocab, tp) * h
	if stage == 0 {
		dense += words + g.Seq*h
	}
	if stage == g.PP-1 {
		dense += 2 * h
		if g.PP > 1 {
			dense += words // a copy of the word embeddings, for the output
		}
	}
	return dense, experts
}

// multiplications are a rank's multiplications for the forward pass of a micro-batch: of attention and MLP of a layer,
// and of the output.
func (g *GPT) multiplications() (attention, mlp, output float64) {
	tokens := float64(g.MicroBatch) * float64(g.Seq) / float64(g.TP)
	h := float64(g.Hidden)
	attention = 4 * h * h * tokens
	mlp = 8 * h * h * tokens
	if g.Experts > 0 {
		mlp *= float64(g.TopK)
	}
	return attention, mlp, h * float64(g.Vocab) * tokens
}

// Workload makes the workload.
func (g *GPT) Workload() (*workload.Workload, error) {
	if err := g.validate(); err != nil {
		return nil, err
	}
	if err := g.Compute.validate(); err != nil {
		return nil, err
	}
	perLayer := 8
	if g.Experts > 0 {
		perLayer += 4
	}
	if g.Routing.uneven() { // a line for each expert parallel rank
		perLayer += 6*g.EP + 8*g.EP*g.EP
	}
	if g.SequenceParallel {
		perLayer += 6
	}
	perMicroBatch := perLayer*int(g.Layers) + 16*g.PP
	if int64(g.microBatches())*int64(perMicroBatch) > workload.MaxOps {
		return nil, checkOps(workload.MaxOps, 2)
	}
	if err := checkOps(g.microBatches()*perMicroBatch+5*g.PP, g.Steps); err != nil {
		return nil, err
	}
	attention, mlp, output := g.multiplications()
	busiest := (float64(g.Layers/int64(g.PP))*(attention+mlp) + output) * float64(g.microBatches())
	c := g.Compute.clock(busiest)
	j := newJob(g.name(), g.Ranks(), c.note,
		fmt.Sprintf("pipeline: 1F1B, %s of %s for each data parallel rank",
			units.Count(g.microBatches(), "micro-batch"), units.Count(g.MicroBatch, "sequence")),
		"left out: the attention's own multiplications (they grow with the square of the sequence), recomputation, "+
			"and the small all-reduces of the loss and of the gradients' norm")
	j.w.Head.Comms = g.comms()
	var routes *router
	if g.Experts > 0 {
		routes = newRouter(&g.Routing, g.Experts, g.TopK)
	}
	for step := range g.Steps {
		for stage := range g.PP {
			s := newStage(g, j, c, stage)
			s.routes, s.step = routes, step
			s.schedule()
			s.finish()
		}
	}
	if routes != nil {
		j.w.Head.Source.Notes = append(j.w.Head.Source.Notes, routes.note())
	}
	return j.done()
}

func (g *GPT) name() string {
	text := fmt.Sprintf("gpt of %d layers, hidden %d, tp %d, pp %d, dp %d", g.Layers, g.Hidden, g.TP, g.PP, g.DP)
	if g.Experts > 0 {
		text += fmt.Sprintf(", %d experts, ep %d", g.Experts, g.EP)
	}
	return text
}

// comms are the communicators. Those of one kind have one name.
func (g *GPT) comms() []workload.Comm {
	var list commList
	inStage := g.TP * g.DP
	for first := 0; first < g.Ranks(); first += g.TP {
		list.add("tp", first, 1, g.TP)
	}
	for stage := range g.PP {
		for t := range g.TP {
			first := stage*inStage + t
			list.add("dp", first, g.TP, g.DP)
			if g.Experts == 0 {
				continue
			}
			for d := 0; d < g.DP; d += g.EP {
				list.add("ep", first+d*g.TP, g.TP, g.EP)
			}
			for e := range g.EP {
				list.add("expert-dp", first+e*g.TP, g.TP*g.EP, g.DP/g.EP)
			}
		}
	}
	for rank := range inStage {
		list.add("pp", rank, inStage, g.PP)
		if g.PP > 1 {
			list.add("embedding", rank, (g.PP-1)*inStage, 2)
		}
	}
	return list
}
