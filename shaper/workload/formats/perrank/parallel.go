// SPDX-License-Identifier: Apache-2.0

package perrank

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// Parallel is the numbering of the ranks of Megatron-LM: tensor parallelism innermost, then data parallelism, of which
// expert parallelism is the inner part, then pipeline stages.
type Parallel struct {
	Ranks                    int
	Tensor, Expert, Pipeline int
}

// Group is a kind of communicator.
type Group string

// The kinds. DataExpert has the ranks with the same experts, TensorExpert those that share all experts of a layer.
const (
	Tensor       Group = "tp"
	Data         Group = "dp"
	Expert       Group = "ep"
	DataExpert   Group = "dp_ep"
	TensorExpert Group = "tp_ep"
	Pipeline     Group = "pp"
	Embedding    Group = "embedding" // the first and the last stage of a pipeline
	Everyone     Group = workload.World
)

// Groups are all kinds.
var Groups = []Group{Tensor, Data, Expert, DataExpert, TensorExpert, Pipeline, Embedding, Everyone}

// Validate says whether the groups divide the ranks.
func (p *Parallel) Validate() error {
	if p.Ranks%(p.Tensor*p.Pipeline) != 0 || p.data()%p.Expert != 0 {
		return fmt.Errorf("%d GPUs do not divide into tensor parallel %d, pipeline parallel %d and expert parallel %d",
			p.Ranks, p.Tensor, p.Pipeline, p.Expert)
	}
	return nil
}

// data is the number of ranks of a data parallel group.
func (p *Parallel) data() int { return p.Ranks / (p.Tensor * p.Pipeline) }

// Shape is the size of the groups of a kind and the distance between the ranks of one.
func (p *Parallel) Shape(g Group) (size, stride int) {
	switch g {
	case Tensor:
		return p.Tensor, 1
	case Data:
		return p.data(), p.Tensor
	case Expert:
		return p.Expert, p.Tensor
	case DataExpert:
		return p.data() / p.Expert, p.Tensor * p.Expert
	case TensorExpert:
		return p.Tensor * p.Expert, 1
	case Pipeline:
		return p.Pipeline, p.Ranks / p.Pipeline
	case Embedding:
		return min(p.Pipeline, 2), p.Ranks / p.Pipeline * max(p.Pipeline-1, 1)
	}
	return p.Ranks, 1
}

// perComm is how many ranks of a list take the memory that a communicator takes beside its list.
const perComm = 4

// Comms are the communicators of all kinds in used, as far as the limit allows: a few lines may ask for millions.
func (p *Parallel) Comms(used map[Group]bool, limit *input.Limit) (out []workload.Comm, err error) {
	for _, g := range Groups {
		if !used[g] {
			continue
		}
		size, _ := p.Shape(g)
		if err := limit.List(p.Ranks + perComm*(p.Ranks/size)); err != nil {
			return nil, err
		}
		out = append(out, p.comms(g)...)
	}
	return out, nil
}

// comms are the communicators of a kind. Their name is the kind's.
func (p *Parallel) comms(g Group) []workload.Comm {
	size, stride := p.Shape(g)
	if g != Embedding {
		return Grid(string(g), size, stride, p.Ranks)
	}
	var out []workload.Comm
	for first := range p.Ranks / p.Pipeline {
		c := workload.Comm{Name: string(g), Ranks: workload.Ranks{first}}
		if size == 2 {
			c.Ranks = append(c.Ranks, first+stride)
		}
		out = append(out, c)
	}
	return out
}
