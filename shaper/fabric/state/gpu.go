// SPDX-License-Identifier: Apache-2.0

package state

// #include "layout.h"
import "C"

import "fmt"

// GPU is the kind of GPU that the software CUDA shows, which reads it from the file. The zero value: the fabric names
// none.
type GPU struct {
	Name, Product   string
	Memory          uint64 // bytes
	Capability, SMs int    // 90 is compute capability 9.0

	PCIeGeneration, PCIeLanes             int
	NVLinkGeneration, NVLinks, NVLinkMBps int // MB/s of one link in one direction
	Switched                              bool
	C2CLinks, C2CMBps                     int     // MB/s of one link in one direction
	NVLinkDomain                          int     // GPUs; 0 = the GPUs of a node
	GPUs                                  int     // that a node has
	Between                               [][]int // NVLinks from each GPU of a node to each other one, if not Switched
}

func (g *GPU) check() error {
	if len(g.Name) >= nameSize || len(g.Product) >= nameSize {
		return fmt.Errorf("the names %q and %q of a kind of GPU are too long", g.Name, g.Product)
	}
	if len(g.Between) > MaxGraphGPUs {
		return fmt.Errorf("NVLinks between %d GPUs: at most %d", len(g.Between), MaxGraphGPUs)
	}
	return nil
}

func (g *GPU) entry() gpuEntry {
	e := gpuEntry{Memory: g.Memory, Capability: uint32(g.Capability), SMs: uint32(g.SMs),
		PCIeGeneration: uint32(g.PCIeGeneration), PCIeLanes: uint32(g.PCIeLanes),
		NVLinkGeneration: uint32(g.NVLinkGeneration), NVLinks: uint32(g.NVLinks), NVLinkMBps: uint32(g.NVLinkMBps),
		C2CLinks: uint32(g.C2CLinks), C2CMBps: uint32(g.C2CMBps), NVLinkDomain: uint32(g.NVLinkDomain),
		GPUs: uint32(g.GPUs)}
	copy(e.Name[:], g.Name)
	copy(e.Product[:], g.Product)
	if g.Switched {
		e.Switched = 1
	}
	for a, row := range g.Between {
		for b, links := range row {
			e.Between[a][b] = uint8(links)
		}
	}
	return e
}
