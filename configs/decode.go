// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"errors"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ddlemu/ddlemu/configs/units"
)

func decode(file string, data []byte) (*Fabric, origins, error) {
	d := &decoder{file: file, origin: origins{"": file}, what: fabricFile}
	root, err := d.document(data)
	if err != nil {
		return nil, nil, err
	}
	f, err := d.base(root)
	if err != nil {
		return nil, nil, err
	}
	if err := d.mapping("", root, d.fabric(f)); err != nil {
		return nil, nil, err
	}
	for _, key := range []string{"link.bandwidth", "link.latency"} {
		if baseOf(root) == nil && d.origin[key] == "" {
			return nil, nil,
				&Error{Where: file, Field: key, Err: errors.New("missing: give it, or name a profile as base")}
		}
	}
	return f, d.origin, nil
}

// base is the fabric that the file changes: the profile that it names, or Default.
func (d *decoder) base(root *yaml.Node) (*Fabric, error) {
	f := Default()
	name, _, _ := strings.Cut(filepath.Base(d.file), ".")
	if validName(name) {
		f.Name = name
	}
	value := baseOf(root)
	if value == nil {
		return &f, nil
	}
	p, err := Profile(value.Value)
	if err != nil {
		return nil, d.errorf("base", value, "%w", err)
	}
	p.Name, p.Description = f.Name, ""
	if valueOf(root, "gpu") != nil {
		p.setGPU(nil) // the base is about another kind
	}
	return p, nil
}

// baseOf is the value of the key base, nil if there is none.
func baseOf(root *yaml.Node) *yaml.Node { return valueOf(root, "base") }

// valueOf is the value of a key of the file, nil if there is none.
func valueOf(root *yaml.Node, key string) *yaml.Node {
	for i := 0; i < len(root.Content); i += 2 {
		if root.Content[i].Value == key {
			return resolve(root.Content[i+1])
		}
	}
	return nil
}

func (d *decoder) fabric(f *Fabric) []field {
	return []field{
		{"base", func(string, *yaml.Node) error { return nil }}, // read first, by base
		{"name", scalar(d, &f.Name, text)},
		{"description", scalar(d, &f.Description, text)},
		{"sources", d.texts(&f.Sources)},
		{"fitted_to", values(d, &f.FittedTo, ParseFittedRows)},
		{"nodes", scalar(d, &f.Nodes, whole(1, MaxNodes))},
		{"gpus_per_node", scalar(d, &f.GPUsPerNode, positive(MaxGPUsPerNode))},
		{"nics_per_node", scalar(d, &f.NICsPerNode, whole(1, MaxNICsPerNode))},
		{"node", d.section([]field{
			{"gpus", scalar(d, &f.Node.GPUs, positive(MaxGPUsPerNode))},
			{"pci_switches", scalar(d, &f.Node.PCISwitches, positive(MaxNICsPerNode))},
			{"gpu_slot", scalar(d, &f.Node.GPUSlot, units.ParseBandwidth)},
		})},
		{"link", d.link(&f.Link)},
		{"links", list(d, &f.Links, func(o *LinkOverride) []field {
			return append([]field{{"match", scalar(d, &o.Match, text)}}, o.fields(d)...)
		})},
		{"topology", d.topology(&f.Topology)},
		{"faults", d.faults(&f.Faults)},
		{"nccl", d.nccl(&f.NCCL)},
		{"nccl_view", scalar(d, &f.NCCLView, ParseNCCLView)},
		{"gpudirect", optional(d, &f.GPUDirect, parseBool)},
		{"gpu", d.kindOfGPU(&f.GPU)},
		{"node_time", scalar(d, &f.NodeTime, ParseOnOff)},
		{"timed_nodes", scalar(d, &f.TimedNodes, parseBool)},
		{"nvlink", scalar(d, &f.NVLink, ParseNVLink)},
		{"nvlink_domain", scalar(d, &f.NVLinkDomain, positive(MaxNVLinkDomain))},
		{"cpu", scalar(d, &f.CPU, ParseCPU)},
		{"nvlinks_per_gpu", scalar(d, &f.NVLinksPerGPU, whole(0, MaxNVLinks))},
		{"nic_of_gpu", d.ints(&f.NICOfGPU)},
		{"transport", d.transport(&f.Transport)},
		{"endpoint", d.section([]field{
			{"overhead", scalar(d, &f.Endpoint.Overhead, ParseDuration)},
			{"gap", scalar(d, &f.Endpoint.Gap, ParseDuration)},
		})},
		{"nic_time", d.nicTime(&f.NICTime)},
		{"host", d.section([]field{
			{"per_message", scalar(d, &f.Host.PerMessage, ParseDuration)},
			{"copy", scalar(d, &f.Host.Copy, units.ParseBandwidth)},
		})},
		{"jitter_table", values(d, &f.JitterTable, parseFloat)},
		{"seed", scalar(d, &f.Seed, ParseSeed)},
		{"time_scale", scalar(d, &f.TimeScale, ParseTimeScale)},
		{"clock", scalar(d, &f.Clock, ParseClock)},
		{"datapath", scalar(d, &f.Datapath, ParseDatapath)},
		{"shaper", scalar(d, &f.Shaper, ParseShaper)},
		{"subnet", scalar(d, &f.Subnet, ParseSubnet)},
	}
}

// nccl reads the keys of n that the file gives. Its variables replace all of the base's.
func (d *decoder) nccl(n *NCCL) func(string, *yaml.Node) error {
	return d.section([]field{
		{"net", scalar(d, &n.Net, ParseNet)},
		{"latency", scalar(d, &n.Latency, ParseShownLatency)},
		{"speed", scalar(d, &n.Speed, units.ParseBandwidth)},
		{"variables", d.variables(&n.Variables)},
		{"tuner", func(path string, node *yaml.Node) error {
			n.Tuner = new(Tuner)
			return d.mapping(path, node, []field{
				{"name", scalar(d, &n.Tuner.Name, text)},
				{"nodes", scalar(d, &n.Tuner.Nodes, whole(1, MaxNodes))},
				{"collectives", d.texts(&n.Tuner.Collectives)},
			})
		}},
	})
}

// variables reads names and values.
func (d *decoder) variables(dst *map[string]string) func(string, *yaml.Node) error {
	return func(path string, n *yaml.Node) error {
		*dst = map[string]string{}
		var keys []field
		if n = resolve(n); n.Kind == yaml.MappingNode {
			for i := 0; i < len(n.Content); i += 2 {
				name := n.Content[i].Value
				keys = append(keys, field{name, d.scalar(func(text string) error { (*dst)[name] = text; return nil })})
			}
		}
		return d.mapping(path, n, keys)
	}
}

// link reads the keys of l that the file gives.
func (d *decoder) link(l *Link) func(string, *yaml.Node) error {
	return func(path string, n *yaml.Node) error {
		var p LinkPatch
		err := d.mapping(path, n, p.fields(d))
		p.Apply(l)
		return err
	}
}

// transport reads the kind first: another kind than the base's starts from the defaults
// of that kind.
func (d *decoder) transport(t *Transport) func(string, *yaml.Node) error {
	return func(path string, n *yaml.Node) error {
		n = resolve(n)
		for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
			if n.Content[i].Value == "kind" {
				d.note(path+".kind", n.Content[i+1])
				t.setKind(resolve(n.Content[i+1]).Value)
			}
		}
		keys := []field{
			{"kind", scalar(d, &t.Kind, text)},
			{"rto", scalar(d, &t.RTO, ParseDuration)},
			{"send_buffer", d.onlyFor(TCP, t, scalar(d, &t.SendBuffer, units.ParseSize))},
			{"window", d.onlyFor(TCP, t, scalar(d, &t.Window, units.ParseSize))},
			{"timeout", d.onlyFor(TCP, t, scalar(d, &t.Timeout, ParseDuration))},
			{"congestion", d.onlyFor(TCP, t, scalar(d, &t.Congestion, ParseCongestion))},
			{"retry_count", d.onlyFor(RDMA, t, scalar(d, &t.RetryCount, whole(1, MaxRetryCount)))},
			{"recovery", d.onlyFor(RDMA, t, scalar(d, &t.Recovery, text))},
			{"rails", d.onlyFor(RDMA, t, scalar(d, &t.Rails, whole(1, MaxRails)))},
			{"min_stripe", d.onlyFor(RDMA, t, scalar(d, &t.MinStripe, units.ParseSize))},
		}
		return d.mapping(path, n, keys)
	}
}

// onlyFor refuses a field that t's kind of transport lacks.
func (d *decoder) onlyFor(kind string, t *Transport, read func(string, *yaml.Node) error) func(string,
	*yaml.Node) error {
	return func(path string, n *yaml.Node) error {
		if t.Kind != kind {
			return d.errorf(path, n, "%q given for transport %s: only %s has it", n.Value, t.Kind, kind)
		}
		return read(path, n)
	}
}

func text(s string) (string, error) { return s, nil }
