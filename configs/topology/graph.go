// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"strconv"
)

// Link is a directed link between two switches, by their numbers.
type Link struct {
	From, To int
	// Cost is the link's routing metric: a path with the least sum of costs is used.
	Cost int
}

// Graph is the switches of a fabric, the links between them, and where the NICs are.
type Graph struct {
	Switches []string
	Links    []Link
	Home     []int // the switch of each NIC, counted over the fabric
	// Zone is the zone that each switch belongs to, such as a pod or a site; NoZone for
	// a switch between zones. Traffic from one zone to another crosses links that leave
	// the zone.
	Zone  []int
	Zones []string // names
}

// NoZone is the zone of a switch that belongs to none.
const NoZone = -1

// Shape is the input of Generate. Fields that a kind does not use are 0.
type Shape struct {
	Kind            string
	Nodes, NICs     int // NICs per node
	Leaves, Spines  int
	K               int // ports of a fat-tree's switch
	Dims            []int
	Groups, Routers int
	Sites           int
	Island          int // nodes of an island
}

// BadShape is the error for a value that a topology cannot have.
type BadShape struct {
	Key string // of the topology, as in a fabric file
	Why string
}

// Error gives the reason without the key.
func (e *BadShape) Error() string { return e.Why }

func bad(key, format string, args ...any) error {
	return &BadShape{key, fmt.Sprintf(format, args...)}
}

// Generate lays out a topology of any kind but Star and Custom. The error is a
// *BadShape.
func Generate(s Shape) (*Graph, error) {
	b := &builder{s: s}
	var err error
	switch s.Kind {
	case Rail:
		err = b.rail()
	case LeafSpine:
		err = b.leafSpine()
	case FatTree:
		err = b.fatTree()
	case Torus:
		err = b.torus(s.Dims)
	case Ring:
		err = b.torus([]int{s.Nodes})
	case Dragonfly:
		err = b.dragonfly()
	case WAN:
		err = b.wan()
	case Islands:
		err = b.islands()
	default:
		err = bad("kind", "%q is not generated", s.Kind)
	}
	if err != nil {
		return nil, err
	}
	if n := len(b.g.Switches); n > MaxSwitches {
		return nil, bad("kind", "%d switches: at most %d", n, MaxSwitches)
	}
	return &b.g, nil
}

type builder struct {
	s Shape
	g Graph
}

// add adds a switch to a zone and returns its number.
func (b *builder) add(zone int, format string, args ...any) int {
	b.g.Switches = append(b.g.Switches, fmt.Sprintf(format, args...))
	b.g.Zone = append(b.g.Zone, zone)
	return len(b.g.Switches) - 1
}

// zone adds a zone and returns its number.
func (b *builder) zone(format string, args ...any) int {
	b.g.Zones = append(b.g.Zones, fmt.Sprintf(format, args...))
	return len(b.g.Zones) - 1
}

// join adds links in both directions.
func (b *builder) join(x, y, cost int) {
	b.g.Links = append(b.g.Links, Link{x, y, cost}, Link{y, x, cost})
}

// spread puts all NICs of a node on one of the switches, and the nodes evenly on the
// switches, in order.
func (b *builder) spread(switches []int) {
	for n := range b.s.Nodes {
		for range b.s.NICs {
			b.g.Home = append(b.g.Home, switches[n*len(switches)/b.s.Nodes])
		}
	}
}

// atMostNodes refuses more switches than there are nodes for.
func (b *builder) atMostNodes(key string, n, least int) error {
	if n < least || n > b.s.Nodes {
		return bad(key, "%s: must be %d to %d, the number of nodes", orMissing(n), least, b.s.Nodes)
	}
	return nil
}

// orMissing is the value of a key whose zero value says that it was not given.
func orMissing(n int) string {
	if n == 0 {
		return "missing or 0"
	}
	return strconv.Itoa(n)
}

// MaxSpines is checked before anything is generated, to bound the work.
const MaxSpines = 256

func (b *builder) rail() error {
	if b.s.NICs < 2 {
		return bad("kind", "rail has a switch for each NIC of a node: give nics_per_node 2 or more")
	}
	if b.s.Spines < 1 || b.s.Spines > MaxSpines {
		return bad("spines", "%d: must be 1 to %d", b.s.Spines, MaxSpines)
	}
	for i := range b.s.NICs {
		b.add(b.zone("rail%d", i), "rail%d", i)
	}
	for i := range b.s.Spines {
		spine := b.add(NoZone, "spine%d", i)
		for rail := range b.s.NICs {
			b.join(rail, spine, 1)
		}
	}
	for range b.s.Nodes {
		for i := range b.s.NICs {
			b.g.Home = append(b.g.Home, i)
		}
	}
	return nil
}

func (b *builder) leafSpine() error {
	if err := b.atMostNodes("leaves", b.s.Leaves, 1); err != nil {
		return err
	}
	if b.s.Spines < 1 || b.s.Spines > MaxSpines {
		return bad("spines", "%d: must be 1 to %d", b.s.Spines, MaxSpines)
	}
	var leaves []int
	for i := range b.s.Leaves {
		leaves = append(leaves, b.add(b.zone("leaf%d", i), "leaf%d", i))
	}
	for i := range b.s.Spines {
		spine := b.add(NoZone, "spine%d", i)
		for _, leaf := range leaves {
			b.join(leaf, spine, 1)
		}
	}
	b.spread(leaves)
	return nil
}

// maxK keeps a fat-tree's links within the space of a fabric's file.
const maxK = 16

// fatTree fills the edge switches in order, a NIC on each port.
func (b *builder) fatTree() error {
	k := b.s.K
	if k < 2 || k > maxK || k%2 != 0 {
		return bad("k", "%s: must be an even number from 2 to %d", orMissing(k), maxK)
	}
	half := k / 2
	if n, most := b.s.Nodes*b.s.NICs, k*half*half; n > most {
		return bad("k", "%d: a fat-tree of k %d has %d ports for NICs, the fabric has %d NICs", k, k, most, n)
	}
	var edges []int
	aggs := make([][]int, k)
	for pod := range k {
		zone := b.zone("pod%d", pod)
		first := len(edges)
		for i := range half {
			edges = append(edges, b.add(zone, "edge%d-%d", pod, i))
		}
		for i := range half {
			agg := b.add(zone, "agg%d-%d", pod, i)
			aggs[pod] = append(aggs[pod], agg)
			for _, edge := range edges[first:] {
				b.join(edge, agg, 1)
			}
		}
	}
	for i := range half * half {
		core := b.add(NoZone, "core%d", i)
		for pod := range k {
			b.join(aggs[pod][i/half], core, 1)
		}
	}
	for n := range b.s.Nodes * b.s.NICs {
		b.g.Home = append(b.g.Home, edges[n/half])
	}
	return nil
}

func (b *builder) torus(dims []int) error {
	if len(dims) == 0 {
		return bad("dims", "missing: give the nodes along each dimension, such as [4, 4]")
	}
	total := 1
	for _, d := range dims {
		if d < 1 || d > b.s.Nodes {
			return bad("dims", "%d: must be 1 to %d, the number of nodes", d, b.s.Nodes)
		}
		if total *= d; total > b.s.Nodes {
			break
		}
	}
	if total != b.s.Nodes {
		return bad("dims", "%v make %d nodes, the fabric has %d", dims, total, b.s.Nodes)
	}
	var all []int
	for i := range total {
		all = append(all, b.add(b.zone("switch%d", i), "switch%d", i))
	}
	stride := 1
	for _, d := range dims {
		for i := range total {
			at := i / stride % d
			next := i + stride
			if at == d-1 {
				next = i - (d-1)*stride
			}
			// A dimension of two switches has one link, not one in each direction around.
			if d > 2 || d == 2 && at == 0 {
				b.join(i, next, 1)
			}
		}
		stride *= d
	}
	b.spread(all)
	return nil
}

// globalCost makes a path over one link between groups the cheapest, even where a path
// over two such links has fewer links in all.
const globalCost = 10

// dragonfly joins any two groups by one link. The links of a group start at its
// routers in turn.
func (b *builder) dragonfly() error {
	groups, routers := b.s.Groups, b.s.Routers
	if err := b.atMostNodes("groups", groups, 2); err != nil {
		return err
	}
	if err := b.atMostNodes("routers", routers, 1); err != nil {
		return err
	}
	if groups*routers > b.s.Nodes {
		return bad("routers", "%d groups of %d are more routers than the fabric's %d nodes", groups, routers, b.s.Nodes)
	}
	var all []int
	for i := range groups {
		zone := b.zone("group%d", i)
		for r := range routers {
			all = append(all, b.add(zone, "router%d-%d", i, r))
			for other := range r {
				b.join(i*routers+other, i*routers+r, 1)
			}
		}
	}
	// Group x reaches y from its router ((y-x-1) mod groups) mod routers.
	gate := func(x, y int) int { return x*routers + (y-x-1+groups)%groups%routers }
	for x := range groups {
		for y := x + 1; y < groups; y++ {
			b.join(gate(x, y), gate(y, x), globalCost)
		}
	}
	b.spread(all)
	return nil
}

func (b *builder) wan() error {
	if err := b.atMostNodes("sites", b.s.Sites, 2); err != nil {
		return err
	}
	var all []int
	for i := range b.s.Sites {
		all = append(all, b.add(b.zone("site%d", i), "site%d", i))
		for other := range i {
			b.join(other, i, 1)
		}
	}
	b.spread(all)
	return nil
}

// islands puts NIC 0 of consecutive nodes on the switch of their island, as GPUs on the NVSwitches of a machine, and
// all other NICs on one switch.
func (b *builder) islands() error {
	if b.s.NICs < 2 {
		return bad("kind", "islands has other NICs than NIC 0 on switch net: give nics_per_node 2 or more")
	}
	if b.s.Island < 1 || b.s.Island > MaxSwitches {
		return bad("island", "%s: must be 1 to %d, the number of nodes of an island", orMissing(b.s.Island),
			MaxSwitches)
	}
	count := (b.s.Nodes + b.s.Island - 1) / b.s.Island
	if count >= MaxSwitches {
		return bad("island", "%d islands: at most %d", count, MaxSwitches-1)
	}
	for i := range count {
		b.add(b.zone("island%d", i), "island%d", i)
	}
	net := b.add(NoZone, "net")
	for i := range count {
		b.join(i, net, 1)
	}
	for n := range b.s.Nodes {
		b.g.Home = append(b.g.Home, n/b.s.Island)
		for range b.s.NICs - 1 {
			b.g.Home = append(b.g.Home, net)
		}
	}
	return nil
}
