// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/engine/node"
)

// Direction is which of the links within a node a message crosses, if they go through switches.
type Direction uint8

// Directions.
const (
	Through Direction = iota // out of the source's GPU and into the destination's
	Out                      // out of the source's: an NVSwitch adds what several GPUs send
	In                       // into the destination's: an NVSwitch gives all GPUs what one sends
)

// NodeTime is what the nodes of the fabric cost NCCL; nil: nothing.
func (f *Fabric) NodeTime() *node.Time {
	c := &f.Config
	if !c.NodeTime {
		return nil
	}
	t := c.GPU.Time
	action := func(a configs.ActionTime) node.Cost {
		if a.Rate == 0 {
			return node.Cost{}
		}
		return node.Cost{Step: float64(a.Step), PerByte: 8e9 / float64(a.Rate), Links: a.Occupies}
	}
	out := &node.Time{
		Kernel: int64(t.Kernel), Channels: int64(t.Channels) * doublings(c.GPUsPerNode*c.DomainNodes()), Call: int64(t.Call),
		LL: action(t.LL), LL128: action(t.LL128), Simple: action(t.Simple), Send: action(t.Send),
		SendNet: node.SendCost{Action: action(t.SendNet.ActionTime), PerChannel: int64(t.SendNet.PerChannel),
			Start: int64(t.SendNet.Start)},
		NVLSCopy: action(t.NVLSCopy), NVLSHead: action(t.NVLSHead),
		NVLSTreeCopy: action(t.NVLSTreeCopy),
	}
	if c.ThreadOfNode {
		out.Call *= int64(c.GPUsPerNode)
	}
	return out
}

// doublings is how often 1 is doubled until it is the GPUs of a node or NVLink domain, or more; at least 1.
func doublings(gpus int) int64 { return max(1, int64(bits.Len(uint(gpus-1)))) }

// IsMesh says whether each GPU of a node has a link to each other one, or to some of them (hasGraph). Else its links go
// through switches.
func (f *Fabric) IsMesh() bool {
	return f.Config.NodeNVLink().Connection == configs.MeshNVLink || f.hasGraph()
}

// hasGraph says whether NVLinks connect some pairs of a node's GPUs only.
func (f *Fabric) hasGraph() bool { return f.Config.NodeNVLink().Connection == configs.GraphNVLink }

// NICTime is what NICs and proxies cost: what the fabric does not say of its NICs, as the kind of GPU says it. Only
// for a fabric with NodeTime.
func (f *Fabric) NICTime() (net configs.NICTime) {
	if f.Config.NICTime != nil {
		net = *f.Config.NICTime
	}
	if net.NetTime == (configs.NetTime{}) {
		net.NetTime = f.Config.GPU.Time.Net
	}
	return net
}

// timedPerMessage is what a message costs at each end, with the time of nodes: what the fabric says of its NICs, else
// what it says of its hosts and what its kind of GPU has for the proxy.
func (f *Fabric) timedPerMessage() time.Duration {
	if n := f.Config.NICTime; n != nil && n.NetTime != (configs.NetTime{}) {
		return n.PerMessage
	}
	return f.Config.Host.PerMessage + f.Config.GPU.Time.Net.PerMessage
}

// CheckNodeTime says why the time of the fabric's nodes is not known. Only for a fabric with NodeTime.
func (f *Fabric) CheckNodeTime() error {
	c := &f.Config
	switch {
	case !c.HasGPUTime():
		return fmt.Errorf("the time of a node with %s: it has no section time", c.GPUName())
	case f.hasGraph() && !f.connected():
		return fmt.Errorf("the time of a node with %s: NVLinks do not connect all of its %d GPUs, and what is between the "+
			"others is not known", c.GPU.Name, c.GPUsPerNode)
	case c.Nodes > c.DomainNodes() && f.NICTime().NetTime == configs.NetTime{}:
		return fmt.Errorf("the time of a node with %s: time.net is missing, which several nodes need", c.GPU.Name)
	case c.GPU.MayUseNVLS(c.NodeNVLink().Connection) && c.GPU.Time.NVLSCopy.Rate == 0:
		return fmt.Errorf(
			"the time of a node with %s: time.nvls_copy and time.nvls_head are missing, which NVSwitches "+
				"need", c.GPU.Name)
	}
	if sum := f.timedPerMessage(); sum > configs.MaxLatency {
		return fmt.Errorf("the time of a node with %s: a message takes its host and its proxy %v together: must be at most %v",
			c.GPU.Name, sum, configs.MaxLatency)
	}
	return nil
}

// gpuGroup is a division of a node's GPUs by what they share, a PCI switch or a CPU: what a [node.GPUGroup] is made of.
type gpuGroup struct {
	out, in link.HopKind
	rate    units.Bandwidth
	size    int // GPUs
	perNode int
	first   int // its first hop, counted from the first link within a node
}

// gpuGroups are those whose links messages cross within a node: over PCI Express to a GPU of another PCI switch, or of
// another CPU.
func (f *Fabric) gpuGroups() (groups []gpuGroup) {
	c := &f.Config
	if c.NodeNVLink().Links > 0 {
		return nil
	}
	next := 2 * c.Nodes * c.GPUsPerNode
	for _, g := range []gpuGroup{
		{out: link.PCIOut, in: link.PCIIn, rate: c.GPU.Time.Links.Switch, size: c.GPU.PCIe.GPUs},
		{out: link.CPUOut, in: link.CPUIn, rate: c.GPU.Time.Links.CPU, size: c.GPU.CPU.GPUs},
	} {
		if g.rate == 0 || g.size >= c.GPUsPerNode {
			continue
		}
		g.perNode, g.first = (c.GPUsPerNode+g.size-1)/g.size, next
		next += 2 * c.Nodes * g.perNode
		groups = append(groups, g)
	}
	return groups
}

// GPUGroups are the divisions of the GPUs of a node whose links messages cross, the inner one first.
func (f *Fabric) GPUGroups() (groups [node.MostGPUGroups]node.GPUGroup) {
	for i, g := range f.gpuGroups() {
		groups[i] = node.GPUGroup{GPUs: uint32(g.size), FirstHop: uint32(f.FirstGPULink() + g.first)}
	}
	return groups
}

// pairRates returns the rate between two GPUs of a node of which each has links of this rate together. Those of a graph
// that have no link have the rate of one, which nothing uses.
func (f *Fabric) pairRates(all units.Bandwidth) func(a, b int) units.Bandwidth {
	gpus := f.Config.GPUsPerNode
	if n := f.Config.NodeNVLink(); f.hasGraph() {
		links := n.Between(gpus)
		return func(a, b int) units.Bandwidth {
			return all * units.Bandwidth(max(links[a][b], 1)) / units.Bandwidth(n.Links)
		}
	}
	return func(int, int) units.Bandwidth { return all / units.Bandwidth(max(gpus-1, 1)) }
}

// GPULinks are the links between the GPUs of each node: of a mesh or graph one for each ordered pair of GPUs, in the
// order of both, else one out of and one into each GPU, and after the links of all GPUs one out of and one into each
// PCI switch and CPU. They are the last hops of a fabric with TimedNodes.
func (f *Fabric) GPULinks() (links []Hop) {
	t, gpus := f.Config.GPU.Time.Links, f.Config.GPUsPerNode
	between := f.pairRates(t.Rate)
	for gpu := range f.Config.Nodes * gpus {
		if !f.IsMesh() {
			half := t.Latency / 2
			links = append(links, Hop{link.GPUOut, gpu, gpu, localSpec(t.Rate, half)},
				Hop{link.GPUIn, gpu, gpu, localSpec(t.Rate, t.Latency-half)})
			continue
		}
		for peer := range gpus {
			links = append(links, Hop{link.GPULink, gpu, gpu - gpu%gpus + peer, localSpec(between(gpu%gpus, peer), t.Latency)})
		}
	}
	for _, g := range f.gpuGroups() {
		for i := range f.Config.Nodes * g.perNode {
			links = append(links, Hop{g.out, i, i, localSpec(g.rate, 0)}, Hop{g.in, i, i, localSpec(g.rate, 0)})
		}
	}
	return links
}

// WithNodeTime is f with TimedNodes: what nodes cost is part of its hops, ports and transport. It is f itself if that
// is so already, or if nodes cost nothing.
func (f *Fabric) WithNodeTime() (*Fabric, error) {
	if !f.Config.NodeTime || f.Config.TimedNodes {
		return f, nil
	}
	g := *f
	g.Config.TimedNodes, g.Hops = true, slices.Clone(f.Hops)
	if err := g.addNodeTime(); err != nil {
		return nil, err
	}
	return &g, nil
}

// addNodeTime adds what proxies and NICs take to the ports, and the links between the GPUs of each node to the hops, if
// the fabric has TimedNodes. The links of all GPUs are made before any rank comes, so each node has one GPU if their
// number is not given.
func (f *Fabric) addNodeTime() error {
	if !f.Config.TimedNodes {
		return nil
	}
	f.Config.GPUsPerNode = max(f.Config.GPUsPerNode, 1)
	if err := f.CheckNodeTime(); err != nil {
		return err
	}
	for i := range f.Hops {
		if f.Hops[i].Kind == link.TxPort {
			f.Hops[i].Spec.Latency = f.portLatency()
		}
	}
	links := f.GPULinks()
	for i := range links {
		if _, err := link.NewParams(links[i].Spec, 1); err != nil {
			return fmt.Errorf("the links within a node with %s: %w", f.Config.GPU.Name, err)
		}
	}
	f.Hops = append(f.Hops, links...)
	return nil
}

func localSpec(rate units.Bandwidth, latency time.Duration) link.Spec {
	return link.Spec{Bandwidth: uint64(rate), Latency: latency, MTU: link.MaxMTU, QueuePolicy: link.Lossless}
}

// portLatency is the latency of each port that sends, which stands for what the NICs at both ends and the parts beside
// them add to a path between nodes. The configuration gives ports none.
func (f *Fabric) portLatency() time.Duration {
	if !f.Config.TimedNodes {
		return 0
	}
	return f.NICTime().Latency
}

// FirstGPULink is the first hop within a node. Those of a fabric with TimedNodes follow those between nodes.
func (f *Fabric) FirstGPULink() int {
	n := f.firstTrunk()
	if f.Net != nil {
		n += len(f.Net.Links)
	}
	return n
}

// GPUPath is the hops from one GPU to another one of its node. GPUs are numbered over the fabric.
func (f *Fabric) GPUPath(src, dst int, d Direction) []link.PathHop {
	gpus := f.Config.GPUsPerNode
	if f.IsMesh() {
		return f.meshPath(src, dst%gpus)
	}
	out, in := link.PathHop{Hop: f.FirstGPULink() + 2*src}, link.PathHop{Hop: f.FirstGPULink() + 2*dst + 1}
	switch d {
	case Out:
		return []link.PathHop{out}
	case In:
		return []link.PathHop{in}
	}
	path := []link.PathHop{out}
	for _, g := range f.gpuGroups() {
		first := src / gpus * g.perNode // of the node
		from, to := first+src%gpus/g.size, first+dst%gpus/g.size
		if from != to {
			base := f.FirstGPULink() + g.first
			path = append(path, link.PathHop{Hop: base + 2*from}, link.PathHop{Hop: base + 2*to + 1})
		}
	}
	return append(path, in)
}

// meshPath is the hops from a GPU to one of its node, the number of which is within the node. Without NVLinks between
// them NCCL has GPUs between them pass messages on (NVB in its topology): as few as possible, the lowest ones.
func (f *Fabric) meshPath(src, dst int) (path []link.PathHop) {
	gpus := f.Config.GPUsPerNode
	node, at := src-src%gpus, src%gpus
	for _, next := range f.between(at, dst) {
		path = append(path, link.PathHop{Hop: f.FirstGPULink() + (node+at)*gpus + next})
		at = next
	}
	return path
}

// between is the GPUs on the way from one GPU of a node to another, with the last one; nil if NVLinks do not connect
// them.
func (f *Fabric) between(src, dst int) []int {
	if !f.hasGraph() {
		return []int{dst}
	}
	n := f.Config.NodeNVLink()
	links := n.Between(f.Config.GPUsPerNode)
	ways := map[int][]int{src: nil} // to the GPUs that were reached
	for reached := []int{src}; len(reached) > 0 && src != dst; reached = reached[1:] {
		at := reached[0]
		for next, number := range links[at] {
			if _, seen := ways[next]; seen || number == 0 {
				continue
			}
			ways[next] = append(slices.Clone(ways[at]), next)
			if next == dst {
				return ways[dst]
			}
			reached = append(reached, next)
		}
	}
	return nil
}

// connected says whether NVLinks lead from each GPU of a node to each other one.
func (f *Fabric) connected() bool {
	for dst := 1; dst < f.Config.GPUsPerNode; dst++ {
		if f.between(0, dst) == nil {
			return false
		}
	}
	return true
}

// localName is the name of what links of a kind within a node leave or enter, for people.
func (f *Fabric) localName(kind link.HopKind, number int) string {
	perNode := f.Config.GPUsPerNode
	for _, g := range f.gpuGroups() {
		switch kind {
		case g.out, g.in:
			perNode = g.perNode
		}
	}
	return fmt.Sprintf("node%d/%s%d", number/perNode, kind.Name(), number%perNode)
}

// gpuEndNames are the names of the ends of a link within a node.
func (f *Fabric) gpuEndNames(kind link.HopKind, src, dst int) (from, to string) {
	from, to = f.localName(kind, src), f.localName(kind, dst)
	node, _, _ := strings.Cut(from, "/")
	switch {
	case kind.IsOut():
		to = node + "/switch"
	case kind.IsIn():
		from = node + "/switch"
	}
	return from, to
}
