// SPDX-License-Identifier: Apache-2.0

// Package expected gives the bench the time that the model expects of each row:
// what NCCL's log says it decided, played by shaper/expect on the fabric.
package expected

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/shaper/bench"
	"github.com/ddlemu/ddlemu/shaper/bench/nccllog"
	"github.com/ddlemu/ddlemu/shaper/expect"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/job"
	"github.com/ddlemu/ddlemu/shaper/link"
	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// Times computes expected times. Not safe for concurrent use.
type Times struct {
	fabric *fabric.Fabric
	node   func(rank int) int
	getenv func(string) string
	known  map[string]bench.Expectation
	least  map[int]job.Traffic
	// Problem says why the last row that had no expected time has none, "" if all had one.
	Problem string
	// Problems are all of them, each once, but for those of rows that move nothing.
	Problems []string
}

// New prepares the expected times of a job whose rank r is on node(r). getenv
// reads the environment that the ranks have.
func New(f *fabric.Fabric, node func(rank int) int, getenv func(string) string) *Times {
	return &Times{fabric: f, node: node, getenv: getenv, known: map[string]bench.Expectation{}, least: map[int]job.Traffic{}}
}

// Of is the expected time of one iteration, in the fabric's own time, false if it
// is not known: then Problem says why. It ends with ctx.
func (t *Times) Of(ctx context.Context, c bench.Case) (bench.Expectation, bool) {
	t.count(c)
	e, err := t.of(ctx, c)
	if err != nil {
		t.Problem = err.Error()
		if c.Count > 0 && !slices.Contains(t.Problems, t.Problem) {
			t.Problems = append(t.Problems, t.Problem)
		}
	}
	return e, err == nil
}

// Least is what the collectives that Of was asked for must have moved between each
// node and the others at least, all iterations together.
func (t *Times) Least() map[int]job.Traffic { return t.least }

func (t *Times) count(c bench.Case) {
	d := unscheduled(c)
	for _, cut := range d.Cuts(t.node) {
		l := t.least[cut.Node]
		l.Out += cut.Out * uint64(c.Launches)
		l.In += cut.In * uint64(c.Launches)
		t.least[cut.Node] = l
	}
}

// Bound is what the bytes of c take at least that must cross between a node, or a
// zone of the fabric such as a leaf or a site, and the others, in the fabric's own
// time; 0 where links have no rate. The last rank cannot be done before: one that only
// sends can, see Waiting.
func (t *Times) Bound(c bench.Case) time.Duration {
	d := unscheduled(c)
	longest := bound(d.Cuts(t.node), t.portRates)
	if zones := t.fabric.Zones(); zones != nil {
		zone := func(rank int) int { return zones[t.node(rank)] }
		longest = max(longest, bound(d.Cuts(zone), t.fabric.ZoneRates))
	}
	return time.Duration(longest * float64(time.Second))
}

// Waiting is the share of the ranks that cannot be done before the bytes of Bound have
// crossed, because of what they receive: the others may leave theirs to the buffers on
// the way. Ranks in the root's zone of the fabric count among those others.
func (t *Times) Waiting(c bench.Case) float64 {
	share := waiting(c, t.node)
	if zones := t.fabric.Zones(); zones != nil {
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
		case nccl.Reduce:
			waits = r == root
		case nccl.SendRecv:
			waits = group((r+c.Ranks-1)%c.Ranks) != group(r)
		}
		if waits {
			n++
		}
	}
	return float64(n) / float64(max(c.Ranks, 1))
}

// bound is the seconds that the slowest of the cuts takes. rates are the bytes per
// second out of and into one, 0 for no bound.
func bound(cuts []expect.Cut, rates func(int) (out, in float64)) float64 {
	longest := 0.0
	for _, cut := range cuts {
		if out, in := rates(cut.Node); out > 0 && in > 0 {
			longest = max(longest, float64(cut.Out)/out, float64(cut.In)/in)
		}
	}
	return longest
}

// portRates are the payload rates of a node's ports together, in bytes per second; 0
// if one of them has none.
func (t *Times) portRates(node int) (out, in float64) {
	unlimited := false
	for _, h := range t.fabric.Hops {
		if h.Kind != fabric.TxPort && h.Kind != fabric.RxPort || t.fabric.NodeOfNIC(h.Src) != node {
			continue
		}
		port := fabric.LinkOf(h.Spec)
		rate := port.PayloadRate()
		unlimited = unlimited || rate == 0
		if h.Kind == fabric.TxPort {
			out += rate
		} else {
			in += rate
		}
	}
	if unlimited {
		return 0, 0
	}
	return out, in
}

// unscheduled is the collective without NCCL's decisions.
func unscheduled(c bench.Case) expect.Decision {
	return expect.Decision{
		Coll: c.Collective, Ranks: c.Ranks, Count: uint64(c.Count), ElemSize: uint64(c.Type.Size()), Root: max(c.Root, 0), Iterations: c.Iters,
	}
}

func (t *Times) of(ctx context.Context, c bench.Case) (bench.Expectation, error) {
	d, err := t.decision(c)
	if err != nil {
		return bench.Expectation{}, err
	}
	// In place and out of place are the same to the network.
	key := fmt.Sprintf("%v", d)
	if e, ok := t.known[key]; ok {
		return e, nil
	}
	f, err := t.fabricOf(c.NICs)
	if err != nil {
		return bench.Expectation{}, err
	}
	e, err := expect.Simulate(ctx, d, f)
	if err != nil {
		return bench.Expectation{}, err
	}
	mean := 0.0
	for _, r := range e.RankTime {
		mean += r / float64(len(e.RankTime))
	}
	t.known[key] = bench.Expectation{
		Time: time.Duration(mean), LastRank: time.Duration(e.Time), BusiestHop: time.Duration(e.Bound), Spread: e.Spread, Channels: e.Channels,
	}
	return t.known[key], nil
}

func (t *Times) decision(c bench.Case) (expect.Decision, error) {
	if c.Topology == nil {
		return expect.Decision{}, fmt.Errorf("NCCL's log does not tell the rings: unset NCCL_DEBUG")
	}
	version, err := versionNumber(c.NCCL)
	if err != nil {
		return expect.Decision{}, err
	}
	top := c.Topology
	d := unscheduled(c)
	d.Version, d.Channels, d.Rings = version, top.CollChannels, top.Rings
	d.P2PChannels, d.P2PChannelsPerPeer = top.P2PChannels, top.P2PChannelsPerPeer
	for _, channel := range top.Trees {
		var ranks []expect.Links
		for _, n := range channel {
			ranks = append(ranks, expect.Links{Up: n.Up, Down: n.Down})
		}
		d.Trees = append(d.Trees, ranks)
	}
	for name, field := range map[string]*int{
		"NCCL_BUFFSIZE": &d.BuffSize, "NCCL_LL_BUFFSIZE": &d.LLBuffSize, "NCCL_LL128_BUFFSIZE": &d.LL128BuffSize, "NCCL_P2P_NET_CHUNKSIZE": &d.P2PChunkSize,
	} {
		if text := t.getenv(name); text != "" {
			if *field, err = strconv.Atoi(text); err != nil {
				return expect.Decision{}, fmt.Errorf("%s=%s: not a number", name, text)
			}
		}
	}
	if err := choose(&d, c.Collective, c.Decision); err != nil {
		return expect.Decision{}, err
	}
	if c.Decision != nil {
		d.MaxThreads = max(top.Threads[nccllog.Kernel{Algo: c.Decision.Algo, Proto: c.Decision.Proto}], 0)
	}
	return d, nil
}

// choose fills in what NCCL decided for the row.
func choose(d *expect.Decision, coll nccl.Collective, decision *nccllog.Decision) (err error) {
	if coll == nccl.SendRecv || coll == nccl.AllToAll {
		return nil
	}
	if decision == nil && d.Count == 0 {
		return errors.New("a call of 0 elements sends nothing, so NCCL chooses nothing for it")
	}
	if decision == nil {
		return fmt.Errorf("NCCL's log does not tell its decision: unset NCCL_DEBUG")
	}
	if d.Algo, err = expect.ParseAlgorithm(decision.Algo); err != nil {
		return err
	}
	d.Proto, err = expect.ParseProtocol(decision.Proto)
	if decision.ChannelHi >= decision.ChannelLo && decision.ChannelLo >= 0 {
		d.UsedChannels = decision.ChannelHi - decision.ChannelLo + 1
	}
	return err
}

// versionNumber turns 2.22.3 into 22203, as ncclGetVersion has it.
func versionNumber(text string) (int, error) {
	var major, minor, patch int
	if _, err := fmt.Sscanf(strings.SplitN(text, "+", 2)[0], "%d.%d.%d", &major, &minor, &patch); err != nil {
		return 0, fmt.Errorf("NCCL version %q: not understood", text)
	}
	return major*10000 + minor*100 + patch, nil
}

// fabricOf is the fabric in its own time. nics are NCCL's decision.
func (t *Times) fabricOf(nics map[nccllog.Pair]nccllog.NICs) (*expect.Fabric, error) {
	params, err := t.fabric.Params(1)
	if err != nil {
		return nil, err
	}
	transport := t.fabric.Transport()
	return &expect.Fabric{
		Params: params, Transport: &transport, Tables: t.fabric.JitterTables(), Seed: t.fabric.Config.Seed, Node: t.node,
		Path: func(c expect.Conn) (path []link.PathHop, reverse []int, err error) {
			src, dst, err := t.ends(c, nics)
			if err != nil {
				return nil, nil, err
			}
			return t.fabric.Path(src, dst), t.fabric.Reverse(src, dst), nil
		},
	}, nil
}

// ends are the NICs that a connection goes from and to.
func (t *Times) ends(c expect.Conn, nics map[nccllog.Pair]nccllog.NICs) (src, dst int, err error) {
	per := t.fabric.Config.NICsPerNode
	if per == 1 {
		return t.fabric.NIC(t.node(c.Src), 0), t.fabric.NIC(t.node(c.Dst), 0), nil
	}
	n, known := nics[nccllog.Pair{From: c.Src, To: c.Dst, Channel: c.Channel, P2P: c.P2P}]
	if !known || n.Send < 0 || n.Send >= per || n.Receive < 0 || n.Receive >= per {
		return 0, 0, fmt.Errorf("NCCL's log does not tell the NICs of channel %d from rank %d to %d: unset NCCL_DEBUG", c.Channel, c.Src, c.Dst)
	}
	return t.fabric.NIC(t.node(c.Src), n.Send), t.fabric.NIC(t.node(c.Dst), n.Receive), nil
}
