// SPDX-License-Identifier: Apache-2.0

package mscclpp

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/msccl"
)

// operation is one operation of a thread block, with what its indexes stand for.
type operation struct {
	name     string
	from     string // which operation of the file it is, for messages
	kind     string // of its channels
	src, dst []span
	channels []channel
	sems     []int
	barrier  int
	blocks   int   // thread blocks at the barrier
	ranks    []int // of the switch channel
}

// span is a row of parts of chunks in a GPU's buffer.
type span struct {
	gpu int
	ref schedule.Ref
	n   int
	// wide says that the buffer is of all GPUs of the switch channel.
	wide bool
}

// channel is a channel to a GPU. number counts the channels of its type between the two: so both ends name the same.
type channel struct {
	kind   string
	peer   int
	number int
}

func (c channel) String() string {
	return fmt.Sprintf("%s channel %d", c.kind, c.number)
}

// names are the operations that are known.
var names = []string{
	"nop", "barrier", "put", "pws", "pwsf", "get", "copy", "signal", "wait", "flush", "re", "res", "rre", "rres",
	"ppkt", "rppkt", "respkt", "cpkt", "upkt", "repkt", "recpkt", "recspkt", "glres", "gstore", "gstorepkt",
	"rlxsignal", "rlxwait", "pipeline", "sem_acquire", "sem_release",
}

// unsized is how many iterations a pipeline has for each chunk if the size of the call is not known.
const unsized = 3

// mostParts limits the parts of a chunk.
const mostParts = 4096

// reader makes operations of the file's operations. Each chunk is divided into equal parts, so that each thread block
// of a group, and each iteration of a pipeline, has a whole number of them.
type reader struct {
	p          *plan
	parts      int
	iterations map[int64]int // of a pipeline for each chunk, by unit_size
	pieces     int           // of a chunk, for operations with several GPUs
}

// newReader finds the number of parts for a chunk of so many bytes; 0: not known.
func newReader(p *plan, bytes uint64) (*reader, error) {
	r := &reader{p: p, parts: 1, iterations: map[int64]int{}, pieces: 1}
	for i := range p.GPUs {
		for b := range p.GPUs[i].Blocks {
			ops := p.GPUs[i].Blocks[b].Ops
			for k := range ops {
				if err := r.divide(&ops[k], bytes); err != nil {
					return nil, fmt.Errorf("%s: %w", place(i, b, k, ops[k].Name), err)
				}
			}
		}
	}
	r.cutPieces(bytes)
	return r, nil
}

// The threads of an operation with several GPUs go from element to element, so all GPUs are served at the same time.
// Here they are served round-robin, a piece of a chunk each: pieceBytes, or larger if a chunk has more than mostPieces.
const (
	pieceBytes = 1 << 20
	mostPieces = 64
)

// cutPieces divides chunks of so many bytes into pieces, as far as the parts allow.
func (r *reader) cutPieces(bytes uint64) {
	for r.pieces < mostPieces && bytes > uint64(r.pieces)*pieceBytes && lcm(r.parts, 2*r.pieces) <= mostParts {
		r.pieces *= 2
	}
	r.parts = lcm(r.parts, r.pieces)
}

func place(gpu, block, number int, name string) string {
	return fmt.Sprintf("GPU %d thread block %d operation %d (%s)", gpu, block, number, name)
}

// divide divides chunks further, as an operation needs it.
func (r *reader) divide(o *op, bytes uint64) error {
	factor := 1
	if g := o.Group; g != nil {
		if g.Size < 1 || g.Size > mostGroup || g.Block < 0 || g.Block >= g.Size {
			return fmt.Errorf("thread block %d of a group of %d: must be below it, and the group at most %d", g.Block,
				g.Size, mostGroup)
		}
		factor = g.Size
	}
	if it := o.Iterations; it != nil && o.Name == "pipeline" {
		if most := max(r.p.chunks(), r.p.scratch()); it.Unit < 1 || it.Chunks < 1 || it.Chunks > most {
			return fmt.Errorf(
				"unit_size %d and num_chunks %d: must be at least 1, and not more chunks than the %d of a buffer",
				it.Unit, it.Chunks, most)
		}
		n := uint64(unsized)
		if bytes > 0 {
			n = (bytes + uint64(it.Unit) - 1) / uint64(it.Unit)
		}
		if n > mostParts {
			return fmt.Errorf("a pipeline with %d iterations for a chunk of %d bytes: at most %d are supported", n,
				bytes, mostParts)
		}
		r.iterations[it.Unit] = int(n)
		factor = int(n)
	}
	if r.parts = lcm(r.parts, factor); r.parts > mostParts {
		return fmt.Errorf("thread block groups and pipelines divide a chunk into %d parts: at most %d are supported",
			r.parts, mostParts)
	}
	for i := range o.Ops {
		if o.Ops[i].Name == "pipeline" {
			return errors.New("a pipeline in a pipeline")
		}
		if err := r.divide(&o.Ops[i], bytes); err != nil {
			return err
		}
	}
	return nil
}

func lcm(a, b int) int {
	x, y := a, b
	for y > 0 {
		x, y = y, x%y
	}
	return a / x * b
}

// align is the number of bytes of which a part is a multiple: a chunk is a multiple of buffer_alignment, a part of an
// element of 4 bytes.
func (r *reader) align() uint64 { return uint64(lcm(r.p.alignment(), 4*r.parts) / r.parts) }

// operations are the operations of a thread block, with the iterations of pipelines one after another.
func (r *reader) operations(gpu, b int) (out []operation, err error) {
	block := &r.p.GPUs[gpu].Blocks[b]
	add := func(number int, o *op, iteration, unit int) error {
		from := place(gpu, b, number, o.Name)
		if len(out) >= msccl.MaxSteps {
			return errTooLarge
		}
		x, err := r.operation(gpu, block, o, iteration, unit)
		if err != nil {
			return fmt.Errorf("%s: %w", from, err)
		}
		x.from = from
		out = append(out, x)
		return nil
	}
	for k := range block.Ops {
		o := &block.Ops[k]
		if o.Name != "pipeline" {
			if err := add(k, o, 0, 0); err != nil {
				return nil, err
			}
			continue
		}
		if o.Iterations == nil {
			return nil, fmt.Errorf("%s: has no iter_context", place(gpu, b, k, o.Name))
		}
		each := r.iterations[o.Iterations.Unit]
		for i := range o.Iterations.Chunks * each {
			for n := range o.Ops {
				if err := add(k, &o.Ops[n], i, r.parts/each); err != nil {
					return nil, err
				}
			}
		}
	}
	return out, nil
}

// operation is an operation of the file. unit is the number of parts that an iteration of a pipeline moves, 0 outside
// of one.
func (r *reader) operation(gpu int, b *threadBlock, o *op, iteration, unit int) (x operation, err error) {
	if !slices.Contains(names, o.Name) {
		return x, fmt.Errorf("is not known: known are %s", strings.Join(names, ", "))
	}
	if o.Reduce != "" && o.Reduce != "sum" {
		return x, fmt.Errorf("reduce_op %q: only sum is supported", o.Reduce)
	}
	x = operation{name: o.Name, kind: o.Channel, sems: o.Semaphores, barrier: o.Barrier, blocks: o.Blocks}
	for _, s := range o.Semaphores {
		if n := len(r.p.GPUs[gpu].Semaphores); s < 0 || s >= n {
			return x, fmt.Errorf("semaphore %d: the GPU has %d", s, n)
		}
	}
	if n := max(len(o.Channels), len(o.Src), len(o.Dst)); n > mostNamed {
		return x, fmt.Errorf("%d channels, sources or destinations are too many for an operation: at most %d", n, mostNamed)
	}
	for _, list := range []struct {
		chunks []chunk
		spans  *[]span
	}{{o.Src, &x.src}, {o.Dst, &x.dst}} {
		for i := range list.chunks {
			s, err := r.span(gpu, b, o, &list.chunks[i], &x)
			if err != nil {
				return x, err
			}
			s.cut(o, iteration, unit)
			*list.spans = append(*list.spans, s)
		}
	}
	for _, n := range o.Channels {
		if o.Channel == switchChannel {
			break // their chunks name them
		}
		c, err := r.channel(gpu, b, o.Channel, n)
		if err != nil {
			return x, err
		}
		x.channels = append(x.channels, c)
	}
	return x, x.check(gpu)
}

// span finds a chunk of an operation: of the GPU itself, of a remote buffer, or of all that a switch channel connects.
func (r *reader) span(gpu int, b *threadBlock, o *op, c *chunk, x *operation) (span, error) {
	buffer, owner := c.Type, gpu
	switch {
	case c.Buffer != nil:
		rb, err := r.remote(gpu, b, o.Channel, *c.Buffer)
		if err != nil {
			return span{}, err
		}
		buffer, owner = rb.Type, rb.Rank
	case c.Switch != nil:
		var err error
		if buffer, x.ranks, err = r.switched(gpu, b, *c.Switch); err != nil {
			return span{}, err
		}
	}
	i := slices.Index([]string{"i", "o", "s"}, buffer)
	if i < 0 || c.Index < 0 || c.Index > msccl.MaxChunks || c.Size < 1 || c.Size > msccl.MaxChunks {
		return span{}, fmt.Errorf("%d chunks from %d of buffer %q: must be at least one of i, o or s", c.Size, c.Index,
			buffer)
	}
	return span{owner, schedule.Ref{Buffer: schedule.Buffer(i), Offset: c.Index * r.parts}, c.Size * r.parts,
		c.Switch != nil}, nil
}

// cut leaves the part of a thread block of a group, and of it the part of an iteration.
func (s *span) cut(o *op, iteration, unit int) {
	if g := o.Group; g != nil {
		s.n /= g.Size
		s.ref.Offset += s.n * g.Block
	}
	if unit > 0 {
		done := min(iteration*unit, s.n)
		s.ref.Offset += done
		s.n = min(unit, s.n-done)
	}
}

// remote is buffer n of those that a thread block reaches over a type of channel.
func (r *reader) remote(gpu int, b *threadBlock, kind string, n int) (remoteBuffer, error) {
	var ids []int
	for _, x := range b.Refs {
		if x.Type == kind {
			ids = append(ids, x.IDs...)
		}
	}
	all := r.p.GPUs[gpu].Remote
	if n < 0 || n >= len(ids) || ids[n] < 0 || ids[n] >= len(all) {
		return remoteBuffer{}, fmt.Errorf("remote buffer %d over a %s channel does not exist", n, kind)
	}
	x := all[ids[n]]
	if x.Rank < 0 || x.Rank >= len(r.p.GPUs) || x.Rank == gpu {
		return remoteBuffer{}, fmt.Errorf("remote buffer %d is of GPU %d: must be another of the %d", n, x.Rank,
			len(r.p.GPUs))
	}
	return x, nil
}

// ofKind joins what lists of channels of a type have.
func ofKind(lists []channelList, kind string, of func(*channelList) []int) (all []int) {
	for i := range lists {
		if lists[i].Type == kind {
			all = append(all, of(&lists[i])...)
		}
	}
	return all
}

// number is the n-th of a thread block's channels of a type, as a number of the GPU's channels of this type.
func number(b *threadBlock, kind string, n int) (int, error) {
	ids := ofKind(b.Channels, kind, func(c *channelList) []int { return c.IDs })
	if n < 0 || n >= len(ids) {
		return 0, fmt.Errorf("%s channel %d: the thread block has %d", kind, n, len(ids))
	}
	return ids[n], nil
}

// channel is channel n of a thread block.
func (r *reader) channel(gpu int, b *threadBlock, kind string, n int) (c channel, err error) {
	if kind != memoryChannel && kind != portChannel {
		return c, fmt.Errorf("channel_type %q: must be %s or %s", kind, memoryChannel, portChannel)
	}
	id, err := number(b, kind, n)
	if err != nil {
		return c, err
	}
	all := ofKind(r.p.GPUs[gpu].Channels, kind, func(c *channelList) []int { return c.Connected })
	if id < 0 || id >= len(all) {
		return c, fmt.Errorf("%s channel %d: the GPU has %d", kind, id, len(all))
	}
	c = channel{kind: kind, peer: all[id]}
	if c.peer < 0 || c.peer >= len(r.p.GPUs) || c.peer == gpu {
		return c, fmt.Errorf("%s channel %d is connected to GPU %d: must be another of the %d", kind, id, c.peer,
			len(r.p.GPUs))
	}
	for _, other := range all[:id] {
		if other == c.peer {
			c.number++
		}
	}
	return c, nil
}

// switched is the buffer and the GPUs of switch channel n of a thread block.
func (r *reader) switched(gpu int, b *threadBlock, n int) (buffer string, ranks []int, err error) {
	id, err := number(b, switchChannel, n)
	if err != nil {
		return "", nil, err
	}
	k := 0
	for _, list := range r.p.GPUs[gpu].Channels {
		if list.Type != switchChannel {
			continue
		}
		for _, group := range list.Groups {
			if k == id {
				return list.Buffer, group.Ranks, r.checkRanks(gpu, group.Ranks)
			}
			k++
		}
	}
	return "", nil, fmt.Errorf("switch channel %d: the GPU has %d", id, k)
}

// checkRanks refuses the GPUs of a switch channel if one does not exist, or if the GPU itself is not among them.
func (r *reader) checkRanks(gpu int, ranks []int) error {
	seen := map[int]bool{}
	for _, rank := range ranks {
		if rank < 0 || rank >= len(r.p.GPUs) || seen[rank] {
			return fmt.Errorf("a switch channel of ranks %v: must be different ones of the %d", ranks, len(r.p.GPUs))
		}
		seen[rank] = true
	}
	if !seen[gpu] {
		return fmt.Errorf("a switch channel of ranks %v, without the GPU itself", ranks)
	}
	return nil
}

// switchOperations names the operations of switch channels with how many there are and the chunks that they move;
// empty: there are none.
func (p *plan) switchOperations() string {
	calls, chunks := map[string]int{}, map[string]int{}
	for o := range p.operations() {
		if o.Channel != switchChannel && o.Name != "glres" && o.Name != "gstore" && o.Name != "gstorepkt" {
			continue
		}
		calls[o.Name]++
		if len(o.Src) > 0 {
			chunks[o.Name] += o.Src[0].Size
		}
	}
	var text []string
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		text = append(text, fmt.Sprintf("%d %s of %d chunks in all", calls[name], name, chunks[name]))
	}
	return strings.Join(text, ", ")
}
