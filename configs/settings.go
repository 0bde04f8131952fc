// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs/units"
)

// Setting is one value of a fabric that a flag or a variable may give over the
// profile or file.
type Setting struct {
	Flag  string // without the dashes
	Env   string // variable
	Usage string // with the value's name in backquotes
	Field string // what it sets, as in a fabric file

	fabric func(*Fabric, string) error    // for settings of the fabric
	link   func(*LinkPatch, string) error // for settings of its links
}

// settings are in the order of a command's help.
var settings = []Setting{
	fabricSetting("nodes", "nodes", "number of emulated `nodes`", func(f *Fabric) *int { return &f.Nodes }, whole(1, MaxNodes)),
	fabricSetting("gpus-per-node", "gpus_per_node", "`GPUs`, that is ranks, per node (default: the job's ranks / nodes)", func(f *Fabric) *int { return &f.GPUsPerNode }, positive(MaxGPUsPerNode)),
	fabricSetting("nics-per-node", "nics_per_node", "`NICs` per node", func(f *Fabric) *int { return &f.NICsPerNode }, whole(1, MaxNICsPerNode)),
	fabricSetting("nvlinks-per-gpu", "nvlinks_per_gpu", "`NVLinks` of each software GPU to its node's NVSwitches", func(f *Fabric) *int { return &f.NVLinksPerGPU }, whole(0, MaxNVLinks)),
	transportSetting(),
	fabricSetting("seed", "seed", "`seed` of the random draws", func(f *Fabric) *uint64 { return &f.Seed }, ParseSeed),
	fabricSetting("time-scale", "time_scale", "run `k` times slower than what is emulated: 1 to 1024, or auto", func(f *Fabric) *int { return &f.TimeScale }, ParseTimeScale),
	fabricSetting("datapath", "datapath", "`how` bytes move: shm (memory of the ranks) or kernel (TCP between network namespaces; needs root)", func(f *Fabric) *string { return &f.Datapath }, ParseDatapath),
	fabricSetting("shaper", "shaper", "`shaper` of the kernel datapath: auto, edt, netem, htb or wire", func(f *Fabric) *string { return &f.Shaper }, ParseShaper),
	fabricSetting("subnet", "subnet", "IPv4 `network` of the kernel datapath's nodes, 16 bits (default: 10.77.0.0/16, or the next that is free)", func(f *Fabric) *string { return &f.Subnet }, ParseSubnet),
	fabricSetting("nccl-view", "nccl_view", "`what` NCCL decides by: fabric (nodes with the fabric's NICs) or host (this machine)", func(f *Fabric) *string { return &f.NCCLView }, ParseNCCLView),
	linkSetting("bw", "bandwidth", "line `rate` of each link: 100Gbps, 25Gbit, 12.5GB/s or unlimited", func(p *LinkPatch) **units.Bandwidth { return &p.Bandwidth }, units.ParseBandwidth),
	linkSetting("lat", "latency", "one-way `latency` of each link: 5us, 1.2ms", func(p *LinkPatch) **time.Duration { return &p.Latency }, ParseDuration),
	linkSetting("jitter", "jitter", "`jitter` of the latency: 2us (standard deviation), uniform:2us, pareto:2us or none", func(p *LinkPatch) **Jitter { return &p.Jitter }, ParseJitter),
	linkSetting("loss", "loss", "packet `loss`: 0.1%, 1e-4, gilbert:P,R[,LOSSBAD[,LOSSGOOD]] or none", func(p *LinkPatch) **Loss { return &p.Loss }, ParseLoss),
	linkSetting("queue", "queue", "`queue` bound and policy: lossless:1M, taildrop:1M, fair:1M or lossless", func(p *LinkPatch) **Queue { return &p.Queue }, ParseQueue),
	linkSetting("ecn", "ecn", "mark packets that find this `size` ahead of them in a queue: 200K or none", func(p *LinkPatch) **units.Size { return &p.ECN }, ParseECN),
}

// Settings are all settings that Load knows, in the order of a command's help.
func Settings() []Setting { return slices.Clone(settings) }

// OfLinks says whether the setting changes links.
func (s *Setting) OfLinks() bool { return s.link != nil }

func newSetting(flag, field, usage string) Setting {
	env := "DDLEMU_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
	return Setting{Flag: flag, Env: env, Usage: usage, Field: field}
}

func fabricSetting[T any](flag, name, usage string, dst func(*Fabric) *T, parse func(string) (T, error)) Setting {
	s := newSetting(flag, name, usage)
	s.fabric = func(f *Fabric, text string) error {
		v, err := parse(text)
		if err == nil {
			*dst(f) = v
		}
		return err
	}
	return s
}

func transportSetting() Setting {
	s := newSetting("transport", "transport", "`transport` above the links: tcp or rdma")
	s.fabric = func(f *Fabric, text string) error {
		if text != TCP && text != RDMA {
			return fmt.Errorf("%q is not one of %s, %s", text, TCP, RDMA)
		}
		f.Transport.become(text)
		return nil
	}
	return s
}

func linkSetting[T any](flag, name, usage string, dst func(*LinkPatch) **T, parse func(string) (T, error)) Setting {
	s := newSetting(flag, "link."+name, usage)
	s.link = func(p *LinkPatch, text string) error {
		v, err := parse(text)
		if err == nil {
			*dst(p) = &v
		}
		return err
	}
	return s
}

// apply gives f the value in text.
func (s *Setting) apply(f *Fabric, text string) error {
	if s.fabric != nil {
		return s.fabric(f, text)
	}
	var p LinkPatch
	if err := s.link(&p, text); err != nil {
		return err
	}
	f.shape(p)
	return nil
}

// Check says whether text can be the setting's value.
func (s *Setting) Check(text string) error {
	f := Default()
	return s.apply(&f, text)
}

// PatchLinks adds the setting's value to p; the setting must be OfLinks.
func (s *Setting) PatchLinks(p *LinkPatch, text string) error { return s.link(p, text) }
