// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// lateness is how much later than in the model the messages of a job were there. The zero value has no messages.
type lateness struct {
	counts [state.LateBuckets]uint64 // by state.Bucket
	sumNs  int64                     // real ns, as the fabric's file has them
}

// latenessOf is the lateness of the messages of a job on all links.
func latenessOf(j *state.JobStatus) *lateness {
	l := &lateness{}
	for hop := range j.LinkStats {
		for i := range j.LinkStats[hop].Size {
			c := &j.LinkStats[hop].Size[i]
			for b, n := range c.Late {
				l.counts[b] += uint64(n)
			}
			l.sumNs += c.SumLate
		}
	}
	return l
}

// firstEdge is where the second bucket of the histogram ends, in ns: less is of no interest, because the verdict lets
// half of the messages be 1 us late.
const firstEdge = 256

// lateEdges are the buckets of the fabric's file that begin a bucket of the histogram: the bucket of 1 ns, so that
// messages that are not late have a bucket of their own, and the bucket of each power of two from firstEdge. The file
// has four buckets for each power of two.
func lateEdges() []int {
	edges := []int{state.Bucket(1)}
	for b := state.Bucket(firstEdge); b < state.LateBuckets; b += 4 {
		edges = append(edges, b)
	}
	return edges
}

// histogram is l in seconds of the emulated network. A lateness is a whole number of ns, so the bound of a bucket is
// 1 ns less than where the next one begins.
func (l *lateness) histogram(timeScale int) *histogram {
	edges := lateEdges()
	stated := func(ns int64) float64 { return seconds(ns) / float64(timeScale) }
	bounds := make([]float64, len(edges))
	for i, b := range edges {
		bounds[i] = stated(state.BucketFloor(b) - 1)
	}
	h := newHistogram(bounds)
	at := 0
	for b, n := range l.counts {
		if at < len(edges) && b == edges[at] {
			at++
		}
		h.counts[at] += n
	}
	h.sum = stated(l.sumNs)
	return h
}
