// SPDX-License-Identifier: Apache-2.0

// Package simai reads network topologies of SimAI and of the ns-3 back end of ASTRA-sim, which is HPCC's. Both are
// text: a first line of counts, the numbers of the switches, and a line for each link:
//
//	SimAI:  nodes GPUs_per_server NVSwitches switches links GPU_type
//	ns-3:   nodes switches links
//	source destination rate latency error_rate
//
// Layout: SimAI cef83f9, astra-sim-alibabacloud/inputs/topo/gen_Topo_Template.py; astra-network-ns3 8fd3604,
// scratch/common.h. error_rate is the probability that the receiver of a link drops a packet.
package simai

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/importer/found"
	"github.com/ddlemu/ddlemu/configs/importer/netgraph"
	"github.com/ddlemu/ddlemu/configs/units"
)

// Kinds of files, for people.
const (
	Kind    = "topology of SimAI"
	NS3Kind = "topology of ns-3 (HPCC, ASTRA-sim)"
)

// maxDevices bounds the numbers of GPUs and switches, and so the memory.
const maxDevices = 1 << 20

// Looks reports whether the first line of a file begins a topology.
func Looks(line string) bool {
	_, err := parseHead(strings.Fields(line))
	return err == nil
}

// head is the first line.
type head struct {
	devices, perServer, nvSwitches, switches, links int
	gpu                                             string // type; empty = the file is ns-3's
}

func parseHead(fields []string) (head, error) {
	h := head{perServer: 1}
	dst := []*int{&h.devices, &h.switches, &h.links}
	switch len(fields) {
	case 3:
	case 6:
		h.gpu = fields[5]
		dst = []*int{&h.devices, &h.perServer, &h.nvSwitches, &h.switches, &h.links}
	default:
		return h, fmt.Errorf(
			"has %d fields: a topology of SimAI has 6 (nodes, GPUs per server, NVSwitches, switches, links, GPU "+
				"type), one of ns-3 has 3 (nodes, switches, links)", len(fields))
	}
	for i, p := range dst {
		n, err := strconv.Atoi(fields[i])
		if err != nil || n < 0 || n > 64*maxDevices {
			return h, fmt.Errorf("field %d is %q: must be a count", i+1, fields[i])
		}
		*p = n
	}
	if h.devices > maxDevices {
		return h, fmt.Errorf("names %d nodes: at most %d", h.devices, maxDevices)
	}
	if h.perServer == 0 || h.devices <= h.switches+h.nvSwitches {
		return h, fmt.Errorf("names %d nodes, of which %d are switches: no GPU is left", h.devices,
			h.switches+h.nvSwitches)
	}
	return h, nil
}

// Kinds of devices.
const (
	gpu = iota
	netSwitch
	nvSwitch
)

// cable is a line of the list of links.
type cable struct {
	a, b int
	netgraph.Link
}

// file is a topology as it was read.
type file struct {
	head
	kind   []int // of each device
	cables []cable
}

// Read reads a topology. settings are from the simulator's .conf; the zero value if there is none.
func Read(text string, settings Settings, o found.Options) (*found.Fabric, error) {
	f, err := parse(text)
	if err != nil {
		return nil, err
	}
	kind := Kind
	if f.gpu == "" {
		kind = NS3Kind
	}
	out := o.Start(kind)
	g, err := f.graph(out, settings)
	if err != nil {
		return nil, err
	}
	out.Say("%s of %s, %s, %s, %s", units.Count(g.Nodes, "node"), units.Count(f.perServer, "GPU"),
		units.Count(f.switches, "switch"), units.Count(f.nvSwitches, "NVSwitch"), units.Count(len(f.cables), "link"))
	if err := g.Take(o.Nodes, "node", out); err != nil {
		return nil, err
	}
	if err := g.Apply(out); err != nil {
		return nil, err
	}
	f.hardware(out, g)
	settings.apply(out)
	return out, nil
}

// parse reads the text. Lists of numbers may stand on several lines, as the simulators read them.
func parse(text string) (*file, error) {
	s := &scanner{rest: text}
	first := s.line()
	for first != "" && strings.TrimSpace(first) == "" {
		first = s.line()
	}
	h, err := parseHead(strings.Fields(first))
	if err != nil {
		return nil, fmt.Errorf("line %d %w", s.number, err)
	}
	f := &file{head: h, kind: make([]int, h.devices)}
	for i := range h.nvSwitches + h.switches {
		id, err := s.device(h.devices)
		if err != nil {
			return nil, fmt.Errorf("switch %d of %d: %w", i+1, h.nvSwitches+h.switches, err)
		}
		if f.kind[id] != gpu {
			return nil, fmt.Errorf("line %d: switch %d is listed twice", s.number, id)
		}
		f.kind[id] = netSwitch
		if i < h.nvSwitches {
			f.kind[id] = nvSwitch
		}
	}
	for i := range h.links {
		c, err := s.cable(h.devices)
		if err != nil {
			return nil, fmt.Errorf("link %d of %d: %w", i+1, h.links, err)
		}
		f.cables = append(f.cables, c)
	}
	if word := s.word(); word != "" {
		return nil, fmt.Errorf(
			"line %d: %q follows the %d links that line 1 names, after which the simulator reads no more: if the "+
				"rest belongs to the network, correct line 1",
			s.number, word, h.links)
	}
	return f, nil
}

// graph is the network of f between its servers.
func (f *file) graph(out *found.Fabric, settings Settings) (*netgraph.Graph, error) {
	gpus := f.devices - f.switches - f.nvSwitches
	if gpus%f.perServer != 0 {
		return nil, fmt.Errorf("has %d GPUs, which are not a multiple of the %d of each server", gpus, f.perServer)
	}
	g := &netgraph.Graph{Nodes: gpus / f.perServer}
	number := make([]int, f.devices) // of each GPU and of each switch among their own
	count := [3]int{}
	for id, kind := range f.kind {
		number[id] = count[kind]
		count[kind]++
		if kind == netSwitch {
			g.Switches = append(g.Switches, fmt.Sprintf("switch%d", id))
		}
	}
	for id, kind := range f.kind {
		if kind == gpu && number[id] != id {
			out.Note("GPUs are numbered by their order: %d of the file is GPU %d of all", id, number[id])
			break
		}
	}
	ports := make([][]netgraph.Port, gpus)
	var nv []netgraph.Link
	for _, c := range f.cables {
		if c.Loss == 0 {
			c.Loss = settings.Loss
		}
		if f.kind[c.a] > f.kind[c.b] {
			c.a, c.b = c.b, c.a
		}
		switch [2]int{f.kind[c.a], f.kind[c.b]} {
		case [2]int{gpu, nvSwitch}:
			nv = append(nv, c.Link)
		case [2]int{gpu, netSwitch}:
			ports[number[c.a]] = append(ports[number[c.a]], netgraph.Port{Switch: number[c.b], Link: c.Link})
		case [2]int{netSwitch, netSwitch}:
			g.Trunks = append(g.Trunks, netgraph.Trunk{A: number[c.a], B: number[c.b], Link: c.Link, Back: c.Latency})
		case [2]int{gpu, gpu}:
			return nil, fmt.Errorf(
				"the link from %d to %d joins two GPUs without a switch: a fabric has switches between nodes", c.a,
				c.b)
		default:
			return nil, fmt.Errorf(
				"the link from %d to %d joins NVSwitches with others than GPUs: a fabric's nodes are joined by NICs",
				c.a, c.b)
		}
	}
	for id, p := range ports {
		if len(p) == 0 {
			return nil, fmt.Errorf(
				"GPU %d has no link to a switch other than an NVSwitch: a node of a fabric has a NIC with one", id)
		}
		if len(p) != len(ports[0]) {
			return nil, fmt.Errorf(
				"GPU %d has %s to switches, GPU 0 has %d: a fabric's nodes have the same number of NICs", id,
				units.Count(len(p), "link"), len(ports[0]))
		}
		g.Ports = append(g.Ports, p...)
	}
	g.NICs = f.perServer * len(ports[0])
	if len(nv) > 0 {
		out.Note("%s to NVSwitches, the first of %v and %v: in a fabric, traffic within a node takes no time",
			units.Count(len(nv), "link"), nv[0].Rate, nv[0].Latency)
	}
	return g, nil
}

// nvLinks are the NVLinks of each GPU of a type, by NVIDIA's data sheets.
var nvLinks = map[string]int{"A100": 12, "A800": 8, "H100": 18, "H800": 8, "H200": 18, "H20": 18}

// hardware sets the nodes' GPUs.
func (f *file) hardware(out *found.Fabric, g *netgraph.Graph) {
	c := &out.Config
	c.Node.GPUs, c.GPUsPerNode = f.perServer, f.perServer
	perGPU := g.NICs / f.perServer
	for i := range f.perServer {
		c.NICOfGPU = append(c.NICOfGPU, i*perGPU)
	}
	if perGPU > 1 {
		out.Note(
			"each GPU has %d NICs, each with its own link to a switch: NCCL decides which it uses; the simulator "+
				"spreads flows over them", perGPU)
	}
	if f.nvSwitches == 0 {
		return
	}
	n, known := nvLinks[strings.ToUpper(f.gpu)]
	switch {
	case known:
		c.NVLinksPerGPU = n
		out.Note("nvlinks_per_gpu is %d, those of an %s: the file has the rate of NVLink, not the number of links", n,
			f.gpu)
	case c.NVLinksPerGPU == 0:
		out.Miss("nvlinks-per-gpu", "the NVLinks of a GPU of the type %s", f.gpu)
	}
}

// scanner reads words and counts lines.
type scanner struct {
	rest   string
	words  []string
	number int // of the line
}

// line is the next line with its end; empty at the end of the text.
func (s *scanner) line() string {
	if s.rest == "" {
		return ""
	}
	s.number++
	end := strings.IndexByte(s.rest, '\n')
	if end < 0 {
		end = len(s.rest) - 1
	}
	line := s.rest[:end+1]
	s.rest = s.rest[end+1:]
	return line
}

// word is the next word; empty at the end of the text.
func (s *scanner) word() string {
	for len(s.words) == 0 {
		line := s.line()
		if line == "" {
			return ""
		}
		s.words = strings.Fields(line)
	}
	w := s.words[0]
	s.words = s.words[1:]
	return w
}

// device is the number of a GPU or a switch.
func (s *scanner) device(devices int) (int, error) {
	w := s.word()
	if w == "" {
		return 0, fmt.Errorf("the file ends before it, after line %d", s.number)
	}
	n, err := strconv.Atoi(w)
	if err != nil || n < 0 || n >= devices {
		return 0, fmt.Errorf("line %d: %q is not a node: they are 0 to %d", s.number, w, devices-1)
	}
	return n, nil
}

// cable is a link.
func (s *scanner) cable(devices int) (c cable, err error) {
	if c.a, err = s.device(devices); err != nil {
		return c, err
	}
	if c.b, err = s.device(devices); err != nil {
		return c, err
	}
	words := [3]string{s.word(), s.word(), s.word()}
	if words[2] == "" {
		return c, fmt.Errorf("the file ends within it, at line %d", s.number)
	}
	rate, rateErr := parseRate(words[0])
	latency, timeErr := parseTime(words[1])
	loss, lossErr := parseProbability(words[2])
	if err := cmp.Or(rateErr, timeErr, lossErr); err != nil {
		return c, fmt.Errorf("line %d: %w", s.number, err)
	}
	if c.a == c.b {
		return c, fmt.Errorf("line %d: joins %d with itself", s.number, c.a)
	}
	c.Link = netgraph.Link{Rate: rate, Latency: latency, Loss: loss}
	return c, nil
}

// parseRate reads a rate as ns-3's DataRate has it: bps, b/s, Bps or B/s with a prefix of 1000, or of 1024 (Ki, Mi,
// Gi).
func parseRate(s string) (units.Bandwidth, error) {
	text, factor := s, uint64(1)
	for i, prefix := range []string{"Ki", "Mi", "Gi", "Ti"} {
		if number, unit, ok := strings.Cut(s, prefix); ok {
			text, factor = number+unit, 1<<(10*(i+1))
		}
	}
	b, err := units.ParseBandwidth(text)
	if err != nil || uint64(b) > uint64(configs.MaxBandwidth)/factor {
		return 0, fmt.Errorf("%q is not a rate, such as 400Gbps", s)
	}
	b *= units.Bandwidth(factor)
	if b < configs.MinBandwidth || b > configs.MaxBandwidth {
		return 0, fmt.Errorf("%q is a rate that a fabric cannot have: %v to %v", s, configs.MinBandwidth,
			configs.MaxBandwidth)
	}
	return b, nil
}

// parseTime reads a time as ns-3 writes it, to the nanosecond: a number and a unit, seconds if there is none.
func parseTime(s string) (time.Duration, error) {
	number := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyz")
	scale := map[string]float64{"": 1e9, "s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1, "ps": 1e-3,
		"fs": 1e-6}[s[len(number):]]
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || scale == 0 || !(v >= 0 && v*scale <= float64(configs.MaxLatency)) {
		return 0, fmt.Errorf("%q is not a time from 0 to %v, such as 0.0005ms", s, configs.MaxLatency)
	}
	return time.Duration(v*scale + 0.5), nil
}

func parseProbability(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= 0 && v <= 1) {
		return 0, fmt.Errorf("%q is not an error rate from 0 to 1", s)
	}
	return v, nil
}
