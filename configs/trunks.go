// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"fmt"
	"time"

	"github.com/ddlemu/ddlemu/configs/topology"
	"github.com/ddlemu/ddlemu/configs/units"
)

// Trunks are the links between the switches of a fabric, each direction on its own. Keys may be added, none renamed.
type Trunks struct {
	Links           int    `json:"links"`
	MinBandwidthBps uint64 `json:"min_bandwidth_bps"` // 0 = unlimited
	MaxBandwidthBps uint64 `json:"max_bandwidth_bps"`
	MinLatencyNs    int64  `json:"min_latency_ns"`
	MaxLatencyNs    int64  `json:"max_latency_ns"`
	// Oversubscription is the bandwidth of the NICs on the switch with the most of them, divided by the bandwidth of its
	// uplinks. It is known of leaf-spine and rail whose trunks have one rate; else it is 0.
	Oversubscription float64 `json:"oversubscription,omitempty"`
}

// Text is such as "200Gbps 600ns, 4:1". It has ranges if trunks differ.
func (t *Trunks) Text() string {
	text := span(units.Bandwidth(t.MinBandwidthBps), units.Bandwidth(t.MaxBandwidthBps)) + " " +
		span(time.Duration(t.MinLatencyNs), time.Duration(t.MaxLatencyNs))
	if t.Oversubscription > 0 {
		text += ", " + units.Ratio(t.Oversubscription)
	}
	return text
}

// span is a value, or two of them with "to" between.
func span[T interface {
	comparable
	fmt.Stringer
}](least, most T) string {
	if least == most {
		return least.String()
	}
	return fmt.Sprintf("%v to %v", least, most)
}

// shapedTrunks are the links between switches with what entries of f's links change; nil for a star, and for a topology
// that is not valid or whose number of nodes is not known yet.
func (f *Fabric) shapedTrunks() (*topology.Graph, []Link) {
	if f.Topology.IsStar() || f.Nodes < 1 || f.NICsPerNode < 1 {
		return nil, nil
	}
	g, given, err := f.graph()
	if err != nil {
		return nil, nil
	}
	trunks, err := f.trunks(g, given)
	if err != nil {
		return nil, nil
	}
	for i := range f.Links {
		o := &f.Links[i]
		p, err := ParsePattern(o.Match)
		if err != nil || !p.Trunk() {
			continue
		}
		for k, l := range g.Links {
			if p.MatchTrunk(g.Switches[l.From], g.Switches[l.To]) {
				o.Apply(&trunks[k])
			}
		}
	}
	return g, trunks
}

// newTrunks sums up the links of g; nil if there are none.
func (f *Fabric) newTrunks(g *topology.Graph, trunks []Link) *Trunks {
	if len(trunks) == 0 {
		return nil
	}
	least, most := trunks[0], trunks[0]
	for _, l := range trunks {
		if slower(l.Bandwidth, least.Bandwidth) {
			least.Bandwidth = l.Bandwidth
		}
		if slower(most.Bandwidth, l.Bandwidth) {
			most.Bandwidth = l.Bandwidth
		}
		least.Latency, most.Latency = min(least.Latency, l.Latency), max(most.Latency, l.Latency)
	}
	t := &Trunks{len(trunks), uint64(least.Bandwidth), uint64(most.Bandwidth), int64(least.Latency),
		int64(most.Latency), 0}
	hasUplinks := f.Topology.Kind == topology.LeafSpine || f.Topology.Kind == topology.Rail
	if hasUplinks && least.Bandwidth == most.Bandwidth && least.Bandwidth != units.Unlimited &&
		f.Link.Bandwidth != units.Unlimited {
		t.Oversubscription = float64(f.Link.Bandwidth) * float64(mostNICs(g)) /
			(float64(least.Bandwidth) * float64(max(f.Topology.Spines, 1)))
	}
	return t
}

// slower reports whether a is a lower rate than b.
func slower(a, b units.Bandwidth) bool {
	return a != units.Unlimited && (b == units.Unlimited || a < b)
}

// WithTrunks has the links between switches as they are in a fabric that is up, in the order of its topology.
func (in InForce) WithTrunks(f *Fabric, trunks []Link) InForce {
	if g, _ := f.shapedTrunks(); g != nil {
		in.Trunks = f.newTrunks(g, trunks)
		in.render()
	}
	return in
}
