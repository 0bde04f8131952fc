// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// Hop is a port, a link or a trunk. Src and Dst are numbers of NICs, the same for a port;
// of switches for a trunk, of GPUs within a node.
type Hop struct {
	Kind     link.HopKind
	Src, Dst int
	Spec     link.Spec
}

// Params are the parameters of the hops in a fabric that runs timeScale times slower.
func (f *Fabric) Params(timeScale int) ([]link.Params, error) {
	out := make([]link.Params, len(f.Hops))
	for i, h := range f.Hops {
		var err error
		if out[i], err = link.NewParams(h.Spec, timeScale); err != nil {
			return nil, fmt.Errorf("%s: %w", f.HopName(i), err)
		}
	}
	return out, nil
}

// JitterTables are the distributions that jitter is drawn from.
func (f *Fabric) JitterTables() *link.JitterTables { return link.NewJitterTables(f.JitterTable()) }

// FlowReverse are the hops of the acknowledgements of a flow from NIC src to NIC dst. Where each flow has a path of
// its own, the path of the acknowledgements is drawn by the same id.
func (f *Fabric) FlowReverse(src, dst int, id uint64) []int {
	return Hops(f.FlowPath(dst, src, id))
}

// Hops are the hops of a path.
func Hops(path []link.PathHop) []int {
	hops := make([]int, len(path))
	for i, h := range path {
		hops[i] = h.Hop
	}
	return hops
}

// Fabric is a fabric at run time. Not safe for concurrent change.
type Fabric struct {
	Config configs.Fabric // as New got it; Shape does not change it
	Hops   []Hop

	// Net is the switches of the fabric and the links between them, nil for a star. Hops
	// ends with these links, in the same order, and then those within nodes, if nodes cost time.
	Net *configs.Net
}

// New makes the runtime view of c, with c's overrides applied in order. An error
// that the user can correct is a *configs.Error.
func New(c *configs.Fabric) (*Fabric, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	net, err := c.Net()
	if err != nil {
		return nil, err
	}
	f := &Fabric{Config: *c, Net: net}
	nics := f.NICs()
	f.Hops = make([]Hop, 0, 2*nics+nics*f.peers())
	for n := range nics {
		f.Hops = append(f.Hops,
			Hop{link.TxPort, n, n, Spec(c.Link.Port(false))},
			Hop{link.RxPort, n, n, Spec(c.Link.Port(true))})
	}
	spec := Spec(c.Link)
	for src := range nics {
		for dst := range nics {
			if f.NodeOfNIC(src) != f.NodeOfNIC(dst) {
				f.Hops = append(f.Hops, Hop{link.Link, src, dst, spec})
			}
		}
	}
	if net != nil {
		for i, l := range net.Links {
			f.Hops = append(f.Hops, Hop{link.Trunk, l.From, l.To, Spec(net.Trunks[i])})
		}
	}
	for i, o := range c.Links {
		if _, err := f.shape(o.Match, o.LinkPatch); err != nil {
			return nil, &configs.Error{Field: fmt.Sprintf("links[%d]", i), Err: err}
		}
	}
	if err := f.checkLosses(); err != nil {
		return nil, err
	}
	if err := f.addNodeTime(); err != nil {
		return nil, &configs.Error{Err: err}
	}
	if _, err := f.PlannedChanges(); err != nil {
		return nil, err
	}
	return f, nil
}

// WithSeed is f with another seed: other paths where several are equally short, and other random draws.
func (f *Fabric) WithSeed(seed uint64) (*Fabric, error) {
	g := *f
	g.Config.Seed = seed
	var err error
	if g.Net, err = g.Config.Net(); err != nil {
		return nil, err
	}
	return &g, nil
}

// NICs is the number of NICs of all nodes.
func (f *Fabric) NICs() int { return f.Config.Nodes * f.Config.NICsPerNode }

// peers is the number of NICs that one NIC has links to.
func (f *Fabric) peers() int { return f.NICs() - f.Config.NICsPerNode }

// NodeOfNIC is the node of NIC n.
func (f *Fabric) NodeOfNIC(n int) int { return n / f.Config.NICsPerNode }

// NIC is the number of a node's NIC, counted over the fabric.
func (f *Fabric) NIC(node, nic int) int { return node*f.Config.NICsPerNode + nic }

// end is NIC n as the end of a pattern.
func (f *Fabric) end(n int) configs.End {
	return configs.End{Node: f.NodeOfNIC(n), NIC: n % f.Config.NICsPerNode}
}

// Link is the hop of the link from NIC src to NIC dst, which are on different
// nodes.
func (f *Fabric) Link(src, dst int) int {
	if f.NodeOfNIC(src) == f.NodeOfNIC(dst) {
		panic(fmt.Sprintf("fabric: no link from NIC %d to %d: both are on node %d", src, dst, f.NodeOfNIC(src)))
	}
	l := src*f.peers() + dst
	if dst > src {
		l -= f.Config.NICsPerNode // there are no links to the NICs of src's node
	}
	return 2*f.NICs() + l
}

// All is every hop.
func (f *Fabric) All() []int {
	all := make([]int, len(f.Hops))
	for i := range all {
		all[i] = i
	}
	return all
}

// firstTrunk is the hop of the first link between switches.
func (f *Fabric) firstTrunk() int { return 2*f.NICs() + f.NICs()*f.peers() }

// PerFlow says whether each flow has a path of its own, of several that are equally short.
func (f *Fabric) PerFlow() bool { return f.Net != nil && f.Net.PerFlow() }

// FlowPath is the path of a flow from NIC src to NIC dst, which are on different nodes. id is what it is drawn by, see
// [link.PathID]. Links that are down do not change it.
func (f *Fabric) FlowPath(src, dst int, id uint64) []link.PathHop {
	if f.Net == nil {
		return f.over(src, dst, nil)
	}
	return f.over(src, dst, f.Net.FlowPath(src, dst, id))
}

// FlowPaths is FlowPath, nil if all flows of two NICs have one path.
func (f *Fabric) FlowPaths() func(src, dst int, id uint64) []link.PathHop {
	if !f.PerFlow() {
		return nil
	}
	return f.FlowPath
}

// Path is the path from NIC src to NIC dst, which are on different nodes: the path of all flows, or, where each flow
// has its own, one of them.
func (f *Fabric) Path(src, dst int) []link.PathHop {
	if f.Net == nil {
		return f.over(src, dst, nil)
	}
	return f.over(src, dst, f.Net.Path(src, dst))
}

// Paths are the paths that flows from NIC src to NIC dst can have.
func (f *Fabric) Paths(src, dst int) (all [][]link.PathHop) {
	if f.Net == nil {
		return [][]link.PathHop{f.over(src, dst, nil)}
	}
	for _, links := range f.Net.All(src, dst) {
		all = append(all, f.over(src, dst, links))
	}
	return all
}

// over is the path from NIC src to NIC dst over these links between switches.
func (f *Fabric) over(src, dst int, links []int) []link.PathHop {
	path := []link.PathHop{{Hop: 2 * src}, {Hop: f.Link(src, dst), Private: true}}
	for _, l := range links {
		path = append(path, link.PathHop{Hop: f.firstTrunk() + l})
	}
	return append(path, link.PathHop{Hop: 2*dst + 1})
}

// Latency is the sum of the latencies on the path from NIC src to NIC dst, which are on
// different nodes.
func (f *Fabric) Latency(src, dst int) time.Duration {
	sum := time.Duration(0)
	for _, s := range f.Path(src, dst) {
		sum += f.Hops[s.Hop].Spec.Latency
	}
	return sum
}

// NearestNIC is the NIC, counted from 0 on each node, that is nearest to GPU gpu of a node
// that has gpus GPUs.
func (f *Fabric) NearestNIC(gpu, gpus int) int {
	if gpu < len(f.Config.NICOfGPU) {
		return f.Config.NICOfGPU[gpu]
	}
	return min(gpu*f.Config.NICsPerNode/max(gpus, 1), f.Config.NICsPerNode-1)
}

// NICName is the name of NIC n for people: node0, or node0.nic1 if nodes have several.
func (f *Fabric) NICName(n int) string {
	e := f.end(n)
	if f.Config.NICsPerNode == 1 {
		e.NIC = configs.Any
	}
	return e.String()
}

// Switches are the names of all switches. A star has one.
func (f *Fabric) Switches() []string {
	if f.Net == nil {
		return []string{"switch"}
	}
	return f.Net.Switches
}

// Home is the switch of NIC n, a place in Switches.
func (f *Fabric) Home(n int) int {
	if f.Net == nil {
		return 0
	}
	return f.Net.Home[n]
}

// HopName is the name of a hop for people: node0:node1 for a link, node0 tx for a port,
// leaf0:spine1 for a trunk.
func (f *Fabric) HopName(hop int) string { return f.NameOf(f.Hops[hop]) }

// NameOf is the name of a hop of the fabric, or of one of GPULinks, as HopName.
func (f *Fabric) NameOf(h Hop) string {
	switch {
	case h.Kind == link.TxPort:
		return f.NICName(h.Src) + " tx"
	case h.Kind == link.RxPort:
		return f.NICName(h.Src) + " rx"
	case h.Kind.IsOut():
		return f.localName(h.Kind, h.Src) + ":out"
	case h.Kind.IsIn():
		return f.localName(h.Kind, h.Src) + ":in"
	}
	from, to := f.EndNames(h.Kind, h.Src, h.Dst)
	return from + ":" + to
}

// EndNames are the names of the ends of a hop of this kind from src to dst.
func (f *Fabric) EndNames(kind link.HopKind, src, dst int) (from, to string) {
	switch {
	case kind == link.Trunk:
		return f.Net.Switches[src], f.Net.Switches[dst]
	case kind.IsWithinNode():
		return f.gpuEndNames(kind, src, dst)
	}
	return f.NICName(src), f.NICName(dst)
}

// Select returns the hops that pattern names, see configs.Pattern, in order. If there are
// none, the error is a *configs.Error.
func (f *Fabric) Select(pattern string) ([]int, error) {
	p, err := configs.ParsePattern(pattern)
	if err == nil {
		err = p.Check(&f.Config)
	}
	if err != nil {
		return nil, &configs.Error{Err: err}
	}
	var hops []int
	for i, h := range f.Hops {
		if f.matches(p, h) {
			hops = append(hops, i)
		}
	}
	if len(hops) == 0 {
		err := fmt.Errorf("%q matches no link of fabric %s", pattern, f.Config.Name)
		if p.Trunk() {
			err = fmt.Errorf("%w: %s", err, f.Net.Near(pattern))
		}
		return nil, &configs.Error{Err: err}
	}
	return hops, nil
}

// matches reports whether p names h.
func (f *Fabric) matches(p configs.Pattern, h Hop) bool {
	switch {
	case h.Kind == link.Trunk:
		return p.MatchTrunk(f.Net.Switches[h.Src], f.Net.Switches[h.Dst])
	case h.Kind == link.Link:
		return p.MatchLink(f.end(h.Src), f.end(h.Dst))
	case h.Kind.IsWithinNode():
		return false // they are what the kind of GPU says
	}
	return p.MatchPorts(f.end(h.Src))
}

// Shape changes the hops that pattern names and returns the hops whose parameters
// differ from before. With an error it changes none.
func (f *Fabric) Shape(pattern string, p configs.LinkPatch) ([]int, error) {
	before := slices.Clone(f.Hops)
	changed, err := f.shape(pattern, p)
	if err == nil {
		err = f.checkLosses()
	}
	if err != nil {
		f.Hops = before
		return nil, err
	}
	return changed, nil
}

// checkLosses refuses paths on which several links together lose more than a link may.
func (f *Fabric) checkLosses() error {
	if f.Net == nil || f.Config.OnKernel() ||
		!slices.ContainsFunc(f.Hops[f.firstTrunk():], func(h Hop) bool { return h.Spec.Loss != link.Loss{} }) {
		return nil
	}
	for src := range f.NICs() {
		for dst := range f.NICs() {
			if f.NodeOfNIC(src) == f.NodeOfNIC(dst) {
				continue
			}
			if lost := f.mostLost(src, dst); lost > configs.MaxLoss {
				return configs.Errorf("loss",
					"the links on the path %s:%s lose %.3g%% together: on datapath shm a path may lose at most %v%%; "+
						"give its links less loss", f.NICName(src), f.NICName(dst), 100*lost, 100*configs.MaxLoss)
			}
		}
	}
	return nil
}

// mostLost is the share of the packets that is lost on the worst path between two NICs.
func (f *Fabric) mostLost(src, dst int) (most float64) {
	for _, path := range f.Paths(src, dst) {
		through := 1.0
		for _, s := range path {
			through *= 1 - configs.Loss(f.Hops[s.Hop].Spec.Loss).Mean()
		}
		most = max(most, 1-through)
	}
	return most
}

// shape is Shape without checkLosses.
func (f *Fabric) shape(pattern string, p configs.LinkPatch) ([]int, error) {
	hops, err := f.Select(pattern)
	if err != nil {
		return nil, err
	}
	specs := make([]link.Spec, len(hops))
	for i, hop := range hops {
		if specs[i], err = f.patched(f.Hops[hop], p); err != nil {
			return nil, err
		}
	}
	var changed []int
	for i, hop := range hops {
		if f.Hops[hop].Spec != specs[i] {
			f.Hops[hop].Spec = specs[i]
			changed = append(changed, hop)
		}
	}
	return changed, nil
}

// ListedNICs are the NICs of a node that NCCL is shown, counted from 0 and in the order in which NCCL numbers them. As
// with NET/IB, NICs that are down are not among them: those whose links are all down. If that is so for all NICs of
// the node, then paths are down and not ports, and all NICs are listed.
func (f *Fabric) ListedNICs(node int) []int {
	var all, listed []int
	for i := range f.Config.NICsPerNode {
		all = append(all, i)
		if !f.isolated(f.NIC(node, i)) {
			listed = append(listed, i)
		}
	}
	if len(listed) == 0 {
		return all
	}
	return listed
}

// isolated reports whether all links of NIC n are down.
func (f *Fabric) isolated(n int) bool {
	for other := range f.NICs() {
		if f.NodeOfNIC(other) != f.NodeOfNIC(n) &&
			!(f.Hops[f.Link(n, other)].Spec.Down && f.Hops[f.Link(other, n)].Spec.Down) {
			return false
		}
	}
	return f.Config.Nodes > 1
}

// NICName is how the names of NICs begin that NCCL sees: goemu0, goemu1 and so on in each node.
const NICName = "goemu"

// NICProps is what the plugin tells NCCL about a NIC, in place of the real cluster's net. Times are not scaled.
type NICProps struct {
	Name      string  // goemu0 and on, unique within the node
	GUID      uint64  // unique in the fabric, not 0
	Port      int     // number of the port
	SpeedMbps int     // of the port
	LatencyUs float64 // 0 = not known, as NCCL's own nets say
}

// UnlimitedSpeed is the speed, in Mb/s, that NCCL is told for a NIC of unlimited
// bandwidth, because NCCL has no value for that.
const UnlimitedSpeed = 400_000

// guidBase makes the GUIDs of emulated NICs recognisable.
const guidBase = 0xddee_0000_0000_0000

// Props is what the plugin tells NCCL about NIC n.
func (f *Fabric) Props(n int) NICProps {
	e := f.end(n)
	p := NICProps{
		Name:      fmt.Sprintf("%s%d", NICName, e.NIC),
		GUID:      guidBase | uint64(e.Node+1)<<16 | uint64(e.NIC+1),
		Port:      1,
		SpeedMbps: f.portSpeed(n),
		LatencyUs: micros(f.Config.NCCL.Latency.Time),
	}
	if f.Config.NCCLNet() == configs.SocketNet {
		p.Port = 0 // NET/Socket's
	}
	if f.Config.NCCL.Latency.OfLink {
		p.LatencyUs = micros(f.longestLatency(n))
	}
	return p
}

// portSpeed is the speed of NIC n's port in Mb/s.
func (f *Fabric) portSpeed(n int) int {
	b := f.Hops[2*n].Spec.Bandwidth
	shown := f.Config.NCCL.Speed
	switch {
	case shown != 0 && b == uint64(f.Config.Link.Bandwidth):
		b = uint64(shown)
	case b == uint64(units.Unlimited):
		return UnlimitedSpeed
	}
	return int(b / uint64(units.Mbps))
}

// longestLatency is the longest one-way latency from NIC n to a NIC of another node, with the overhead at both ends.
func (f *Fabric) longestLatency(n int) time.Duration {
	e := f.end(n)
	longest := time.Duration(0)
	for dst := range f.NICs() {
		if f.NodeOfNIC(dst) != e.Node {
			longest = max(longest, f.Latency(n, dst)-f.portLatency())
		}
	}
	return longest + 2*f.Config.Endpoint.Overhead
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
