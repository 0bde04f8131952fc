// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"cmp"

	"github.com/ddlemu/ddlemu/configs/units"
)

// Node is the hardware of each node. A job may use some of its GPUs: GPUsPerNode says how many.
type Node struct {
	// GPUs of a node; 0 = as many as the job uses, or as there are NICs if these are more: at most 8 of a kind of GPU.
	GPUs int `yaml:"gpus,omitempty"`
	// PCISwitches of a node, among which its NICs and GPUs are divided evenly and in their order; 0 = one for each
	// NIC, or for each GPU if these are fewer.
	PCISwitches int `yaml:"pci_switches,omitempty"`
	// GPUSlot is the rate of the PCI slot of each GPU. It applies to software GPUs only. 0 = the rate of all NICs on the
	// GPU's PCI switch.
	GPUSlot units.Bandwidth `yaml:"gpu_slot,omitempty"`
}

// mostKindGPUs is the most GPUs of a kind that a node has by default. With more NICs, each GPU has several: 16 NICs of
// 100 Gb/s serve 8 A100.
const mostKindGPUs = 8

// NodeGPUs is how many GPUs a node has if the job uses used of them.
func (f *Fabric) NodeGPUs(used int) int {
	nearNICs := f.NICsPerNode
	if f.GPU != nil {
		nearNICs = min(nearNICs, mostKindGPUs)
	}
	return max(cmp.Or(f.Node.GPUs, nearNICs), used, len(f.NICOfGPU), 1)
}

// PCISwitches is how many PCI switches a node has of whose GPUs the job uses used.
func (f *Fabric) PCISwitches(used int) int {
	return cmp.Or(f.Node.PCISwitches, min(f.NICsPerNode, f.NodeGPUs(used)))
}

// validateNode checks the hardware of a node, and which NIC each GPU is near to.
func (f *Fabric) validateNode() error {
	if err := cmp.Or(
		between("node.gpus", f.Node.GPUs, 0, MaxGPUsPerNode),
		between("node.pci_switches", f.Node.PCISwitches, 0, f.NICsPerNode),
		at("node.gpu_slot", inRate(f.Node.GPUSlot)),
	); err != nil {
		return err
	}
	if f.Node.GPUs > 0 && f.Node.GPUs < f.GPUsPerNode {
		return Errorf("node.gpus", "%d: gpus_per_node, which are those that a job uses, are %d", f.Node.GPUs,
			f.GPUsPerNode)
	}
	return f.validateGPUs()
}
