// SPDX-License-Identifier: Apache-2.0

package make

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
)

// buffers fills the inputs, and checks that the addresses of the buffers are as the collective has them.
func (b *sendBuilder) buffers() error {
	for r, in := range b.t.Inputs {
		for k, address := range in {
			p := b.at(r, address)
			if p.has != (parts{}) {
				return fmt.Errorf("rank %d has address %d twice in its input", r, address)
			}
			p.now = schedule.Ref{Buffer: schedule.Input, Offset: k}
			p.has = partOf(0)
			if b.t.Adds {
				p.has = partOf(r)
			}
		}
	}
	for r, out := range b.t.Outputs {
		for k, address := range out {
			p := b.at(r, address)
			if p.output >= 0 {
				return fmt.Errorf("rank %d has address %d twice in its output", r, address)
			}
			p.output = k
		}
	}
	sh, err := b.s.Shape()
	if err != nil {
		return err
	}
	root := b.root()
	for r := range b.s.GPUs {
		for _, x := range b.s.Result(r, root, sh) {
			if err := b.checkRegion(r, &x); err != nil {
				return err
			}
		}
	}
	b.s.InPlace = b.fitsInPlace(sh)
	return nil
}

// root is the root of a rooted collective: the one rank with the larger buffer.
func (b *sendBuilder) root() int {
	buffers := b.t.Outputs
	if b.s.Coll == schedule.Broadcast || b.s.Coll == schedule.Scatter {
		buffers = b.t.Inputs
	}
	root := 0
	for r := range buffers {
		if len(buffers[r]) > len(buffers[root]) {
			root = r
		}
	}
	return root
}

// checkRegion checks the addresses of a part of an output against the addresses of the inputs that must be there.
func (b *sendBuilder) checkRegion(rank int, x *schedule.Region) error {
	sources := []int{x.Source}
	if x.Sum {
		sources = sources[:0]
		for r := range b.s.GPUs {
			sources = append(sources, r)
		}
	}
	if x.Sum != b.t.Adds {
		return fmt.Errorf("%s: inputs are added up: %v, and must be %v", b.s.Coll, b.t.Adds, x.Sum)
	}
	for c := range x.Chunks {
		for _, source := range sources {
			out, in := b.t.Outputs[rank], b.t.Inputs[source]
			if x.At+c >= len(out) || x.First+c >= len(in) || out[x.At+c] != in[x.First+c] {
				return fmt.Errorf(
					"chunk %d of the output of rank %d is not at the address of chunk %d of the input of rank %d, as "+
						"%s demands", x.At+c, rank, x.First+c, source, b.s.Coll)
			}
		}
	}
	return nil
}

// fitsInPlace says whether the schedule is right for calls in place too: no output may be where a different input is.
func (b *sendBuilder) fitsInPlace(sh schedule.Shape) bool {
	switch b.s.Coll {
	case schedule.AllReduce, schedule.AllGather, schedule.ReduceScatter, schedule.Broadcast, schedule.Reduce:
	default:
		return false
	}
	for r := range b.s.GPUs {
		l := b.s.Layout(r, true, 0, sh)
		address := map[int]int{}
		for k, a := range b.t.Inputs[r] {
			address[l.Base[schedule.Input]+k] = a
		}
		for k, a := range b.t.Outputs[r] {
			if other, ok := address[l.Base[schedule.Output]+k]; ok && other != a {
				return false
			}
		}
	}
	return true
}

// finish checks that every output has all parts, and copies those that are still in the input.
func (b *sendBuilder) finish() error {
	all := map[int]parts{}
	for r, in := range b.t.Inputs {
		for _, address := range in {
			p := partOf(0)
			if b.t.Adds {
				p = partOf(r)
			}
			all[address] = all[address].with(p)
		}
	}
	for r, out := range b.t.Outputs {
		var copies []schedule.Step
		for k, address := range out {
			p := b.at(r, address)
			if p.has != all[address] || p.has == (parts{}) {
				return fmt.Errorf("address %d never comes to rank %d whole: this is no %s", address, r, b.s.Coll)
			}
			if p.now.Buffer == schedule.Output {
				continue
			}
			to := schedule.Ref{Buffer: schedule.Output, Offset: k}
			if n := len(copies); n > 0 && copies[n-1].Src.Offset+copies[n-1].Count == p.now.Offset &&
				copies[n-1].Dst.Offset+copies[n-1].Count == k {
				copies[n-1].Count++
				continue
			}
			copies = append(copies, step(schedule.CopyStep, p.now, to))
		}
		if len(copies) > 0 {
			b.add(r, schedule.None, schedule.None, 0, copies...)
		}
	}
	b.s.Channels = max(b.s.Channels, 1)
	return nil
}
