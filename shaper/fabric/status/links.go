// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"slices"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// Link has the parameters and the counters of a link, or of a trunk. Bytes are of payload, retransmissions included;
// messages are the messages of the jobs in the reading.
type Link struct {
	Name string `json:"name"`
	From string `json:"from"`
	To   string `json:"to"`
	configs.LinkJSON
	link.Counters
	Messages uint64 `json:"messages"`
	Trunk    bool   `json:"trunk,omitempty"` // between switches; its latency adds to the latency of the links over it

	Path *Path `json:"path,omitempty"` // of a link between NICs on a fabric with switches: with ports and trunks

	Classes *Classes `json:"classes,omitempty"` // of Bytes; kernel datapath

	*Activity

	Set configs.Link `json:"-"` // its parameters
}

// Path is a path as if it were one link.
type Path struct {
	BandwidthBps uint64 `json:"bandwidth_bps"` // of its slowest hop; 0 = unlimited
	LatencyNs    int64  `json:"latency_ns"`    // of all hops together
	Up           bool   `json:"up"`            // all of them
}

// Classes is the payload by its purpose.
type Classes struct {
	Plugin    uint64 `json:"plugin"`         // connections of libgoemu.so
	Bootstrap uint64 `json:"nccl_bootstrap"` // connections by which NCCL sets up
	Other     uint64 `json:"other"`
}

// Port is one direction of a NIC's port.
type Port struct {
	Name      string `json:"name"`
	NIC       string `json:"nic"`
	Direction string `json:"direction"` // tx or rx
	configs.PortJSON
	link.Counters
	*Activity
}

// Ports are the ports, in the order of the hops.
func (f *Reading) Ports() []Port {
	ports := []Port{}
	for i := range f.Hops {
		if f.Hops[i].IsPort() {
			ports = append(ports, f.Port(i))
		}
	}
	return ports
}

// Port is a hop that is a port.
func (f *Reading) Port(hop int) Port {
	h := &f.Hops[hop]
	set := fabric.LinkOf(h.Spec)
	return Port{Name: h.Name, NIC: h.NIC, Direction: h.Direction, PortJSON: set.PortJSON(), Counters: h.Counters}
}

// Links are the links and trunks, in the order of the hops. On a fabric with switches it finds the paths of all links.
func (f *Reading) Links() []Link {
	links := []Link{}
	for i := range f.Hops {
		if !f.Hops[i].IsPort() {
			links = append(links, f.Link(i))
		}
	}
	return links
}

// Link is a hop that is no port.
func (f *Reading) Link(hop int) Link {
	h := &f.Hops[hop]
	set := fabric.LinkOf(h.Spec)
	l := Link{
		Name: h.Name, From: h.From, To: h.To, LinkJSON: set.JSON(), Counters: h.Counters, Messages: h.Messages,
		Trunk: h.Kind == link.Trunk, Set: set,
	}
	if f.OnKernel() { // the datapath shm has no flow classes
		l.Classes = &Classes{h.Classes[state.PluginFlow], h.Classes[state.BootstrapFlow], h.Classes[state.OtherFlow]}
	}
	if h.Kind == link.Link && !f.Fabric.Config.Topology.IsStar() {
		whole := f.Fabric.WorstPath(f.InFile[hop].Src, f.InFile[hop].Dst)
		l.Path = &Path{uint64(whole.Bandwidth), int64(whole.Latency), whole.Up}
	}
	return l
}

// Busiest are at most n of the links: links that are down, then the links with the most bytes. They stay in the order
// of links.
func Busiest(links []Link, n int) []Link {
	if len(links) <= n {
		return links
	}
	order := make([]int, len(links))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := links[a], links[b]
		if x.Up != y.Up {
			return map[bool]int{true: 1, false: -1}[x.Up]
		}
		return cmp.Compare(y.Bytes, x.Bytes)
	})
	order = order[:n]
	slices.Sort(order)
	shown := make([]Link, n)
	for i, at := range order {
		shown[i] = links[at]
	}
	return shown
}
