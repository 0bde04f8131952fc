// SPDX-License-Identifier: Apache-2.0

// Package plan divides a given time among the rows of a bench. It reads no clock.
package plan

import (
	"cmp"
	"slices"
	"time"
)

// Row is a row of the table.
type Row struct {
	Size          int64         // bytes
	Halves        int           // 2 with an in-place half
	Warmup, Iters int           // that were asked for
	Least         time.Duration // that one call takes at least, in real time, by the model; 0 if not known
}

// calls is how many calls the row makes with these iterations.
func (r *Row) calls(s Iterations) int { return r.Halves * (s.Warmup + s.Iters) }

// Iterations is what a row gets. Without iterations it is left out.
type Iterations struct{ Warmup, Iters int }

// Costs estimates how long calls take on this host, from those that were measured.
type Costs struct {
	PerByte float64 // ns of a call for each byte of its size, until that is known from measurements
	calls   []point // by size
	rest    []point
	expect  []point
}

// point is the time for a size, in ns.
type point struct {
	size int64
	ns   float64
}

// Call adds the time of one call.
func (c *Costs) Call(size int64, took time.Duration) { c.calls = add(c.calls, size, took) }

// Rest adds the time of half a row without its calls: to make the data and to check it.
func (c *Costs) Rest(size int64, took time.Duration) { c.rest = add(c.rest, size, took) }

// Expect adds the time in which the model calculated a row's expected time.
func (c *Costs) Expect(size int64, took time.Duration) { c.expect = add(c.expect, size, took) }

// Any reports whether a call was measured.
func (c *Costs) Any() bool { return len(c.calls) > 0 }

// With returns the costs if a call of this size takes so long.
func (c *Costs) With(size int64, took time.Duration) *Costs {
	with := *c
	with.calls = add(slices.Clone(c.calls), size, took)
	return &with
}

// add keeps the points in the order of their sizes. What was measured again replaces what was known.
func add(points []point, size int64, took time.Duration) []point {
	at, found := find(points, size)
	if found {
		points[at].ns = float64(took)
		return points
	}
	return slices.Insert(points, at, point{size, float64(took)})
}

// find returns where a size is, or belongs.
func find(points []point, size int64) (at int, found bool) {
	return slices.BinarySearchFunc(points, size, func(p point, size int64) int { return cmp.Compare(p.size, size) })
}

// OfCall is about how long a call of the row takes.
func (c *Costs) OfCall(r Row) time.Duration {
	return max(time.Duration(of(c.calls, r.Size, c.PerByte)), r.Least)
}

// Of is about how long a row takes with these iterations.
func (c *Costs) Of(r Row, s Iterations) time.Duration {
	if s.Iters == 0 {
		return 0
	}
	return time.Duration(r.calls(s))*c.OfCall(r) + c.OfRest(r)
}

// OfRest is the part of Of that does not depend on the iterations.
func (c *Costs) OfRest(r Row) time.Duration {
	return time.Duration(float64(r.Halves)*of(c.rest, r.Size, 0) + of(c.expect, r.Size, 0))
}

// visible is the difference of two sizes from which on the cost of a byte is more than noise.
const visible = 64 << 10

// of interpolates between points. Above the last one it adds a cost for each byte: the cost by the last points if they
// are far enough apart, but no more than in proportion to the size; else perByte.
func of(points []point, size int64, perByte float64) float64 {
	if len(points) == 0 {
		return perByte * float64(size)
	}
	at, found := find(points, size)
	switch {
	case found || at == 0:
		return points[min(at, len(points)-1)].ns
	case at < len(points):
		a, b := points[at-1], points[at]
		return a.ns + (b.ns-a.ns)*float64(size-a.size)/float64(b.size-a.size)
	}
	last := points[len(points)-1]
	more := float64(size - last.size)
	for i := len(points) - 2; i >= 0; i-- {
		if p := points[i]; p.size <= last.size/2 && last.size-p.size >= visible {
			perByte = max(last.ns-p.ns, 0) / float64(last.size-p.size)
			perByte = min(perByte, last.ns/float64(last.size))
			break
		}
	}
	return last.ns + perByte*more
}
