// SPDX-License-Identifier: Apache-2.0

package parallel

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// inferenceStage makes the operations of the ranks of one stage in one pass.
type inferenceStage struct {
	*Inference
	job    *job
	n      int // the stage
	number int // of the pass
	ranks  workload.Ranks
	routes *router
	// tokens are the tokens of a batch in this pass, on each rank; sampled the tokens whose successor is sampled.
	tokens, sampled int64
	scale           float64 // of given times: ns for each multiplication
}

// tokensStream has the messages that return the tokens to the first stage.
const tokensStream = "tokens"

func newInferenceStage(f *Inference, j *job, n, number int) *inferenceStage {
	s := &inferenceStage{Inference: f, job: j, n: n, number: number, tokens: int64(f.Batch), sampled: int64(f.Batch)}
	given := f.Compute.Decode
	if s.prefills() {
		s.tokens *= int64(f.Prefill)
		given = f.Compute.Prefill
	}
	busiest := float64(f.Decoder.Layers/int64(f.PP))*float64(f.attention()+f.mlp()) +
		float64(f.output())*float64(s.sampled)/float64(s.tokens)
	s.scale = float64(given.Nanoseconds()) / (busiest * float64(s.tokens) * float64(f.InFlight))
	for rank := range f.TP * f.EP {
		s.ranks = append(s.ranks, n*f.TP*f.EP+rank)
	}
	return s
}

func (s *inferenceStage) prefills() bool { return s.Prefill > 0 && s.number == 0 }
func (s *inferenceStage) first() bool    { return s.n == 0 }
func (s *inferenceStage) last() bool     { return s.n == s.PP-1 }

// attention, mlp and output are the multiplications of a token by the weights of a rank: of the attention of a layer,
// of its MLP or the experts that it chooses, and of the output.
func (f *Inference) attention() int64 {
	d := &f.Decoder
	return divide(2*d.Hidden*d.Hidden+2*d.Hidden*d.KeyValue, int64(f.TP))
}

func (f *Inference) mlp() int64 { return int64(max(f.Decoder.TopK, 1)) * f.expert() }

// expert is the weights of an expert, or of the only MLP.
func (f *Inference) expert() int64 {
	return divide(3*f.Decoder.Hidden*f.Decoder.Intermediate, int64(f.TP))
}

func (f *Inference) output() int64 { return divide(f.Decoder.Words, int64(f.TP)) * f.Decoder.Hidden }

// context is the tokens that each token attends to, on average.
func (s *inferenceStage) context() float64 {
	if s.prefills() {
		return float64(s.Prefill+1) / 2
	}
	decoded := s.number + 1
	if s.Prefill > 0 {
		decoded = s.number
	}
	return float64(s.Context) + float64(decoded)
}

// time is the time of a part: by the times that were given for the multiplications by weights, or by the GPU's rates.
// More are multiplications that have no weights, and bytes the bytes that are read from memory.
func (s *inferenceStage) time(multiplications, more, bytes float64) int64 {
	if s.scale > 0 {
		return int64(multiplications*s.scale + 0.5)
	}
	ns := 0.0
	if s.Compute.FLOPS > 0 {
		ns = 2e9 * (multiplications + more) / s.Compute.FLOPS
	}
	if s.Compute.Memory > 0 {
		ns = max(ns, 1e9*bytes/s.Compute.Memory)
	}
	return int64(ns + 0.5)
}

func (s *inferenceStage) size() float64 {
	size, _ := workload.TypeSize(s.Type) // validate has refused others
	return float64(size)
}

// attentionTime has the products of queries with keys, and of their softmax with values: 2 * context * hidden for a
// token. The memory is the weights, and in a pass that decodes keys and values of the context.
func (s *inferenceStage) attentionTime() int64 {
	d, tp := &s.Decoder, float64(s.TP)
	tokens := float64(s.tokens)
	bytes := float64(s.attention())
	if !s.prefills() {
		bytes += tokens * s.context() * 2 * float64(d.KeyValue) / tp
	}
	return s.time(float64(s.attention())*tokens, 2*s.context()*float64(d.Hidden)*tokens/tp, bytes*s.size())
}

// mlpTime is the time of an MLP, or of the experts of a rank that get so many tokens. An expert without tokens is not
// read.
func (s *inferenceStage) mlpTime(tokens int64) int64 {
	read := int64(1)
	if s.Decoder.Experts > 0 {
		read = min(int64(s.Decoder.Experts/s.EP), tokens)
	}
	weights := float64(s.expert())
	return s.time(float64(tokens)*weights, 0, float64(read)*weights*s.size())
}

// pass adds a pass of all batches in flight. before are the messages with the tokens of the pass before, and get those
// of this one.
func (s *inferenceStage) pass(before [][]int) {
	for batch := range s.InFlight {
		s.job.ranks = s.ranks
		if s.first() {
			s.job.calc("embeddings", 0, before[batch]...)
			s.reduce()
		} else {
			s.transfer(workload.Recv, s.n-1)
		}
		for i := range int(s.Decoder.Layers) / s.PP {
			s.layer(s.n*int(s.Decoder.Layers)/s.PP+i, batch)
		}
		if !s.last() {
			s.transfer(workload.Send, s.n+1)
			continue
		}
		done := s.job.calc("output", s.time(float64(s.output())*float64(s.sampled), 0, float64(s.output())*s.size()))
		if s.TP > 1 {
			done = s.coll("tp", workload.AllGather, s.sampled*divide(s.Decoder.Words, int64(s.TP)))
		}
		if s.PP > 1 {
			s.returnTokens(workload.Send, 0, done)
		}
	}
	for batch := range s.InFlight {
		if s.first() && s.PP > 1 {
			before[batch] = []int{s.returnTokens(workload.Recv, 1)}
		}
	}
	s.job.add(workload.Op{Kind: workload.Step})
}

// returnTokens is the message with the new tokens from the last stage to the first one.
func (s *inferenceStage) returnTokens(kind workload.Kind, peer int, after ...int) int {
	return s.job.add(workload.Op{Kind: kind, Name: "tokens", Stream: tokensStream, Comm: "tokens", Peer: peer,
		Count: s.sampled, Type: "int32"}, after...)
}

func (s *inferenceStage) coll(comm string, fn workload.Func, count int64) int {
	return s.job.add(workload.Op{Kind: workload.Coll, Stream: computeStream, Comm: comm, Func: fn, Count: count,
		Type: s.Type})
}

// reduce adds the partial results of the tensor parallel ranks (Shoeybi et al. 2019, arXiv:1909.08053).
func (s *inferenceStage) reduce() {
	if s.TP > 1 {
		s.coll("tp", workload.AllReduce, s.tokens*s.Decoder.Hidden)
	}
}

// transfer sends activations to another stage, or receives them.
func (s *inferenceStage) transfer(kind workload.Kind, stage int) {
	all, tensors := s.tokens*s.Decoder.Hidden, 1
	part := all
	if s.VLLM {
		tensors = 2
		part = all / int64(s.TP)
	}
	for range tensors {
		s.job.add(workload.Op{Kind: kind, Stream: computeStream, Comm: "pp", Peer: stage, Count: part, Type: s.Type})
		if kind == workload.Recv && part < all {
			s.coll("tp", workload.AllGather, part)
		}
	}
}

// layer adds a layer: attention and MLP, the partial results of which are added over the tensor parallel ranks.
func (s *inferenceStage) layer(i, batch int) {
	name := func(part string) string { return fmt.Sprintf("layer %d %s", i, part) }
	s.job.calc(name("attention"), s.attentionTime())
	s.reduce()
	if s.Decoder.Experts > 0 {
		s.experts(name("experts"), i, batch)
	} else {
		s.job.calc(name("mlp"), s.mlpTime(s.tokens))
	}
	s.reduce()
}

// experts sends the tokens to their experts and back. Each tensor parallel rank has a part of each expert, so it sends
// all tokens of its batch; the partial results that come back are added afterwards.
func (s *inferenceStage) experts(name string, layer, batch int) {
	d, k := &s.Decoder, int64(s.Decoder.TopK)
	if !s.Routing.uneven() {
		s.allToAll()
		s.job.calc(name, s.mlpTime(s.tokens*k))
		s.allToAll()
		return
	}
	place := (uint64(s.number)*uint64(s.InFlight)+uint64(batch))*uint64(d.Layers) + uint64(layer)
	routed := s.routes.exchange(s.EP, s.tokens, layer, place)
	each := func(add func(rank int)) {
		for e := range s.EP {
			s.job.ranks = s.ranks[e*s.TP : (e+1)*s.TP]
			add(e)
		}
		s.job.ranks = s.ranks
	}
	exchange := func(back bool) {
		each(func(rank int) {
			if parts := routed.calls(rank, d.Hidden, back, "ep", s.Type); s.EP > 1 && len(parts) > 0 {
				s.job.add(workload.Op{Kind: workload.Group, Stream: computeStream, Ops: parts})
			}
		})
	}
	exchange(false)
	each(func(rank int) { s.job.calc(name, s.mlpTime(routed.received(rank))) })
	exchange(true)
}

func (s *inferenceStage) allToAll() {
	if s.EP > 1 {
		s.coll("ep", workload.AllToAll, divide(s.tokens*int64(s.Decoder.TopK)*s.Decoder.Hidden, int64(s.EP)))
	}
}
