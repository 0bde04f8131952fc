// SPDX-License-Identifier: Apache-2.0

package view

import (
	"slices"

	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// Node is one emulated node as one of its ranks tells NCCL of it.
type Node struct {
	Host Host
	NICs []NIC
	// Direct says that the NICs reach the GPUs' memory by themselves (GPUDirect). Then
	// each is on a PCI switch with the GPUs that it serves; otherwise NCCL goes through
	// the CPU, and they are on that: the way there and back over one switch would have
	// half of the switch's rate.
	Direct bool
	// Soft is this rank's GPU if that is a software GPU, which /sys knows nothing of;
	// nil for a real one.
	Soft *SoftGPU
}

// NIC is a NIC of the node.
type NIC struct {
	fabric.NICProps
	Switch int // which of the node's PCI switches it is on, as SoftGPU.Switch
	NUMA   int // of the GPU that it serves
}

// SoftGPU is a GPU that only exists in software.
type SoftGPU struct {
	BusID   string // as 0000:10:00.0
	Switch  int    // that of its NIC
	NVLinks int    // to the node's NVSwitches
}

// Shape is how many GPUs a node has, and which of them is this rank's.
type Shape struct {
	Node, GPU, GPUs int
}

// Of describes a node of f. Each NIC is on the switch of the nearest GPU, and on the
// NUMA node that this host's GPU in the place of that one is on: node N's GPU G is
// this host's number N x GPUs + G, in the order of bus ids, over again if there are
// fewer. soft is the bus id of this rank's software GPU, "" for a real one.
func Of(f *fabric.Fabric, host Host, s Shape, soft string, direct bool) Node {
	n := Node{Host: host, Direct: direct}
	for i := range f.Config.NICsPerNode {
		gpu := servedBy(f, i, s.GPUs)
		nic := NIC{NICProps: f.Props(f.NIC(s.Node, i)), Switch: f.NearestNIC(gpu, s.GPUs), NUMA: NoNUMA}
		if len(host.GPUs) > 0 && soft == "" {
			nic.NUMA = host.GPUs[(s.Node*s.GPUs+gpu)%len(host.GPUs)].NUMA
		}
		n.NICs = append(n.NICs, nic)
	}
	if soft != "" {
		n.Soft = &SoftGPU{BusID: soft, Switch: f.NearestNIC(s.GPU, s.GPUs), NVLinks: f.Config.NVLinksPerGPU}
	}
	return n
}

// servedBy is the GPU that a NIC is near to: the first one whose nearest NIC it is,
// or, of a NIC that is nearest to none, that of the NIC before it.
func servedBy(f *fabric.Fabric, nic, gpus int) int {
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

// cpus are the CPUs that the file has: all that a GPU or a NIC may be on.
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
