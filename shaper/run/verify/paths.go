// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// pathSpec is the path between two NICs and the values asked for.
type pathSpec struct {
	src, dst int
	name     string
	hops     []int
	down     bool
	payload  float64       // of the narrowest hop, bytes per ns of real time; +Inf if no hop has a bandwidth
	latency  time.Duration // of a message of probeSize, stated time, without jitter and loss
	round    int64         // round trip, real ns
	segment  int           // bytes
	jitter   []link.Jitter // of the hops that have one
	lossy    bool
}

// probeSize is the size in bytes of the messages that measure latency.
const probeSize = 8

// pathOf returns the values asked for on the path between two NICs.
func (m *Model) pathOf(src, dst int) pathSpec {
	path := pathSpec{src: src, dst: dst, name: m.fab.HopName(m.fab.Link(src, dst)), payload: math.Inf(1),
		segment: math.MaxInt}
	longest := int64(0)
	for _, s := range m.fab.Path(src, dst) {
		spec, p := m.fab.Hops[s.Hop].Spec, &m.params[s.Hop]
		l := fabric.LinkOf(spec)
		path.hops = append(path.hops, s.Hop)
		path.down = path.down || spec.Down
		if r := l.PayloadRate(); r > 0 {
			path.payload = min(path.payload, r/1e9/float64(m.scale))
		}
		path.segment = min(path.segment, int(p.Segment))
		longest = max(longest, m.probeTime(&spec, p))
		if spec.Jitter.Kind != link.NoJitter && spec.Jitter.Value > 0 {
			path.jitter = append(path.jitter, spec.Jitter)
		}
		path.lossy = path.lossy || p.Loss.Any()
	}
	if m.transport.Kind == link.TCP {
		path.segment = min(path.segment, max(int(min(m.transport.SendBuffer, m.transport.Window)/4), 1))
	}
	k := int64(m.scale)
	path.latency = m.fab.Latency(src, dst) +
		time.Duration((longest+2*m.transport.Overhead+2*m.transport.Host.Time(probeSize))/k)
	path.round = int64(m.fab.Latency(src, dst)+m.fab.Latency(dst, src))*k + 2*m.transport.Overhead
	return path
}

// probeTime is the time in real ns that a message of probeSize occupies a hop.
func (m *Model) probeTime(spec *link.Spec, p *link.Params) int64 {
	switch {
	case m.shaper == "":
		return p.Serialization(probeSize)
	case m.traits().bursts:
		return 0
	}
	return p.Occupancy(probeSize + ipv4UDP + uint64(spec.Framing))
}

// unshaped says whether nothing is asked of the path, so that no message can be late.
func (path *pathSpec) unshaped() bool {
	return math.IsInf(path.payload, 1) && path.latency == 0 && len(path.jitter) == 0
}

// spread is the largest difference in real ns that jitter makes between two messages, but for a few in a thousand.
// Messages with at least this spacing do not delay each other.
func (m *Model) spread(path *pathSpec) int64 {
	times := map[link.JitterKind]int64{link.Uniform: 2, link.Normal: 8, link.Pareto: 16, link.Table: 16}
	sum := int64(0)
	for _, j := range path.jitter {
		sum += times[j.Kind] * int64(j.Value) * int64(m.scale)
	}
	return sum
}

// maxEarly is the most in real ns by which jitter makes a message faster than the latency.
func (m *Model) maxEarly(path *pathSpec) int64 {
	sum := 0.0
	for _, j := range path.jitter {
		switch j.Kind {
		case link.Uniform:
			sum += float64(j.Value)
		case link.Normal:
			sum += 4 * float64(j.Value)
		case link.Table:
			sum += max(0, -m.jitterQuantile(j.Kind, 0)) * float64(j.Value)
		}
	}
	return int64(sum) * int64(m.scale)
}

// paths returns all paths of the fabric that are up, and the names of those that are down.
func (m *Model) paths() (up []pathSpec, down []string) {
	for _, h := range m.fab.Hops {
		if h.Kind != link.Link {
			continue
		}
		path := m.pathOf(h.Src, h.Dst)
		if path.down {
			down = append(down, path.name)
			continue
		}
		up = append(up, path)
	}
	return up, down
}

// sample selects about n of paths: first those that are needed so that every hop and every kind of link is measured,
// even if they are more than n, then others evenly.
func (m *Model) sample(paths []pathSpec, n int) []pathSpec {
	if len(paths) <= n {
		return paths
	}
	type thing struct {
		hop  int
		spec link.Spec
	}
	seen, chosen := map[thing]bool{}, map[int]bool{}
	for i := range paths {
		for _, hop := range paths[i].hops {
			t := thing{hop: hop}
			if m.fab.Hops[hop].Kind == link.Link {
				t = thing{hop: -1, spec: m.fab.Hops[hop].Spec}
			}
			if !seen[t] {
				chosen[i] = true
			}
			seen[t] = true
		}
	}
	for i := 0; len(chosen) < n && i < len(paths); i++ {
		chosen[(i*7919)%len(paths)] = true // 7919 is prime and larger than any number of links per node
	}
	var out []pathSpec
	for i := range paths {
		if chosen[i] {
			out = append(out, paths[i])
		}
	}
	return out
}

// group is a set of paths that share no hop.
type group struct {
	paths []pathSpec
	rate  float64
	hops  map[int]bool
}

func (g *group) fits(path *pathSpec, most float64) bool {
	return g.rate+path.payload <= most && !slices.ContainsFunc(path.hops, func(h int) bool { return g.hops[h] })
}

// groups puts paths that share no hop into groups whose rates sum up to at most most bytes per ns. A path with a higher
// rate has a group of its own.
func groups(paths []pathSpec, most float64) []*group {
	var all []*group
	for _, path := range paths {
		at := slices.IndexFunc(all, func(g *group) bool { return g.fits(&path, most) })
		if at < 0 {
			at = len(all)
			all = append(all, &group{hops: map[int]bool{}})
		}
		g := all[at]
		g.paths, g.rate = append(g.paths, path), g.rate+path.payload
		for _, h := range path.hops {
			g.hops[h] = true
		}
	}
	return all
}

// Limits of what a connection has in flight. maxInFlight is less than the engine's ring, so that the ring never delays
// a send.
const (
	maxInFlight = 3 << 20
	maxMessage  = 512 << 10
	maxStreams  = 16
	minMessages = 64 // of a stream, at least
	// descheduled is how long a thread that lost its processor may be away; posted messages must last for it.
	descheduled = 60e6 // ns
)

// streams are the flows that fill a path for d: several if one cannot have enough in flight.
func (m *Model) streams(path *pathSpec, d time.Duration) []Flow {
	rate := path.payload
	if math.IsInf(rate, 1) {
		rate = 1 // bytes per ns; decides only how much memory is used
	}
	size := path.segment * int(min(max(rate*float64(d)/minMessages/float64(path.segment), 1),
		max(maxMessage/float64(path.segment), 1)))
	window := min(float64(MaxDepth*size), maxInFlight)
	if m.transport.Kind == link.TCP {
		window = min(window, float64(m.transport.SendBuffer), float64(m.transport.Window))
	}
	n := int(min(max(math.Ceil(1.25*rate*float64(path.round)/window), 1), maxStreams))
	depth := int(min(max((rate*(1.25*float64(path.round)+descheduled))/float64(size)/float64(n), 4), MaxDepth,
		max(maxInFlight/float64(size), 4)))
	f := Flow{Src: path.src, Dst: path.dst, Size: size, Depth: depth, Messages: manyMessages(rate*2, size, d),
		Apart: path.apart(size), Ready: m.ready(path)}
	if math.IsInf(path.payload, 1) {
		f.Messages = manyMessages(100, size, d)
	}
	return slices.Repeat([]Flow{f}, n)
}

// ready is a path's [Flow.Ready]: rdma's clear-to-send needs less than a round trip.
func (m *Model) ready(path *pathSpec) time.Duration {
	if m.transport.Kind != link.RDMA {
		return 0
	}
	return time.Duration(int64(path.round) + m.spread(path))
}

// apart is the time that a message of size bytes fills the path.
func (path *pathSpec) apart(size int) time.Duration {
	return time.Duration(float64(size) / path.payload)
}

// manyMessages is more messages than become visible in d at rate, in bytes per ns.
func manyMessages(rate float64, size int, d time.Duration) int {
	return int(rate*float64(d)/float64(size)) + 8*MaxDepth
}

// probes is the flow that measures the latency of a path with n messages.
func (m *Model) probes(path *pathSpec, n int) Flow {
	const apart = time.Millisecond // so that sender and receiver can sleep in between
	// Of MaxDepth receives, one is free again and known to the sender after two latencies.
	spacing := max(int64(apart), m.spread(path), int64(path.latency)*int64(m.scale)*3/MaxDepth)
	return Flow{
		Src: path.src, Dst: path.dst, Size: probeSize, Depth: MaxDepth, Spacing: time.Duration(spacing), Messages: n,
		Ready: m.ready(path),
		Least: time.Duration(max(int64(path.latency)*int64(m.scale)-m.maxEarly(path), 1)),
	}
}

// allToAll is a flow from each NIC to each NIC of the other nodes, or, if that is more than most flows, to some of them
// at even distances. all says which.
func (m *Model) allToAll(most int) (flows []Flow, all bool) {
	nics, perNode := m.fab.NICs(), m.fab.Config.NICsPerNode
	peers := nics - perNode
	each := min(peers, max(most/nics, 1))
	for src := range nics {
		for i := range each {
			dst := (src/perNode*perNode + perNode + (src%perNode+i*peers/each)%peers) % nics
			if path := m.pathOf(src, dst); !path.down && !math.IsInf(path.payload, 1) {
				flows = append(flows, m.shared(&path, each))
			}
		}
	}
	return flows, each == peers
}

// incast are flows from several nodes to the first NIC; on a fabric of two nodes, several flows from the other node.
func (m *Model) incast() []Flow {
	const senders = 8
	nics, perNode := m.fab.NICs(), m.fab.Config.NICsPerNode
	n := max(min(m.fab.Config.Nodes-1, senders), 2)
	var flows []Flow
	for src := perNode; src < nics && len(flows) < senders; src += perNode {
		if path := m.pathOf(src, 0); !path.down && !math.IsInf(path.payload, 1) {
			flows = append(flows, m.shared(&path, n))
		}
	}
	if len(flows) == 1 {
		flows = slices.Repeat(flows, 4)
	}
	return flows
}

// shared is a flow that shares hops with others and gets about 1/n of them. Its messages have few segments, so that
// a hop serves flows by segments, whatever the size of their messages. It has no more in flight than it needs, because
// flows send that much in a burst.
func (m *Model) shared(path *pathSpec, n int) Flow {
	const few = 4
	need := path.payload * (1.25*float64(path.round) + descheduled/float64(n))
	size := path.segment * int(min(max(need/MaxDepth/float64(path.segment), 1), few))
	return Flow{Src: path.src, Dst: path.dst, Size: size, Apart: path.apart(size),
		Depth: int(min(max(need/float64(size), 4), MaxDepth)), Ready: m.ready(path)}
}

// cluster is the factor by which the variance of the number of losses exceeds the variance of independent losses:
// (1+c)/(1-c), with c the correlation between a packet and the next.
func cluster(l link.Loss) float64 {
	if l.GoodToBad == 0 {
		return 1
	}
	c := min(math.Abs(1-l.GoodToBad-l.BadToGood), 0.999)
	return (1 + c) / (1 - c)
}

// askedLatencies are latencies of a path with jitter, in stated ns, sorted, from the distributions asked for.
func (m *Model) askedLatencies(path *pathSpec) []float64 {
	const draws = 1 << 15
	out := slices.Repeat([]float64{float64(path.latency)}, draws)
	for hop, j := range path.jitter {
		// Each quantile once per hop, in a random order, so that the hops are independent.
		for i, n := range rand.New(rand.NewPCG(1, uint64(hop))).Perm(draws) {
			out[i] += float64(j.Value) * m.jitterQuantile(j.Kind, (float64(n)+0.5)/draws)
		}
	}
	for i, v := range out {
		out[i] = max(v, 0)
	}
	slices.Sort(out)
	return out
}

// jitterQuantile is the quantile u of a distribution, in units of the jitter's value (see docs/model.md): uniform
// between -1 and 1, normal, Pareto of shape 3 shifted to start at 0 with mean 1, or the fabric's table.
func (m *Model) jitterQuantile(kind link.JitterKind, u float64) float64 {
	switch kind {
	case link.Uniform:
		return 2*u - 1
	case link.Normal:
		return math.Sqrt2 * math.Erfinv(2*u-1)
	case link.Pareto:
		return 2 * (math.Pow(1-u, -1.0/3) - 1)
	default:
		return quantile(m.fab.Config.JitterTable, u)
	}
}
