// SPDX-License-Identifier: Apache-2.0

package view

import (
	"slices"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// Node is an emulated node as one of its ranks describes it to NCCL.
type Node struct {
	Host Host
	NICs []NIC // in their order
	// Direct says that the NICs access GPU memory (GPUDirect). Then each NIC is on a PCI
	// switch with the GPUs that it serves. Otherwise NCCL copies through host memory, and
	// the NICs and GPUs are on the CPU: NCCL halves the rate of a switch that data crosses
	// in both directions.
	Direct bool
	// Soft is this rank's GPU if it is a software GPU, which is not in /sys; nil for a real
	// one.
	Soft *SoftGPU
	// CPUOfSwitch has the CPU of each PCI switch, if Soft has a kind: then the CPUs are the CPUs of the usual systems with
	// that kind, and not this host's.
	CPUOfSwitch []int
}

// NIC is a NIC of the node.
type NIC struct {
	fabric.NICProps
	Down   bool // NCCL does not see it
	Switch int  // number of its PCI switch in the node
	NUMA   int  // the NUMA node of the GPU that it serves
	CPU    int  // with a kind of GPU: the number of the node's CPU that its switch is on
}

// SoftGPU is a software GPU.
type SoftGPU struct {
	BusID   string // as 0000:10:00.0
	Switch  int    // number of its PCI switch in the node
	NVLinks int    // to the node's NVSwitches
	Peers   []Peer // GPUs of the node to which it has NVLinks directly

	SlotMbps int // rate of its PCI slot; 0 = the kind's rate, else of the NICs on its PCI switch

	Kind *configs.GPU // nil = none
}

// Peer is another GPU of the node, with the NVLinks to it.
type Peer struct {
	BusID string
	Links int
}

// Shape says how many GPUs the job uses of node Node (GPUs), and which of them this rank uses (GPU).
type Shape struct {
	Node, GPU, GPUs int
}

// Of describes a node of f. The NICs and the software GPU are on the switches of the node's
// hardware. A NIC is on the NUMA node of the real GPU that it
// serves. Emulated GPU G of node N is number N x GPUs + G of this host, in the order of bus
// IDs, modulo the host's GPUs. soft is the bus ID of this rank's software GPU, "" for a real
// one.
func Of(f *fabric.Fabric, host Host, s Shape, soft string, direct bool) Node {
	n := Node{Host: host, Direct: direct}
	listed := f.ListedNICs(s.Node)
	for i := range f.Config.NICsPerNode {
		gpu := gpuOf(f, i, s.GPUs)
		nic := NIC{NICProps: f.Props(f.NIC(s.Node, i)), Down: !slices.Contains(listed, i),
			Switch: switchOf(f, i, s.GPUs), NUMA: NoNUMA}
		if len(host.GPUs) > 0 && soft == "" {
			nic.NUMA = host.GPUs[(s.Node*s.GPUs+gpu)%len(host.GPUs)].NUMA
		}
		n.NICs = append(n.NICs, nic)
	}
	if soft != "" {
		n.Host.CPU = cpuOf(f, host.CPU)
		n.Soft = &SoftGPU{BusID: soft, Switch: switchOf(f, f.NearestNIC(s.GPU, f.Config.NodeGPUs(s.GPUs)), s.GPUs),
			NVLinks: f.Config.NVLinksPerGPU, SlotMbps: int(f.Config.Node.GPUSlot / units.Mbps)}
		n.addKind(f, s)
	}
	return n
}

// switchOf is the PCI switch of a NIC, on a node of whose GPUs the job uses used.
func switchOf(f *fabric.Fabric, nic, used int) int {
	return nic * f.Config.PCISwitches(used) / f.Config.NICsPerNode
}

// gpuOf is the GPU that a NIC serves: the first whose nearest NIC it is. A NIC that is nearest
// to no GPU serves the GPU of the NIC before it.
func gpuOf(f *fabric.Fabric, nic, gpus int) int {
	nearest := make([]int, gpus)
	for gpu := range nearest {
		nearest[gpu] = f.NearestNIC(gpu, gpus)
	}
	for ; nic >= 0; nic-- {
		if gpu := slices.Index(nearest, nic); gpu >= 0 {
			return gpu
		}
	}
	return 0
}

// cpuOf is the CPU of the fabric's nodes, if this host's is host.
func cpuOf(f *fabric.Fabric, host CPU) CPU {
	if f.Config.GPU != nil && f.Config.CPU == "" && f.Config.GPU.CPU.Arch != configs.X86 {
		// NCCL would add this machine's vendor to CPUs with a GPU of the rank's own, and then not merge the files.
		return CPU{Arch: f.Config.GPU.CPU.Arch, Vendor: "ARM", Family: "0", Model: "0"}
	}
	switch f.Config.NodeCPU() {
	case configs.AMD:
		return CPU{Arch: "x86_64", Vendor: "AuthenticAMD", Family: "23", Model: "49"} // EPYC 7002
	case configs.Intel:
		return CPU{Arch: "x86_64", Vendor: "GenuineIntel", Family: "6", Model: "143"} // Xeon of the 4th generation
	}
	return host
}

// cpus are the numbers of the CPUs in the file: all that a GPU or a NIC may be on.
func (n *Node) cpus() []int {
	all := append([]int{NoNUMA}, n.Host.NUMA...)
	for _, nic := range n.NICs {
		all = append(all, nic.NUMA)
	}
	for _, gpu := range n.Host.GPUs {
		all = append(all, gpu.NUMA)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
