// SPDX-License-Identifier: Apache-2.0

package schedule

// Region is a part of a GPU's output and what must be there: chunks of the input of Source, or if Sum is set the sum of
// these chunks of all inputs.
type Region struct {
	At     int // chunk of the output
	Chunks int
	Sum    bool
	Source int
	First  int // chunk of the input
}

// Result is what the output of a GPU must have. It is empty if the collective gives this GPU nothing, or if its name
// does not define a result.
func (s *Schedule) Result(gpu, root int, sh Shape) []Region {
	if (s.Coll == Reduce || s.Coll == Gather) && gpu != root {
		return nil
	}
	switch s.Coll {
	case AllReduce, Reduce:
		return []Region{{Chunks: sh.Out, Sum: true}}
	case ReduceScatter:
		return []Region{{Chunks: sh.Out, Sum: true, First: gpu * sh.Share}}
	case Scatter:
		return []Region{{Chunks: sh.Out, Source: root, First: gpu * sh.Share}}
	case Broadcast:
		return []Region{{Chunks: sh.Out, Source: root}}
	case AllGather, Gather, AllToAll:
		var out []Region
		for source := range s.GPUs {
			r := Region{At: source * sh.Share, Chunks: sh.Share, Source: source}
			if s.Coll == AllToAll {
				r.First = gpu * sh.Share
			}
			out = append(out, r)
		}
		return out
	}
	return nil
}

// InputChunks is the number of chunks that a GPU's input has at the beginning.
func (s *Schedule) InputChunks(gpu, root int, inPlace bool, sh Shape) int {
	if s.Coll == Scatter && inPlace && gpu != root {
		return sh.Share
	}
	return sh.In
}

// Reduces says whether the collective adds up.
func (c Collective) Reduces() bool { return c == AllReduce || c == Reduce || c == ReduceScatter }
