// SPDX-License-Identifier: Apache-2.0

package parallel

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// stage makes the operations of the ranks of one stage of a pipeline. All are on the compute stream: Megatron waits for
// each of these calls.
type stage struct {
	*GPT
	job                    *job
	clock                  clock
	n                      int // the stage's number
	attention, mlp, output float64
	activations            int64 // of a micro-batch, in elements
	local                  int64 // those that a rank has between layers
	routes                 *router
	step                   int
	// forwards and backwards are the micro-batches so far.
	forwards, backwards int
	routed              exchange // of the layer at hand, nil if all experts get as many tokens
	ranks               workload.Ranks
}

func newStage(g *GPT, j *job, c clock, n int) *stage {
	s := &stage{GPT: g, job: j, clock: c, n: n, activations: int64(g.MicroBatch) * g.Seq * g.Hidden}
	s.local = s.activations
	if g.SequenceParallel {
		s.local /= int64(g.TP)
	}
	s.attention, s.mlp, s.output = g.multiplications()
	j.ranks = nil
	for rank := range g.TP * g.DP {
		j.ranks = append(j.ranks, n*g.TP*g.DP+rank)
	}
	s.ranks = j.ranks
	return s
}

func (s *stage) first() bool { return s.n == 0 }
func (s *stage) last() bool  { return s.n == s.PP-1 }

// schedule is Megatron's schedule without interleaving (Narayanan et al. 2021, arXiv:2104.04473): as many forward
// passes as there are later stages, then one forward and one backward in turn, then the rest of the backward passes.
func (s *stage) schedule() {
	m := s.microBatches()
	warmUp := min(s.PP-1-s.n, m)
	for range warmUp {
		s.message(s.from(-1)...)
		s.forward()
		s.message(s.to(+1)...)
	}
	if m > warmUp {
		s.message(s.from(-1)...)
	}
	for i := range m - warmUp {
		s.forward()
		s.message(append(s.to(+1), s.from(+1)...)...)
		s.backward()
		if i == m-warmUp-1 {
			s.message(s.to(-1)...)
		} else {
			s.message(append(s.to(-1), s.from(-1)...)...)
		}
	}
	for range warmUp {
		s.message(s.from(+1)...)
		s.backward()
		s.message(s.to(-1)...)
	}
}

// to and from are the messages to or from the stage before (-1) or after (+1); none if there is no such stage.
func (s *stage) to(side int) []workload.Op   { return s.part(workload.Send, side) }
func (s *stage) from(side int) []workload.Op { return s.part(workload.Recv, side) }

func (s *stage) part(kind workload.Kind, side int) []workload.Op {
	if s.n+side < 0 || s.n+side >= s.PP {
		return nil
	}
	return []workload.Op{{Kind: kind, Comm: "pp", Peer: s.n + side, Count: s.local, Type: s.Type}}
}

// message adds a message, or several as a group.
func (s *stage) message(parts ...workload.Op) {
	switch len(parts) {
	case 0:
	case 1:
		parts[0].Stream = computeStream
		s.job.add(parts[0])
	default:
		s.job.add(workload.Op{Kind: workload.Group, Stream: computeStream, Ops: parts})
	}
}

func (s *stage) coll(comm string, fn workload.Func, size int, count int64, kind string) {
	if size > 1 {
		s.job.add(workload.Op{Kind: workload.Coll, Stream: computeStream, Comm: comm, Func: fn, Count: count,
			Type: kind})
	}
}

// enter brings a rank what it needs to compute a tensor parallel part: with sequence parallelism the activations of all
// others, in so many calls. Backward these are the gradients, and once more the input.
func (s *stage) enter(calls int) {
	for range calls {
		if s.SequenceParallel {
			s.coll("tp", workload.AllGather, s.TP, s.local, s.Type)
		}
	}
}

// leave adds the partial results of a tensor parallel part.
func (s *stage) leave() {
	if s.SequenceParallel {
		s.coll("tp", workload.ReduceScatter, s.TP, s.local, s.Type)
		return
	}
	s.coll("tp", workload.AllReduce, s.TP, s.activations, s.Type)
}

// route determines where the tokens of a layer go in a micro-batch.
func (s *stage) route(layer, microBatch int) {
	if s.Experts > 0 && s.Routing.uneven() {
		place := (uint64(s.step)*uint64(s.microBatches())+uint64(microBatch))*uint64(s.Layers) + uint64(layer)
		s.routed = s.routes.exchange(s.EP, s.local/s.Hidden, layer, place)
	}
}

// allToAll sends tokens to their experts, or back.
func (s *stage) allToAll(back bool) {
	switch {
	case s.Experts == 0 || s.EP < 2:
	case s.routed == nil:
		s.coll("ep", workload.AllToAll, s.EP, divide(s.local*int64(s.TopK), int64(s.EP)), s.Type)
	default:
		s.eachExpertRank(func(rank int) {
			if parts := s.routed.calls(rank, s.Hidden, back, "ep", s.Type); len(parts) > 0 {
				s.job.add(workload.Op{Kind: workload.Group, Stream: computeStream, Ops: parts})
			}
		})
	}
}

// eachExpertRank calls add for each rank of an expert parallel group; those ranks of all groups do the operations
// that it adds.
func (s *stage) eachExpertRank(add func(rank int)) {
	for e := range s.EP {
		s.job.ranks = nil
		for i, rank := range s.ranks {
			if i/s.TP%s.EP == e {
				s.job.ranks = append(s.job.ranks, rank)
			}
		}
		add(e)
	}
	s.job.ranks = s.ranks
}

// calcMLP adds the computation of an MLP, which takes ns with the mean number of tokens.
func (s *stage) calcMLP(name string, ns int64) {
	if s.routed == nil {
		s.job.calc(name, ns)
		return
	}
	mean := float64(s.local/s.Hidden) * float64(s.TopK)
	s.eachExpertRank(func(rank int) {
		s.job.calc(name, int64(float64(ns)*float64(s.routed.received(rank))/mean+0.5))
	})
}

// layers is the number of the stage's layers.
func (s *stage) layers() int { return int(s.Layers) / s.PP }

func (s *stage) forward() {
	defer func() { s.forwards++ }()
	if s.first() {
		s.leave() // the word embeddings, each of which one rank has
	}
	for i := range s.layers() {
		name := func(part string) string { return fmt.Sprintf("forward %d %s", s.n*s.layers()+i, part) }
		s.enter(1)
		s.job.calc(name("attention"), s.clock.forward(s.attention))
		s.leave()
		s.route(s.n*s.layers()+i, s.forwards)
		s.allToAll(false)
		s.enter(1)
		s.calcMLP(name("mlp"), s.clock.forward(s.mlp))
		s.leave()
		s.allToAll(true)
	}
	if s.last() {
		s.enter(1)
		s.job.calc("forward output", s.clock.forward(s.output))
	}
}

func (s *stage) backward() {
	defer func() { s.backwards++ }()
	if s.last() {
		s.enter(1) // its gradients are there
		s.job.calc("backward output", s.clock.backward(s.output))
		s.leave()
	}
	for i := s.layers() - 1; i >= 0; i-- {
		name := func(part string) string { return fmt.Sprintf("backward %d %s", s.n*s.layers()+i, part) }
		s.route(s.n*s.layers()+i, s.backwards)
		s.allToAll(false)
		s.enter(2)
		s.calcMLP(name("mlp"), s.clock.backward(s.mlp))
		s.leave()
		s.allToAll(true)
		s.enter(2)
		s.job.calc(name("attention"), s.clock.backward(s.attention))
		s.leave()
	}
}

// finish reduces the gradients, and ends the step.
func (s *stage) finish() {
	dense, experts := s.parameters(s.n)
	s.coll("dp", workload.AllReduce, s.DP, dense, s.GradType)
	if s.Experts > 0 {
		s.coll("expert-dp", workload.AllReduce, s.DP/s.EP, experts, s.GradType)
	}
	if s.PP > 1 && (s.first() || s.last()) {
		s.coll("embedding", workload.AllReduce, 2, divide(s.Vocab, int64(s.TP))*s.Hidden, s.GradType)
	}
	s.job.endStep()
}
