// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Setting is one value of a fabric that a flag, --set or a variable may give over the profile or file.
type Setting struct {
	Flag  string // without the dashes; only a daily setting's flag can be given
	Env   string // variable; "" = none
	Usage string // with the value's name in backquotes
	Field string // what it sets, as in a fabric file
	Bare  string // the value of a flag that is given without one; "" = it needs one
	Daily bool   // it has a flag of its own beside --set

	apply func(*Fabric, string) error
}

// daily are the flags of the settings that people give every day.
var daily = []string{"nodes", "gpu", "clock", "bw", "lat"}

// Spelling is how a user gives the setting: --nodes or --set link.jitter.
func (s *Setting) Spelling() string {
	if s.Daily {
		return "--" + s.Flag
	}
	return "--" + SetFlag + " " + s.Field
}

// settings are in the order of a command's help.
var settings = append([]Setting{
	fabricSetting("nodes", "nodes", "number of emulated `nodes`", func(f *Fabric) *int { return &f.Nodes },
		whole(1, MaxNodes)),
	fabricSetting("gpus-per-node", "gpus_per_node",
		"`GPUs`, that is ranks, per node (default: the job's ranks / nodes)",
		func(f *Fabric) *int { return &f.GPUsPerNode }, positive(MaxGPUsPerNode)),
	nicsSetting(),
	fabricSetting("node-gpus", "node.gpus",
		"`GPUs` that a node has, of which the job uses --set gpus_per_node=(default: as many as it uses, or as the node "+
			"has NICs)", func(f *Fabric) *int { return &f.Node.GPUs }, positive(MaxGPUsPerNode)),
	gpuSetting(),
	nodeTimeSetting(),
	fabricSetting("nvlink", "nvlink",
		"`how` NVLinks connect the GPUs of a node: switch, mesh (each pair directly) or none (default: as the kind's "+
			"usually do)", func(f *Fabric) *string { return &f.NVLink }, ParseNVLink),
	fabricSetting("nvlink-domain", "nvlink_domain",
		"`GPUs` that NVLinks connect, of several nodes if it is more than a node has (default: as many as the kind's "+
			"usually do)", func(f *Fabric) *int { return &f.NVLinkDomain }, positive(MaxNVLinkDomain)),
	fabricSetting("nvlinks-per-gpu", "nvlinks_per_gpu", "`NVLinks` of each software GPU to its node's NVSwitches",
		func(f *Fabric) *int { return &f.NVLinksPerGPU }, whole(0, MaxNVLinks)),
	fabricSetting("cpu", "cpu",
		"`vendor` of the CPUs of software GPUs, on which NCCL's choice for small calls depends: amd, intel or host "+
			"(this machine's)", func(f *Fabric) *string { return &f.CPU }, ParseCPU),
	transportSetting(),
	congestionSetting(),
	fabricSetting("ecmp", "topology.ecmp",
		"`what` switches draw one of several equally short paths for: pair (of NICs) or flow (each connection takes "+
			"its own)", func(f *Fabric) *string { return &f.Topology.ECMP }, ParseECMP),
	fabricSetting("seed", "seed", "`seed` of the random draws", func(f *Fabric) *uint64 { return &f.Seed }, ParseSeed),
	fabricSetting("time-scale", "time_scale", "run `k` times slower than what is emulated: 1 to 1024, or auto",
		func(f *Fabric) *int { return &f.TimeScale }, ParseTimeScale),
	fabricSetting("clock", "clock",
		"`clock` of the fabric: real, or virtual (exact; needs the software CUDA and datapath shm)",
		func(f *Fabric) *string { return &f.Clock }, ParseClock),
	fabricSetting("datapath", "datapath",
		"`how` bytes move: shm (memory of the ranks) or kernel (TCP between network namespaces; needs root)",
		func(f *Fabric) *string { return &f.Datapath }, ParseDatapath),
	fabricSetting("shaper", "shaper", "`shaper` of the kernel datapath: auto, edt, netem, htb or wire",
		func(f *Fabric) *string { return &f.Shaper }, ParseShaper),
	fabricSetting("subnet", "subnet",
		"IPv4 `network` of the kernel datapath's nodes, 16 bits (default: 10.77.0.0/16, or the next that is free)",
		func(f *Fabric) *string { return &f.Subnet }, ParseSubnet),
	fabricSetting("nccl-view", "nccl_view",
		"`what` NCCL decides by: fabric (nodes with the fabric's NICs) or host (this machine)",
		func(f *Fabric) *string { return &f.NCCLView }, ParseNCCLView),
	fabricSetting("nccl-latency", "nccl.latency",
		"`latency` of the NICs that NCCL decides by: a duration, or link for the links' latency (default: what the "+
			"real net tells NCCL, mostly 0)", func(f *Fabric) *ShownLatency { return &f.NCCL.Latency },
		ParseShownLatency),
}, linkSettings()...)

// linkSettings are the settings of linkParams.
func linkSettings() (all []Setting) {
	for _, m := range linkParams {
		if m.Flag == "" {
			continue
		}
		s := newSetting(m.Flag, "link."+m.Key, m.Usage)
		if m.ShapeOnly {
			s.Env = ""
		}
		s.apply = func(f *Fabric, text string) error {
			var p LinkPatch
			err := m.Set(&p, text)
			f.shape(p)
			return err
		}
		all = append(all, s)
	}
	return all
}

// Settings are all settings that Load knows, in the order of a command's help.
func Settings() []Setting { return slices.Clone(settings) }

func newSetting(flag, field, usage string) Setting {
	env := "DDLEMU_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
	return Setting{Flag: flag, Env: env, Usage: usage, Field: field, Daily: slices.Contains(daily, flag)}
}

func fabricSetting[T any](flag, name, usage string, dst func(*Fabric) *T, parse func(string) (T, error)) Setting {
	s := newSetting(flag, name, usage)
	s.apply = func(f *Fabric, text string) error { return assign(dst(f), parse, text) }
	return s
}

func nicsSetting() Setting {
	s := newSetting("nics-per-node", "nics_per_node", "`NICs` per node")
	s.apply = func(f *Fabric, text string) error {
		before := f.NICsPerNode
		err := assign(&f.NICsPerNode, whole(1, MaxNICsPerNode), text)
		if f.NICsPerNode != before {
			f.Node = Node{} // it described a node with other NICs
		}
		return err
	}
	return s
}

func transportSetting() Setting {
	s := newSetting("transport", "transport", "`transport` above the links: tcp or rdma")
	s.apply = func(f *Fabric, text string) error {
		if text != TCP && text != RDMA {
			return fmt.Errorf("%q is not one of %s, %s", text, TCP, RDMA)
		}
		if text != f.Transport.Kind {
			f.NCCL = NCCL{} // the net of the other kind
		}
		f.Transport.setKind(text)
		return nil
	}
	return s
}

// gpuSetting comes before the settings of a GPU's parts.
func gpuSetting() Setting {
	s := newSetting("gpu", "gpu",
		"`kind` of GPU that the software CUDA shows: a name of ddlemu gpus, or a file (default: compute capability 8.0)")
	s.apply = func(f *Fabric, text string) error {
		g, err := LoadGPU(text, "")
		if err == nil && !reflect.DeepEqual(g, f.GPU) { // what f says of the same kind stays
			f.setGPU(g)
		}
		return err
	}
	return s
}

// nodeTimeSetting comes after gpuSetting: a kind of GPU has the times.
func nodeTimeSetting() Setting {
	s := fabricSetting("node-time", "node_time",
		"`on` or off: launches, kernels and the links within a node take the time of the fabric's kind of GPU (default: "+
			"on with a system, else off)", func(f *Fabric) *bool { return &f.NodeTime }, ParseOnOff)
	s.Bare = "on"
	return s
}

// congestionSetting comes after transportSetting, which starts from the defaults of its kind.
func congestionSetting() Setting {
	s := newSetting("congestion", "transport.congestion", "congestion `control` of tcp: cubic, reno or none")
	s.apply = func(f *Fabric, text string) error { return assign(&f.Transport.Congestion, ParseCongestion, text) }
	return s
}

// Check returns an error if text cannot be the setting's value.
func (s *Setting) Check(text string) error {
	f := Default()
	return s.apply(&f, text)
}
