// SPDX-License-Identifier: Apache-2.0

// Package expected calculates the expected time of each row of the bench: it passes NCCL's decisions, from its log, to
// shaper/nccl/expect.
package expected

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/engine/sim"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/expect"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/job"
)

// Times calculates expected times. It is not safe for concurrent use.
type Times struct {
	fabric *fabric.Fabric
	node   func(rank int) int // emulated
	domain domains
	getenv func(string) string
	known  map[string]bench.Expectation
	least  map[int]job.Traffic
	memo   *expect.Memo
	// Explain says that Of also says where the time goes.
	Explain bool
	// Problem says why the last row without an expected time has none, "" if every row had one.
	Problem string
	// Problems are the different Problems so far, without problems of rows that move nothing.
	Problems []string
}

// New makes the Times of a job whose rank r is on node(r). getenv reads the environment of the ranks.
func New(f *fabric.Fabric, node func(rank int) int, getenv func(string) string) *Times {
	return &Times{fabric: f, node: node, domain: domainsOf(f, node), getenv: f.Config.NCCLEnv(getenv),
		known: map[string]bench.Expectation{},
		least: map[int]job.Traffic{}, memo: expect.NewMemo()}
}

// Beside returns the Times of the same job for another goroutine. Both use what long simulations of either find out.
func (t *Times) Beside() *Times {
	out := *t
	out.known, out.least, out.Problem, out.Problems = map[string]bench.Expectation{}, map[int]job.Traffic{}, "", nil
	return &out
}

// Of returns the expected stated time of one iteration, false if it is not known: then Problem says why. It returns
// early when ctx is done.
func (t *Times) Of(ctx context.Context, c bench.Case) (bench.Expectation, bool) {
	t.Move(c)
	e, err := t.of(ctx, c)
	if err != nil {
		t.Problem = err.Error()
		if c.Count > 0 && !slices.Contains(t.Problems, t.Problem) {
			t.Problems = append(t.Problems, t.Problem)
		}
	}
	return e, err == nil
}

// Least is the minimum of bytes that the collectives passed to Of must have moved between each node and the others, all
// iterations together.
func (t *Times) Least() map[int]job.Traffic { return t.least }

// Move adds the bytes that the calls of c must move to the bytes of Least.
func (t *Times) Move(c bench.Case) {
	d := withoutSchedule(c)
	for _, cut := range d.Cuts(t.domain.of) {
		l := t.least[cut.Node]
		l.Out += cut.Out * uint64(c.Launches)
		l.In += cut.In * uint64(c.Launches)
		t.least[cut.Node] = l
	}
}

// Bound is the minimum stated time of the bytes of c that must cross between a node, or a zone of the fabric such as a
// leaf or a site, and the others; 0 if links have no rate. The last rank cannot be done earlier. A rank that only sends
// can, see Waiting.
func (t *Times) Bound(c bench.Case) time.Duration {
	d := withoutSchedule(c)
	longest := bound(d.Cuts(t.domain.of), t.portRates)
	if zones := t.zones(); zones != nil {
		zone := func(rank int) int { return zones[t.node(rank)] }
		longest = max(longest, bound(d.Cuts(zone), t.fabric.ZoneRates))
	}
	return time.Duration(longest * float64(time.Second))
}

// Waiting is the fraction of the ranks that cannot be done before the bytes of Bound have crossed, because they receive
// some of them. The bytes of the other ranks, such as those in the root's zone, may still be in buffers on the path.
func (t *Times) Waiting(c bench.Case) float64 {
	share := waiting(c, t.domain.of)
	if zones := t.zones(); zones != nil {
		share = min(share, waiting(c, func(rank int) int { return zones[t.node(rank)] }))
	}
	return share
}

func waiting(c bench.Case, group func(rank int) int) float64 {
	n, root := 0, max(c.Root, 0)
	for r := range c.Ranks {
		waits := true
		switch c.Collective {
		case nccl.Broadcast:
			waits = group(r) != group(root)
		case nccl.Reduce, nccl.Gather:
			waits = r == root
		case nccl.Scatter:
			waits = n == 0 && group(r) != group(root) // each gets its own share; the last one waits for all of them
		case nccl.SendRecv:
			waits = group((r+c.Ranks-1)%c.Ranks) != group(r)
		}
		if waits {
			n++
		}
	}
	return float64(n) / float64(max(c.Ranks, 1))
}

// bound is the time in seconds of the slowest cut. rates are the bytes per second out of and into a node or zone, 0 for
// no limit.
func bound(cuts []plan.Cut, rates func(int) (out, in float64)) float64 {
	longest := 0.0
	for _, cut := range cuts {
		if out, in := rates(cut.Node); out > 0 && in > 0 {
			longest = max(longest, float64(cut.Out)/out, float64(cut.In)/in)
		}
	}
	return longest
}

// zones are the zones of the fabric. Bytes between the nodes of an NVLink domain do not cross its links, so there are
// none with such domains.
func (t *Times) zones() []int {
	if t.domain.nodes > 1 {
		return nil
	}
	return t.fabric.Zones()
}

// portRates are the rates of the ports of a domain.
func (t *Times) portRates(domain int) (out, in float64) {
	return t.fabric.PortRates(func(node int) bool { return node/t.domain.nodes == domain })
}

// withoutSchedule is the collective without NCCL's decision.
func withoutSchedule(c bench.Case) plan.Decision {
	return plan.Decision{
		Coll: c.Collective, Ranks: c.Ranks, Count: uint64(c.Count), ElemSize: uint64(c.Type.Size()),
		Root: max(c.Root, 0), Iterations: c.Iters,
		InPlace: c.InPlace && c.Collective.IsP2P() && c.Collective.Rooted(),
	}
}

func (t *Times) of(ctx context.Context, c bench.Case) (bench.Expectation, error) {
	d, err := t.Decision(c)
	if err != nil {
		return bench.Expectation{}, err
	}
	// In place and out of place do not differ for the network, unless NCCL leaves out what the root sends to itself.
	key := fmt.Sprintf("%v", d)
	if e, ok := t.known[key]; ok {
		return e, nil
	}
	f, err := t.Fabric(c.NICs)
	if err != nil {
		return bench.Expectation{}, err
	}
	e, err := t.memo.Simulate(ctx, d, f)
	if err != nil {
		return bench.Expectation{}, err
	}
	var explained *expect.Explanation
	if t.Explain {
		if explained, err = expect.Explain(ctx, d, f); err != nil {
			return bench.Expectation{}, err
		}
	}
	mean := 0.0
	for _, r := range e.RankTime {
		mean += r / float64(len(e.RankTime))
	}
	t.known[key] = bench.Expectation{
		Time: time.Duration(mean), LastRank: time.Duration(e.Time), BusiestHop: time.Duration(e.Bound),
		Spread: e.Spread, Channels: e.Channels,
		Busiest:      t.busiest(e),
		Extrapolated: e.Extrapolated, Limit: t.limit(&d, e), Explained: explained, Crossed: crossed(e),
	}
	return t.known[key], nil
}

// crossed are the hops that the messages of a call cross.
func crossed(e *expect.Estimate) []int {
	hops := make([]int, len(e.Loads))
	for i, l := range e.Loads {
		hops[i] = l.Hop
	}
	return hops
}

// Crossed are the hops that the messages of the calls passed to Of cross, in no order; some are there several times.
func (t *Times) Crossed() (hops []int) {
	for _, e := range t.known {
		hops = append(hops, e.Crossed...)
	}
	return hops
}

// Decision is NCCL's decision on c, from its log.
func (t *Times) Decision(c bench.Case) (plan.Decision, error) {
	if c.Topology == nil {
		return plan.Decision{}, fmt.Errorf("NCCL's log does not tell the rings: unset NCCL_DEBUG")
	}
	version, err := versionNumber(c.NCCL)
	if err != nil {
		return plan.Decision{}, err
	}
	top := c.Topology
	d := withoutSchedule(c)
	d.Version, d.Channels, d.NVLSChannels, d.Rings = version, top.CollChannels, top.NVLSChannels, top.Rings
	d.NVLSHeads = top.NVLSHeads
	d.P2PChannels, d.P2PChannelsPerPeer = top.P2PChannels, top.P2PChannelsPerPeer
	for _, channel := range top.Trees {
		var ranks []plan.Links
		for _, n := range channel {
			ranks = append(ranks, plan.Links{Up: n.Up, Down: n.Down})
		}
		d.Trees = append(d.Trees, ranks)
	}
	if err := setVariables(&d, t.getenv); err != nil {
		return plan.Decision{}, err
	}
	if err := t.domain.check(top); err != nil {
		return plan.Decision{}, err
	}
	config := &t.fabric.Config
	if d.LocalTime = config.NodeTime; d.LocalTime && t.domain.number == 1 && config.NodeNVLink().Links > 0 {
		d.P2PChunkSize = p2pNVLinkChunkSize
	}
	if err := setDecision(&d, c.Collective, c.Decision); err != nil {
		return plan.Decision{}, err
	}
	if err := refuseVariables(&d, t.getenv); err != nil {
		return plan.Decision{}, err
	}
	if c.Decision != nil {
		kernel := nccllog.Kernel{Algo: c.Decision.Algo, Proto: c.Decision.Proto}
		d.MaxThreads = max(top.Threads[kernel], 0)
		threshold, known := top.Thresholds[kernel]
		if d.ThreadThreshold = max(threshold, 0); known && threshold == 0 {
			d.MaxChannels = d.Channels // NCCL_THREAD_THRESHOLDS=0: any call uses all of them
		}
	}
	return d, nil
}

// p2pNVLinkChunkSize is NCCL_P2P_NVL_CHUNKSIZE's default in bytes: the size of a slot for sends and receives where
// NVLinks connect all ranks (init.cc).
const p2pNVLinkChunkSize = 512 << 10

// setDecision copies NCCL's decision for the row to d.
func setDecision(d *plan.Decision, coll nccl.Collective, decision *nccllog.Decision) (err error) {
	if decision == nil && coll.Discards(int64(d.Count)) {
		return errors.New("a call of 0 elements sends nothing, so NCCL chooses nothing for it")
	}
	if coll.IsP2P() {
		return nil
	}
	if decision == nil {
		return fmt.Errorf("NCCL's log does not tell its decision: unset NCCL_DEBUG")
	}
	if d.Algo, err = plan.ParseAlgorithm(decision.Algo); err != nil {
		return err
	}
	d.Proto, err = plan.ParseProtocol(decision.Proto)
	if decision.ChannelHi >= decision.ChannelLo && decision.ChannelLo >= 0 {
		d.UsedChannels, d.FirstChannel = decision.ChannelHi-decision.ChannelLo+1, decision.ChannelLo
	}
	return err
}

// versionNumber converts 2.22.3 to 22203, as in ncclGetVersion.
func versionNumber(text string) (int, error) {
	var major, minor, patch int
	if _, err := fmt.Sscanf(strings.SplitN(text, "+", 2)[0], "%d.%d.%d", &major, &minor, &patch); err != nil {
		return 0, fmt.Errorf("NCCL version %q: not understood", text)
	}
	return major*10000 + minor*100 + patch, nil
}

// Fabric is the fabric at time scale 1 for the job's only communicator. nics are those that NCCL uses.
func (t *Times) Fabric(nics map[nccllog.Pair]nccllog.NICs) (*expect.Fabric, error) {
	return t.FabricOf(nics, func(r int) int { return r })
}

// FabricOf is the fabric at time scale 1 for a communicator of a job. rank is the rank in the job of one of the
// communicator.
func (t *Times) FabricOf(nics map[nccllog.Pair]nccllog.NICs, rank func(int) int) (*expect.Fabric, error) {
	timed, err := t.fabric.WithNodeTime()
	if err != nil {
		return nil, err
	}
	params, err := timed.Params(1)
	if err != nil {
		return nil, err
	}
	changes, err := changes(timed)
	if err != nil {
		return nil, err
	}
	transport := timed.Transport()
	listed := make([][]int, t.fabric.Config.Nodes)
	for node := range listed {
		listed[node] = t.fabric.ListedNICs(node)
	}
	var made func(c expect.Conn) (through, place int)
	// Where nodes take time the order of messages of the same instant matters on one NIC too.
	if t.fabric.PerFlow() || t.fabric.Config.NICsPerNode > 1 || t.fabric.Config.NodeTime && len(nics) > 0 {
		made = func(c expect.Conn) (through, place int) {
			n, known := nics[pairOf(c)]
			if !known || n.Through == nccllog.Unknown {
				return c.Src, 0 // Path has the error
			}
			return n.Through, int(n.Listened)
		}
	}
	return &expect.Fabric{
		Params: params, Transport: &transport, Tables: t.fabric.JitterTables(), Seed: t.fabric.Config.Seed,
		Changes: changes, Node: t.domain.of, Nodes: nodes(timed), InOrder: t.fabric.Config.IsVirtual(),
		Made: made,
		Path: func(c expect.Conn) (path []link.PathHop, reverse []int, err error) {
			src, dst, listened, err := t.ends(c, nics, listed)
			if err != nil {
				return nil, nil, err
			}
			id := link.PathID(rank(c.Dst), listened)
			return t.fabric.FlowPath(src, dst, id), t.fabric.FlowReverse(src, dst, id), nil
		},
	}, nil
}

// changes are the changes of links that faults make, at time scale 1.
func changes(f *fabric.Fabric) ([]sim.Change, error) {
	planned, err := f.PlannedChanges()
	if err != nil {
		return nil, err
	}
	all := make([]sim.Change, len(planned))
	for i, c := range planned {
		all[i] = sim.Change{Time: int64(c.At), Hop: c.Hop}
		if all[i].Params, err = link.NewParams(c.Spec, 1); err != nil {
			return nil, fmt.Errorf("fault at %v on %s: %w", c.At, f.HopName(c.Hop), err)
		}
	}
	return all, nil
}

func pairOf(c expect.Conn) nccllog.Pair {
	return nccllog.Pair{From: c.Src, To: c.Dst, Channel: c.Channel, P2P: c.P2P}
}

// ends are the two NICs of a connection, and its number among the connections of its receiver, which is used only if
// each flow has a path of its own. listed are the NICs of each node that NCCL is shown.
func (t *Times) ends(c expect.Conn, nics map[nccllog.Pair]nccllog.NICs, listed [][]int) (src, dst int, listened uint64,
	err error) {
	if t.fabric.Config.NICsPerNode == 1 && !t.fabric.PerFlow() {
		return t.fabric.NIC(t.node(c.Src), 0), t.fabric.NIC(t.node(c.Dst), 0), 0, nil
	}
	n, known := nics[pairOf(c)]
	from, to := listed[t.node(c.Src)], listed[t.node(c.Dst)]
	if !known || n.Send < 0 || n.Send >= len(from) || n.Receive < 0 || n.Receive >= len(to) {
		return 0, 0, 0, fmt.Errorf(
			"NCCL's log does not tell the NICs of channel %d from rank %d to %d: unset NCCL_DEBUG",
			c.Channel, c.Src, c.Dst)
	}
	return t.fabric.NIC(t.node(c.Src), from[n.Send]), t.fabric.NIC(t.node(c.Dst), to[n.Receive]), n.Listened, nil
}
