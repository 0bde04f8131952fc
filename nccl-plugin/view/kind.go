// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/nccl/topofile"
)

// addKind places the NICs and the software GPU as the usual systems with the fabric's kind of GPU do, and connects the
// GPU. Without a kind it changes nothing.
func (n *Node) addKind(f *fabric.Fabric, s Shape) {
	kind := f.Config.GPU
	if kind == nil {
		return
	}
	gpus := f.Config.NodeGPUs(s.GPUs)
	h := hardware{
		gpus: gpus, nics: f.Config.NICsPerNode, cpus: ceil(gpus, kind.CPU.GPUs), switches: kindSwitches(f, s.GPUs),
	}
	for i := range n.NICs {
		n.NICs[i].Switch = h.switchOf(i, gpuOf(f, i, gpus))
	}
	n.Soft.Kind = kind
	n.Soft.Switch = h.switchOf(f.NearestNIC(s.GPU, gpus), s.GPU)
	for sw := range h.switches {
		n.CPUOfSwitch = append(n.CPUOfSwitch, sw*h.cpus/h.switches)
	}
	links := f.Config.NodeNVLink()
	n.Soft.NVLinks = 0
	if links.Connection == configs.SwitchedNVLink {
		n.Soft.NVLinks = links.Links
	}
	first, ok := topofile.NumberOf(n.Soft.BusID)
	if between := links.Between(gpus); between != nil && ok {
		for peer, count := range between[s.GPU] {
			if id := first - s.GPU + peer; count > 0 && id >= 0 && id < topofile.MostGPUs {
				n.Soft.Peers = append(n.Soft.Peers, Peer{topofile.BusID(id), count})
			}
		}
	}
}

// kindSwitches is how many PCI switches a node with the fabric's kind of GPU has, of whose GPUs the job uses used: one
// for each NIC, but if the GPUs have several NICs each, as many as the kind's GPUs are on.
func kindSwitches(f *fabric.Fabric, used int) int {
	gpus := f.Config.NodeGPUs(used)
	ofKind := ceil(gpus, f.Config.GPU.PCIe.GPUs)
	switch {
	case f.Config.Node.PCISwitches > 0:
		return f.Config.Node.PCISwitches
	case f.Config.NICsPerNode > gpus:
		return ofKind
	}
	return max(f.Config.PCISwitches(used), ofKind)
}

// hardware is how many of each a node has.
type hardware struct{ gpus, nics, cpus, switches int }

// switchOf is the PCI switch of a NIC and of a GPU that is near it: the NIC's, if each switch has one, else the
// GPU's.
func (h hardware) switchOf(nic, gpu int) int {
	if h.nics < h.switches {
		return gpu * h.switches / h.gpus
	}
	return nic * h.switches / h.nics
}

func ceil(n, by int) int { return (n + by - 1) / by }

// kindCPUs are the CPUs of a node with a kind of GPU, with the devices on them. NCCL sets the ranks' affinity to the
// CPU of their GPU, and this host's CPUs are others: the affinity is empty, which NCCL ignores.
func (n *Node) kindCPUs() []cpu {
	var all []cpu
	for number := range n.CPUOfSwitch[len(n.CPUOfSwitch)-1] + 1 {
		c := n.Host.CPU
		all = append(all, cpu{NUMA: number, Affinity: "0", Arch: c.Arch, Vendor: c.Vendor, Family: c.Family,
			Model: c.Model, PCI: n.onCPU(number)})
	}
	return all
}

// onCPU are the PCI devices on a CPU of the node. A GPU with C2C reaches the NICs through its CPU, so both are on the
// CPU itself; so are all devices without GPUDirect.
func (n *Node) onCPU(number int) (all []pci) {
	k := n.Soft.Kind
	for sw, on := range n.CPUOfSwitch {
		if on != number {
			continue
		}
		var devices []pci
		if n.Soft.Switch == sw {
			devices = append(devices, n.softGPU())
		}
		for i, nic := range n.NICs {
			if nic.Switch == sw && !nic.Down {
				devices = append(devices, n.card(i))
			}
		}
		if !n.Direct || k.C2C.Has() {
			all = append(all, devices...)
			continue
		}
		if len(devices) == 0 {
			continue // the GPUs of other ranks are on it
		}
		speed := max(pcieMbps(k), n.speedOn(sw))
		all = append(all, pci{BusID: switchBusID(sw), Class: bridgeClass, Speed: slotFor(speed), Width: slotWidth,
			PCI: devices})
	}
	return all
}

// pcieMbps is the rate of the kind's PCI slot in NCCL, as the rate of 16 lanes.
func pcieMbps(k *configs.GPU) int { return slots[min(k.PCIe.Generation-3, len(slots)-1)].mbps }

// addLinks adds the NVLinks of the kind and its C2C to its element.
func (s *SoftGPU) addLinks(g *gpu) {
	if s.NVLinks > 0 {
		g.NVLinks = append(g.NVLinks, nvlink{Target: nvSwitchBusID, Count: s.NVLinks, Class: nvSwitchClass})
	}
	for _, p := range s.Peers {
		g.NVLinks = append(g.NVLinks, nvlink{Target: p.BusID, Count: p.Links, Class: displayClass})
	}
	if s.Kind != nil && s.Kind.C2C.Has() {
		g.C2C = &c2c{MBps: int(s.Kind.C2C.Rate / (8 * 1e6)), Count: s.Kind.C2C.Links}
	}
}

// slotMbps is the rate of the GPU's slot: as given, else the kind's rate, else 0.
func (s *SoftGPU) slotMbps() int {
	if s.Kind == nil {
		return s.SlotMbps
	}
	return cmp.Or(s.SlotMbps, pcieMbps(s.Kind)*s.Kind.PCIe.Lanes/slotWidth)
}
