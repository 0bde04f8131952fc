// SPDX-License-Identifier: Apache-2.0

// Package astrasim reads network files of the analytical back end of ASTRA-sim: YAML, and the JSON of ASTRA-sim 1.0.
//
// A network has dimensions, each a Ring, FullyConnected or Switch of so many NPUs. With one dimension, each NPU is a
// node. With two, the first dimension is within a node and the second joins the nodes, unless both are rings: that is
// a torus of NPUs, each a node.
//
// Layout: astra-network-analytical 599a047, common/network-parser/NetworkParser.cpp; for JSON its README of version
// 1.0.
package astrasim

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/importer/found"
	"github.com/ddlemu/ddlemu/configs/topology"
	"github.com/ddlemu/ddlemu/configs/units"
)

// Kinds of files, for people.
const (
	Kind     = "network of ASTRA-sim (analytical)"
	JSONKind = "network of ASTRA-sim 1.0 (JSON)"
)

// Bytes of a GB. ASTRA-sim takes 2^30 (common/NetworkFunction.cpp); version 1.0 divides bytes by GB/s to get ns
// (src/topology/Topology.cc), which is 10^9.
const (
	gibi = 1 << 30
	giga = 1e9
)

// Building blocks.
const (
	ring      = "Ring"
	full      = "FullyConnected"
	star      = "Switch"
	allBlocks = "Ring, FullyConnected and Switch"
)

// dimension is one dimension of a network.
type dimension struct {
	block    string
	npus     int
	rate     units.Bandwidth // of each link
	perLink  float64         // GB/s, as the file has it
	hop, end float64         // ns: latency of a link, and what a message has besides its hops
}

// network is a file. Its keys differ between YAML and JSON.
type network struct {
	dims  []dimension
	notes []string
}

// Read reads YAML.
func Read(text string, o found.Options) (*found.Fabric, error) {
	var root map[string]yaml.Node
	if err := yaml.Unmarshal([]byte(text), &root); err != nil {
		return nil, fmt.Errorf("is not YAML: %s", strings.Join(strings.Fields(err.Error()), " "))
	}
	lists := map[string][]string{}
	for _, key := range []string{"topology", "npus_count", "bandwidth", "latency"} {
		n, ok := root[key]
		if !ok {
			return nil, fmt.Errorf("has no %s: a network of ASTRA-sim has topology, npus_count, bandwidth and latency",
				key)
		}
		if err := n.Decode(new([]string)); err != nil || n.Kind != yaml.SequenceNode {
			return nil, fmt.Errorf("line %d: %s must be a list, such as [Switch]", n.Line, key)
		}
		for _, e := range n.Content {
			lists[key] = append(lists[key], e.Value)
		}
	}
	var n network
	if err := n.fill(lists["topology"], lists["npus_count"], lists["bandwidth"], lists["latency"], gibi); err != nil {
		return nil, err
	}
	for key := range root {
		if lists[key] == nil {
			n.notes = append(n.notes, key+" is not a key of ASTRA-sim's network: it counts for nothing")
		}
	}
	slices.Sort(n.notes)
	n.notes = append(n.notes, "a GB/s is 2^30 bytes per second, as ASTRA-sim computes it")
	return n.fabric(Kind, o)
}

// ReadJSON reads the JSON of version 1.0.
func ReadJSON(text string, o found.Options) (*found.Fabric, error) {
	var j struct {
		Topologies []string      `json:"topologies-per-dim"`
		Units      []json.Number `json:"units-count"`
		Links      []json.Number `json:"links-count"`
		Latency    []json.Number `json:"link-latency"`
		Bandwidth  []json.Number `json:"link-bandwidth"`
		NIC        []json.Number `json:"nic-latency"`
		Router     []json.Number `json:"router-latency"`
		Logical    []string      `json:"logical-dims"`
	}
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return nil, fmt.Errorf("is not JSON of ASTRA-sim: %w", err)
	}
	if j.Logical != nil {
		return nil, fmt.Errorf(
			"has only logical-dims %v, by which ASTRA-sim's ns-3 back end groups NPUs: import its physical "+
				"topology, the file that TOPOLOGY_FILE of its configuration names", j.Logical)
	}
	var n network
	if err := n.fill(j.Topologies, strs(j.Units), strs(j.Bandwidth), strs(j.Latency), giga); err != nil {
		return nil, err
	}
	for i := range n.dims {
		if err := n.dims[i].version1(at(j.Links, i), at(j.NIC, i), at(j.Router, i)); err != nil {
			return nil, fmt.Errorf("dimension %d: %w", i+1, err)
		}
	}
	n.notes = append(n.notes,
		"hbm-latency, hbm-bandwidth and hbm-scale, if given, are of memory and not of the network")
	return n.fabric(JSONKind, o)
}

func strs(numbers []json.Number) []string {
	var all []string
	for _, n := range numbers {
		all = append(all, n.String())
	}
	return all
}

// at is element i, or "" if the list is shorter.
func at(list []json.Number, i int) string {
	if i < len(list) {
		return list[i].String()
	}
	return ""
}

// fill sets the dimensions. gb is the bytes of a GB.
func (n *network) fill(blocks, npus, rates, latencies []string, gb float64) error {
	if len(blocks) == 0 {
		return errors.New("has no dimensions: topology must have 1 or more of " + allBlocks)
	}
	for _, l := range [][]string{npus, rates, latencies} {
		if len(l) != len(blocks) {
			return fmt.Errorf(
				"has %s but %d NPU counts, %d bandwidths and %d latencies: must have one of each for each dimension",
				units.Count(len(blocks), "dimension"), len(npus), len(rates), len(latencies))
		}
	}
	for i, block := range blocks {
		d := dimension{block: block}
		if !slices.Contains([]string{ring, full, star}, block) {
			return fmt.Errorf("dimension %d is %q: there are %s", i+1, block, allBlocks)
		}
		var err error
		if d.npus, err = strconv.Atoi(npus[i]); err != nil || d.npus < 2 || d.npus > 1<<20 {
			return fmt.Errorf("dimension %d has %q NPUs: must be a number from 2 on", i+1, npus[i])
		}
		d.perLink, err = strconv.ParseFloat(rates[i], 64)
		bits := math.Round(d.perLink * gb * 8)
		if err != nil || !(bits >= float64(configs.MinBandwidth) && bits <= float64(configs.MaxBandwidth)) {
			return fmt.Errorf("dimension %d has a bandwidth of %q GB/s: must be a number from %v to %v", i+1, rates[i],
				configs.MinBandwidth, configs.MaxBandwidth)
		}
		d.rate = units.Bandwidth(bits)
		if d.hop, err = nanoseconds(latencies[i]); err != nil {
			return fmt.Errorf("dimension %d: latency %w", i+1, err)
		}
		n.dims = append(n.dims, d)
	}
	return nil
}

func nanoseconds(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0 && v <= float64(configs.MaxLatency)) {
		return 0, fmt.Errorf("%q is not a number of nanoseconds from 0 to %d", s, configs.MaxLatency)
	}
	return v, nil
}

// whole is a time in whole nanoseconds. It notes what that changes.
func whole(out *found.Fabric, ns float64) time.Duration {
	d := math.Round(ns)
	if d != ns {
		out.Note("a latency of %g ns is rounded to %v", ns, time.Duration(d))
	}
	return time.Duration(d)
}

// version1 adds what only version 1.0 has: so many links of each NPU, and the latencies of NICs and switches.
func (d *dimension) version1(links, nic, router string) error {
	least := map[string]int{ring: 2, full: d.npus - 1, star: 1}[d.block]
	if links != "" {
		n, err := strconv.Atoi(links)
		if err != nil || n < least || n%least != 0 {
			return fmt.Errorf("has %q links for each NPU of a %s: must be a multiple of %d", links, d.block, least)
		}
		if times := units.Bandwidth(n / least); times <= configs.MaxBandwidth/d.rate {
			d.rate *= times
		} else {
			return fmt.Errorf("has %s of %v for each NPU: a fabric has at most %v", units.Count(n, "link"), d.rate,
				configs.MaxBandwidth)
		}
	}
	if nic != "" {
		v, err := nanoseconds(nic)
		if err != nil {
			return fmt.Errorf("nic-latency %w", err)
		}
		d.end += 2 * v
	}
	if router != "" {
		v, err := nanoseconds(router)
		switch {
		case err != nil:
			return fmt.Errorf("router-latency %w", err)
		case v != 0 && d.block != star:
			return fmt.Errorf("has a router-latency of %g, and is a %s without switches", v, d.block)
		}
		d.end += v
	}
	return nil
}

// fabric is the network as a fabric.
func (n *network) fabric(kind string, o found.Options) (*found.Fabric, error) {
	out := o.Start(kind)
	out.Notes = append(out.Notes, n.notes...)
	if len(n.dims) == 1 {
		out.Note("each NPU is a node with one GPU and one NIC, so NCCL decides as between nodes")
	}
	for i, d := range n.dims {
		out.Say("dimension %d: %s of %d NPUs, %g GB/s (%v) and %g ns for each link", i+1, d.block, d.npus, d.perLink,
			d.rate, d.hop)
	}
	c := &out.Config
	// The rates are of payload: the back end has no packets.
	c.Link.MTU, c.Link.Header, c.Link.Framing = configs.MaxMTU, 0, 0
	c.Link.Loss, c.Links, c.Topology, c.NICsPerNode = configs.Loss{}, nil, configs.Topology{}, 1
	c.NCCL.Speed = 0
	outer := n.dims[len(n.dims)-1]
	c.Nodes = outer.npus
	var err error
	switch {
	case len(n.dims) > 2:
		return nil, fmt.Errorf("has %d dimensions: a fabric has one within nodes and one between them", len(n.dims))
	case len(n.dims) == 1:
		c.Node.GPUs, c.GPUsPerNode = 1, 1
		err = outer.join(out)
	case n.dims[0].block == ring && outer.block == ring && outer.npus > 2:
		c.Node.GPUs, c.GPUsPerNode = 1, 1
		err = torus(out, n.dims)
	default:
		err = n.nodes(out)
	}
	if err != nil {
		return nil, err
	}
	if o.Nodes > 0 && o.Nodes != c.Nodes {
		if outer.block != star || o.Nodes > c.Nodes || !c.Topology.IsStar() {
			return nil, fmt.Errorf("--nodes %d: the file has %d, and only of a Switch can a job use fewer", o.Nodes,
				c.Nodes)
		}
		out.Note("the first %d of %s", o.Nodes, units.Count(c.Nodes, "node"))
		c.Nodes = o.Nodes
	}
	if total := c.Nodes * c.NICsPerNode; total > configs.MaxNICs {
		return nil, fmt.Errorf("the network has %d NPUs, each with a NIC: a fabric has at most %d NICs", total,
			configs.MaxNICs)
	}
	return out, nil
}

// nodes makes the first dimension the inside of nodes, with a NIC for each NPU. NPUs of the same number are joined.
func (n *network) nodes(out *found.Fabric) error {
	inner, outer, c := n.dims[0], n.dims[1], &out.Config
	c.NICsPerNode, c.Node.GPUs, c.GPUsPerNode = inner.npus, inner.npus, inner.npus
	for i := range inner.npus {
		c.NICOfGPU = append(c.NICOfGPU, i)
	}
	out.Note("dimension 1, %s of %v, is within nodes: in a fabric, traffic within a node takes no time", inner.block,
		inner.rate)
	if c.NVLinksPerGPU == 0 {
		out.Miss("nvlinks-per-gpu", "the NVLinks of a GPU, by which NCCL decides within a node")
	}
	out.Note("dimension 2 joins NPUs of the same number only; in the fabric NICs of other numbers reach each other too")
	return outer.join(out)
}

// join joins the NICs of the same number, or all if there is one for each node.
func (d *dimension) join(out *found.Fabric) error {
	c := &out.Config
	switch {
	case d.block == star:
		c.Link.Bandwidth, c.Link.Latency = d.rate, whole(out, 2*d.hop+d.end)
	case d.block == full || d.npus == 2:
		// Each NPU has a link of its own to each other one.
		total := uint64(d.rate) * uint64(d.npus-1)
		if total > uint64(configs.MaxBandwidth) {
			return fmt.Errorf("%s of %d NPUs with links of %v: a NIC has then %v, a fabric's at most %v", d.block,
				d.npus, d.rate, units.Bandwidth(total), configs.MaxBandwidth)
		}
		c.Link.Bandwidth, c.Link.Latency = units.Bandwidth(total), whole(out, d.hop+d.end)
		if rate := d.rate; d.npus > 2 {
			c.Links = []configs.LinkOverride{{Match: "*:*", LinkPatch: configs.LinkPatch{Bandwidth: &rate}}}
		}
	case c.NICsPerNode > 1:
		return fmt.Errorf(
			"dimension 2 is a Ring of %d nodes for each of %d NICs: a fabric has rings of nodes with one NIC", d.npus,
			c.NICsPerNode)
	default:
		return ringOf(out, topology.Ring, nil, *d)
	}
	return nil
}

// torus joins NPUs by rings in each dimension.
func torus(out *found.Fabric, dims []dimension) error {
	var size []int
	nodes := 1
	for _, d := range dims {
		if d.rate != dims[0].rate || d.hop != dims[0].hop || d.end != dims[0].end {
			return errors.New(
				"is a torus whose dimensions have links of different bandwidth or latency: the links of a fabric's torus " +
					"are all alike")
		}
		size, nodes = append(size, d.npus), nodes*d.npus
	}
	out.Config.Nodes = nodes
	return ringOf(out, topology.Torus, size, dims...)
}

// ringOf joins NPUs with their neighbours: 2 links of each NPU in each dimension.
func ringOf(out *found.Fabric, kind string, size []int, dims ...dimension) error {
	c, d := &out.Config, dims[0]
	total := uint64(d.rate) * 2 * uint64(len(dims))
	if total > uint64(configs.MaxBandwidth) {
		return fmt.Errorf("%s links of %v for each NPU: a NIC has then %v, a fabric's at most %v",
			strconv.Itoa(2*len(dims)), d.rate, units.Bandwidth(total), configs.MaxBandwidth)
	}
	c.Link.Bandwidth, c.Link.Latency = units.Bandwidth(total), whole(out, d.end)
	latency := whole(out, d.hop)
	c.Topology = configs.Topology{Kind: kind, Dims: size,
		Trunk: configs.LinkPatch{Bandwidth: &d.rate, Latency: &latency}}
	return nil
}
