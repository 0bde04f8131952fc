// SPDX-License-Identifier: Apache-2.0

package make

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/schedule"
)

// Hop is the transfer of a chunk from one rank to another.
type Hop struct{ Root, Index, Src, Dst int }

// FromHops makes an all-gather of transfers, in their order. A transfer of a chunk to a rank that has it already is
// left out. Each rank has a block for each other that it sends to, and one for each that it receives from.
func FromHops(name string, o Options, hops []Hop) (*schedule.Schedule, error) {
	if o.Coll != schedule.AllGather {
		return nil, fmt.Errorf("%s of transfers: only an all-gather can be made", o.Coll)
	}
	b, err := newBuilder(name, &o, o.K)
	if err != nil {
		return nil, err
	}
	h := hopBuilder{builder: b, got: map[[3]int][2]int{}, blocks: map[[3]int]int{}}
	for i, hop := range hops {
		if err := h.add(hop); err != nil {
			return nil, fmt.Errorf("transfer %d: %w", i, err)
		}
	}
	for root := range o.GPUs {
		for index := range o.K {
			for gpu := range o.GPUs {
				if !h.has(gpu, root, index) {
					return nil, fmt.Errorf("chunk %d of rank %d never comes to rank %d: not an all-gather", index, root, gpu)
				}
			}
		}
	}
	b.copyOwn()
	return b.s, nil
}

type hopBuilder struct {
	*builder
	got    map[[3]int][2]int // by rank, root and index: the block and step that received a chunk
	blocks map[[3]int]int    // by rank, peer and direction
}

func (h *hopBuilder) has(gpu, root, index int) bool {
	_, got := h.got[[3]int{gpu, root, index}]
	return gpu == root || got
}

func (h *hopBuilder) add(hop Hop) error {
	n := len(h.s.GPUs)
	for _, r := range []int{hop.Root, hop.Src, hop.Dst} {
		if r < 0 || r >= n {
			return fmt.Errorf("rank %d: must be 0 to %d", r, n-1)
		}
	}
	if hop.Index < 0 || hop.Index >= h.share || hop.Src == hop.Dst {
		return fmt.Errorf("chunk %d from rank %d to rank %d: there are %d chunks, and the ranks must differ", hop.Index, hop.Src, hop.Dst, h.share)
	}
	if !h.has(hop.Src, hop.Root, hop.Index) {
		return fmt.Errorf("rank %d sends chunk %d of rank %d before it has it", hop.Src, hop.Index, hop.Root)
	}
	if h.has(hop.Dst, hop.Root, hop.Index) {
		return nil
	}
	from := h.output(hop.Src, hop.Root, hop.Index)
	if hop.Src == hop.Root {
		from = h.input(hop.Src, hop.Root, hop.Index)
	}
	send := step(schedule.SendStep, from, from)
	if at, ok := h.got[[3]int{hop.Src, hop.Root, hop.Index}]; ok {
		send = h.after(hop.Src, send, at[0], at[1])
	}
	h.append(hop.Src, hop.Dst, 0, send)
	to := h.output(hop.Dst, hop.Root, hop.Index)
	block, number := h.append(hop.Dst, hop.Src, 1, step(schedule.RecvStep, to, to))
	h.got[[3]int{hop.Dst, hop.Root, hop.Index}] = [2]int{block, number}
	return nil
}

// append adds a step to the block of a rank that sends to a peer (direction 0) or receives from it (1).
func (h *hopBuilder) append(gpu, peer, direction int, s schedule.Step) (block, number int) {
	key := [3]int{gpu, peer, direction}
	block, ok := h.blocks[key]
	if !ok {
		send, recv := peer, schedule.None
		if direction == 1 {
			send, recv = schedule.None, peer
		}
		block = h.builder.add(gpu, send, recv, 0)
		h.blocks[key] = block
	}
	steps := &h.s.GPUs[gpu].Blocks[block].Steps
	*steps = append(*steps, s)
	return block, len(*steps) - 1
}
