// SPDX-License-Identifier: Apache-2.0

package schedule

import "fmt"

// Shape is the number of chunks of a rank's buffers.
type Shape struct {
	In, Out int // of the largest input and output
	Share   int // of one rank's share; that of the whole buffer if the collective has no shares
	Larger  int // of the larger buffer: its bytes are Larger chunks
}

// Shape is the number of chunks of a rank's buffers as the collective defines them.
func (s *Schedule) Shape() (Shape, error) {
	n, c := len(s.GPUs), s.LoopChunks
	if n == 0 || c < 1 {
		return Shape{}, fmt.Errorf("%d GPUs and %d chunks: must be at least 1", n, c)
	}
	if s.Coll == Gather || s.Coll == Scatter {
		return s.rootedShape(), nil
	}
	if !s.Coll.HasResult() {
		in, out := 0, 0
		for _, g := range s.GPUs {
			in, out = max(in, g.Chunks[Input]), max(out, g.Chunks[Output])
		}
		return Shape{In: max(in, c), Out: max(out, c), Share: c, Larger: c}, nil
	}
	sh := Shape{In: c, Out: c, Share: c, Larger: c}
	if s.Coll.PerRank() {
		if c%n != 0 {
			return Shape{}, fmt.Errorf("%d chunks for %s on %d GPUs: must be a multiple of the number of GPUs", c,
				s.Coll, n)
		}
		sh.Share = c / n
	}
	switch s.Coll {
	case AllGather:
		sh.In = sh.Share
	case ReduceScatter:
		sh.Out = sh.Share
	}
	return sh, nil
}

// rootedShape is the shape of gather and scatter, where only the root has a buffer for all.
func (s *Schedule) rootedShape() Shape {
	n, share := len(s.GPUs), s.LoopChunks
	own := Input
	if s.Coll == Scatter {
		own = Output
	}
	most := 0
	for _, g := range s.GPUs {
		most = max(most, g.Chunks[own])
	}
	if most > 0 {
		share = most
	}
	if s.Coll == Gather {
		return Shape{In: share, Out: n * share, Share: share, Larger: n * share}
	}
	return Shape{In: n * share, Out: share, Share: share, Larger: n * share}
}

// Layout says where the chunks of a GPU's buffers are in its memory, which is a row of chunks. In place, input and
// output overlap.
type Layout struct {
	Base, Size [Buffers]int
	Total      int
}

// Layout is the memory of a GPU. root is the root of a rooted collective. What is in place of a collective without a
// defined result is not defined either: its buffers are always apart.
func (s *Schedule) Layout(gpu int, inPlace bool, root int, sh Shape) Layout {
	l := Layout{Size: [Buffers]int{sh.In, sh.Out, s.GPUs[gpu].Chunks[Scratch]}}
	if !inPlace || !s.Coll.HasResult() {
		l.Base = [Buffers]int{0, sh.In, sh.In + sh.Out}
		l.Total = sh.In + sh.Out + l.Size[Scratch]
		return l
	}
	// As NCCL's in-place operations have it: a rank's share is at its place in the larger buffer.
	switch s.Coll {
	case AllGather:
		l.Base[Input] = gpu * sh.Share
	case ReduceScatter:
		l.Base[Output] = gpu * sh.Share
	case Gather:
		if gpu == root {
			l.Base[Input] = gpu * sh.Share
		}
	case Scatter:
		if gpu == root {
			l.Base[Output] = gpu * sh.Share
		}
	}
	user := max(l.Base[Input]+sh.In, l.Base[Output]+sh.Out)
	l.Base[Scratch], l.Total = user, user+l.Size[Scratch]
	return l
}

// At is the place of a chunk in the GPU's memory, and whether count chunks from there are in the buffer. In place, a
// chunk that is before or behind one of the two buffers may still be in the other, as MSCCL's files use it.
func (l *Layout) At(r Ref, count int) (place int, ok bool) {
	place = l.Base[r.Buffer] + r.Offset
	if r.Offset < 0 || count < 0 || count > l.Total {
		return place, false
	}
	if r.Buffer == Scratch {
		return place, r.Offset+count <= l.Size[Scratch]
	}
	if l.overlap() {
		return place, place+count <= l.Base[Scratch]
	}
	return place, r.Offset+count <= l.Size[r.Buffer]
}

func (l *Layout) overlap() bool {
	return l.Base[Input] < l.Base[Output]+l.Size[Output] && l.Base[Output] < l.Base[Input]+l.Size[Input]
}
