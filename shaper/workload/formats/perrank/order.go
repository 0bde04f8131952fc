// SPDX-License-Identifier: Apache-2.0

package perrank

import (
	"cmp"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// Order says what the operations of one rank come after, for formats that have neither streams nor waits of the host:
// each operation is written as nodes, each of which names the nodes before it. N is what names a node.
type Order[N cmp.Ordered] struct {
	streams map[string]*stream[N]
	ends    map[int]end[N]    // of the operations with an id
	waited  map[string]end[N] // the last operation of each stream that the host has waited for
	waits   int               // of the host
}

// stream is a stream of the rank.
type stream[N any] struct {
	last  end[N]
	waits int // the last operation comes after so many waits of the host
}

// end is the end of an operation.
type end[N any] struct {
	stream string
	place  int // of the operation on its stream, from 1
	nodes  []N
}

// NewOrder returns the order of a rank before its first operation.
func NewOrder[N cmp.Ordered]() *Order[N] {
	return &Order[N]{streams: map[string]*stream[N]{}, ends: map[int]end[N]{}, waited: map[string]end[N]{}}
}

func (d *Order[N]) stream(o *workload.Op) *stream[N] {
	name := o.StreamName()
	if d.streams[name] == nil {
		d.streams[name] = &stream[N]{}
	}
	return d.streams[name]
}

// Wait adds a wait of the host.
func (d *Order[N]) Wait(o *workload.Op) {
	d.waits++
	for name, st := range d.streams {
		if len(o.After) == 0 && st.last.place > 0 {
			d.waited[name] = st.last
		}
	}
	for _, id := range o.After {
		if e := d.ends[id]; e.place > d.waited[e.stream].place {
			d.waited[e.stream] = e
		}
	}
}

// Before are the nodes that must have ended before an operation starts, in order. implied says that the format puts the
// operation after the one before it on its stream anyway.
func (d *Order[N]) Before(o *workload.Op, implied bool) []N {
	st := d.stream(o)
	var out []N
	if !implied {
		out = append(out, st.last.nodes...)
	}
	for _, id := range o.After {
		out = append(out, d.ends[id].nodes...)
	}
	// else the operation before it on the stream comes after what the host has waited for
	if implied || st.waits < d.waits {
		for _, e := range d.waited {
			out = append(out, e.nodes...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Written notes the nodes at which an operation ends.
func (d *Order[N]) Written(o *workload.Op, nodes []N) {
	st := d.stream(o)
	st.last, st.waits = end[N]{o.StreamName(), st.last.place + 1, nodes}, d.waits
	if o.ID != 0 {
		d.ends[o.ID] = st.last
	}
}
