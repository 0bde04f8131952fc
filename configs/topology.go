// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ddlemu/ddlemu/configs/topology"
	"github.com/ddlemu/ddlemu/configs/units"
)

// Topology is how the NICs of a fabric are joined. The zero value is one ideal
// switch, a star. Every other kind has named switches and links between them. All
// pairs of NICs whose paths use such a link share it.
type Topology struct {
	Kind string `yaml:"kind,omitempty"` // see package topology; empty = star

	Leaves  int   `yaml:"leaves,omitempty"`    // leaf-spine
	Spines  int   `yaml:"spines,omitempty"`    // leaf-spine, rail; 0 = 1
	K       int   `yaml:"k,omitempty"`         // fat-tree
	Dims    []int `yaml:"dims,omitempty,flow"` // torus: nodes along each dimension
	Groups  int   `yaml:"groups,omitempty"`    // dragonfly
	Routers int   `yaml:"routers,omitempty"`   // dragonfly: of each group
	Sites   int   `yaml:"sites,omitempty"`     // wan
	Island  int   `yaml:"island,omitempty"`    // islands: nodes of each

	// Oversubscription, of leaf-spine and rail, is the bandwidth of the NICs on a
	// switch divided by the bandwidth of its uplinks; 0 = 1, or what follows from the trunk's
	// bandwidth.
	Oversubscription float64 `yaml:"oversubscription,omitempty"`

	// ECMP says what switches draw one of several equally short paths for: empty = for each pair of NICs, or PerFlow.
	ECMP string `yaml:"ecmp,omitempty"`

	// Trunk describes each link between switches. Parameters that it does not give are
	// the parameters of the fabric's link, but jitter, loss and reordering are none and the state is
	// up. The latency of one more switch and its cable must be given.
	Trunk LinkPatch `yaml:"trunk,omitempty"`

	// Of custom.
	Switches []string     `yaml:"switches,omitempty,flow"`
	Attach   []Attach     `yaml:"attach,omitempty"`
	Links    []SwitchLink `yaml:"links,omitempty"`
	Routes   []Route      `yaml:"routes,omitempty"`
}

// Attach puts NICs, named by one end of a Pattern, on a switch. Later entries replace
// earlier ones.
type Attach struct {
	Match  string `yaml:"match"`
	Switch string `yaml:"switch"`
}

// SwitchLink joins two switches, as a:b in both directions or a>b in one. What it
// gives replaces the trunk's parameters.
type SwitchLink struct {
	Between   string `yaml:"between"`
	LinkPatch `yaml:",inline"`
}

// Route is the path between NICs, which a Pattern with two ends names, as a list of
// switches. Later entries replace earlier ones.
type Route struct {
	Match string   `yaml:"match"`
	Via   []string `yaml:"via,flow"`
}

// PerFlow is the ECMP by which each connection takes a path of its own, as with a switch that hashes the ports of a
// queue pair or a TCP stream.
const PerFlow = "flow"

// ParseECMP reads pair, which is empty in Topology.ECMP, or flow.
func ParseECMP(s string) (string, error) {
	switch s {
	case "pair":
		return "", nil
	case PerFlow:
		return s, nil
	}
	return "", fmt.Errorf("%q is not one of pair, %s", s, PerFlow)
}

// IsStar reports whether t is one ideal switch.
func (t *Topology) IsStar() bool { return cmp.Or(t.Kind, topology.Star) == topology.Star }

// HasSeveralPaths reports whether some two NICs are joined by several equally short paths. A topology that is not valid
// has none.
func (f *Fabric) HasSeveralPaths() bool {
	perFlow := *f
	if perFlow.Topology.IsStar() {
		return false
	}
	perFlow.Topology.ECMP = PerFlow
	net, err := perFlow.Net()
	return err == nil && net.Several()
}

// topologyKeys are the keys that each kind of topology has besides kind.
var topologyKeys = map[string][]string{
	topology.Star: {}, topology.Rail: {"spines", "oversubscription", "ecmp", "trunk"}, topology.LeafSpine: {"leaves",
		"spines", "oversubscription", "ecmp", "trunk"},
	topology.FatTree: {"k", "ecmp", "trunk"}, topology.Torus: {"dims", "ecmp", "trunk"},
	topology.Ring: {"ecmp", "trunk"}, topology.Dragonfly: {"groups", "routers", "ecmp", "trunk"},
	topology.WAN: {"sites", "ecmp", "trunk"}, topology.Islands: {"island", "ecmp", "trunk"},
	topology.Custom: {"switches", "attach", "links", "routes", "ecmp", "trunk"},
}

// keys are the keys of t that have a value.
func (t *Topology) keys() []string {
	var keys []string
	for _, k := range []struct {
		name  string
		given bool
	}{
		{"leaves", t.Leaves != 0}, {"spines", t.Spines != 0}, {"k", t.K != 0}, {"dims", t.Dims != nil},
		{"groups", t.Groups != 0},
		{"routers", t.Routers != 0}, {"sites", t.Sites != 0}, {"island", t.Island != 0},
		{"oversubscription", t.Oversubscription != 0}, {"ecmp", t.ECMP != ""}, {"trunk", !t.Trunk.Empty()},
		{"switches", t.Switches != nil}, {"attach", t.Attach != nil}, {"links", t.Links != nil},
		{"routes", t.Routes != nil},
	} {
		if k.given {
			keys = append(keys, k.name)
		}
	}
	return keys
}

// Net is the switches of a fabric, the links between them, and the paths between its
// NICs.
type Net struct {
	topology.Graph
	Trunks []Link // the parameters of each of Graph.Links
	*topology.Routes
}

// Net lays out the switches of f; nil for a star. Each error is an *Error.
func (f *Fabric) Net() (*Net, error) {
	t := &f.Topology
	kind := cmp.Or(t.Kind, topology.Star)
	allowed, ok := topologyKeys[kind]
	if !ok {
		return nil, Errorf("topology.kind", "%w", Unknown("kind of topology", t.Kind, topology.Kinds))
	}
	for _, key := range t.keys() {
		if !slices.Contains(allowed, key) {
			return nil, Errorf("topology."+key, "given for the kind %s: only other kinds have it", kind)
		}
	}
	if t.IsStar() {
		return nil, nil
	}
	n := &Net{}
	g, given, err := f.graph()
	if err != nil {
		return nil, err
	}
	n.Graph = *g
	if n.Trunks, err = f.trunks(g, given); err != nil {
		return nil, err
	}
	if n.Routes, err = f.routes(g); err != nil {
		return nil, err
	}
	return n, nil
}

// graph is the switches and the links between them, and for each link its index in
// Topology.Links, -1 for none.
func (f *Fabric) graph() (*topology.Graph, []int, error) {
	t := &f.Topology
	if t.Kind == topology.Custom {
		return f.customGraph()
	}
	g, err := topology.Generate(topology.Shape{
		Kind: t.Kind, Nodes: f.Nodes, NICs: f.NICsPerNode, Leaves: t.Leaves, Spines: max(t.Spines, 1), K: t.K,
		Dims:   t.Dims,
		Groups: t.Groups, Routers: t.Routers, Sites: t.Sites, Island: t.Island,
	})
	if bad, ok := errors.AsType[*topology.BadShape](err); ok {
		return nil, nil, Errorf("topology."+bad.Key, "%w", err)
	}
	if err != nil {
		return nil, nil, err
	}
	return g, slices.Repeat([]int{-1}, len(g.Links)), nil
}

// trunks are the parameters of the links between switches. given[i] is the index of
// link i in Topology.Links, -1 for none.
func (f *Fabric) trunks(g *topology.Graph, given []int) ([]Link, error) {
	l, err := f.trunk(g)
	if err != nil {
		return nil, err
	}
	trunks := make([]Link, len(g.Links))
	for i, k := range given {
		trunks[i] = l
		field, latency := "topology.trunk", f.Topology.Trunk.Latency
		if k >= 0 {
			p := &f.Topology.Links[k].LinkPatch
			p.Apply(&trunks[i])
			field, latency = fmt.Sprintf("topology.links[%d]", k), cmp.Or(p.Latency, latency)
		}
		if latency == nil {
			return nil, Errorf(field+".latency", "missing: give the latency that one more switch and its cable add")
		}
		if err := within(field, cmp.Or(trunks[i].Validate(), f.ValidateLink(&trunks[i]))); err != nil {
			return nil, err
		}
	}
	return trunks, nil
}

// trunk is a link between switches that Topology.Links does not change.
func (f *Fabric) trunk(g *topology.Graph) (Link, error) {
	t, l := &f.Topology, f.Link.trunk()
	t.Trunk.Apply(&l)
	if t.Kind != topology.LeafSpine && t.Kind != topology.Rail {
		return l, nil
	}
	const field = "topology.oversubscription"
	switch over := t.Oversubscription; {
	case over != 0 && t.Trunk.Bandwidth != nil:
		return l, Errorf(field, "given as well as the trunk's bandwidth, from which it follows: give one of them")
	case over != 0 && !(over >= minOver && over <= maxOver):
		return l, Errorf(field, "%v is out of range: must be %v to %v", over, minOver, maxOver)
	case over != 0 && f.Link.Bandwidth == units.Unlimited:
		return l, Errorf(field, "given for links of unlimited bandwidth, which have nothing to divide")
	case t.Trunk.Bandwidth == nil && f.Link.Bandwidth != units.Unlimited:
		rate := float64(f.Link.Bandwidth) * float64(mostNICs(g)) / cmp.Or(over, 1) / float64(max(t.Spines, 1))
		l.Bandwidth = units.Bandwidth(math.Round(rate))
		if l.Bandwidth < MinBandwidth || l.Bandwidth > MaxBandwidth {
			return l, Errorf(field, "makes uplinks of %v: must be %v to %v; change the spines", l.Bandwidth,
				MinBandwidth, MaxBandwidth)
		}
	}
	return l, nil
}

// Limits of the oversubscription.
const (
	minOver = 0.01
	maxOver = 1000.0
)

// mostNICs is how many NICs are on the switch with the most of them.
func mostNICs(g *topology.Graph) int {
	n := make([]int, len(g.Switches))
	for _, home := range g.Home {
		n[home]++
	}
	return slices.Max(n)
}

// routes computes the paths between NICs.
func (f *Fabric) routes(g *topology.Graph) (*topology.Routes, error) {
	user, err := f.userRoutes(g)
	if err != nil {
		return nil, err
	}
	r, err := g.Route(f.NICsPerNode, f.Seed, user, f.Topology.ECMP == PerFlow)
	if no, ok := errors.AsType[*topology.NoPath](err); ok {
		return nil, Errorf("topology", "%s cannot reach %s: %w", f.end(no.Src), f.end(no.Dst), err)
	}
	return r, err
}

// end is NIC n, counted over the fabric, as the end of a pattern.
func (f *Fabric) end(n int) End { return End{n / f.NICsPerNode, n % f.NICsPerNode} }

// ParseOversubscription reads 4, 4:1 or 1.5:1.
func ParseOversubscription(s string) (float64, error) {
	number, one, ratio := strings.Cut(s, ":")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || ratio && one != "1" || !(v >= minOver && v <= maxOver) {
		return 0, fmt.Errorf("%q is not an oversubscription: write 4:1 or 4, %v to %v", s, minOver, maxOver)
	}
	return v, nil
}
