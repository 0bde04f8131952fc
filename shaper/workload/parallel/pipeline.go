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
}

func newStage(g *GPT, j *job, c clock, n int) *stage {
	s := &stage{GPT: g, job: j, clock: c, n: n, activations: int64(g.MicroBatch) * g.Seq * g.Hidden}
	s.attention, s.mlp, s.output = g.multiplications()
	j.ranks = nil
	for rank := range g.TP * g.DP {
		j.ranks = append(j.ranks, n*g.TP*g.DP+rank)
	}
	return s
}

func (s *stage) first() bool { return s.n == 0 }
func (s *stage) last() bool  { return s.n == s.PP-1 }

// schedule is Megatron's schedule without interleaving (Narayanan et al. 2021, arXiv:2104.04473): as many forward passes
// as there are later stages, then one forward and one backward in turn, then the rest of the backward passes.
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
	return []workload.Op{{Kind: kind, Comm: "pp", Peer: s.n + side, Count: s.activations, Type: s.Type}}
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
		s.job.add(workload.Op{Kind: workload.Coll, Stream: computeStream, Comm: comm, Func: fn, Count: count, Type: kind})
	}
}

// allReduce adds the partial results of a tensor parallel layer.
func (s *stage) allReduce() { s.coll("tp", workload.AllReduce, s.TP, s.activations, s.Type) }

// allToAll sends tokens to their experts, or back.
func (s *stage) allToAll() {
	if s.Experts > 0 {
		s.coll("ep", workload.AllToAll, s.EP, divide(s.activations*int64(s.TopK), int64(s.EP)), s.Type)
	}
}

// layers is the number of the stage's layers.
func (s *stage) layers() int { return int(s.Layers) / s.PP }

func (s *stage) forward() {
	if s.first() {
		s.allReduce() // of the word embeddings, each of which one rank has
	}
	for i := range s.layers() {
		name := func(part string) string { return fmt.Sprintf("forward %d %s", s.n*s.layers()+i, part) }
		s.job.calc(name("attention"), s.clock.forward(s.attention))
		s.allReduce()
		s.allToAll()
		s.job.calc(name("mlp"), s.clock.forward(s.mlp))
		s.allToAll()
		s.allReduce()
	}
	if s.last() {
		s.job.calc("forward output", s.clock.forward(s.output))
	}
}

func (s *stage) backward() {
	if s.last() {
		s.job.calc("backward output", s.clock.backward(s.output))
		s.allReduce()
	}
	for i := s.layers() - 1; i >= 0; i-- {
		name := func(part string) string { return fmt.Sprintf("backward %d %s", s.n*s.layers()+i, part) }
		s.allToAll()
		s.job.calc(name("mlp"), s.clock.backward(s.mlp))
		s.allToAll()
		s.allReduce()
		s.job.calc(name("attention"), s.clock.backward(s.attention))
		s.allReduce()
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
