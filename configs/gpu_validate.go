// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/configs/units"
)

// Limits of the figures of a kind of GPU.
const (
	MaxSMs              = 1024
	MaxNVLinkGeneration = 5
	MaxNVLinkDomain     = 576 // GPUs, as of Blackwell's NVSwitches

	nvlsCapability    = 90 // from which on NVSwitches reduce for a GPU
	maxProduct        = 63 // bytes, as the fabric's file keeps them
	maxGPUMemory      = 4 * 1024 * units.GiB
	maxPCIeGeneration = 6
	maxPCIeLanes      = 16
	maxC2CLinks       = 32
	maxTFLOPS         = 1_000_000

	// MaxGraphGPUs is the most GPUs of a node that NVLinks may connect directly.
	MaxGraphGPUs = MaxNVLinks + 1
)

// figures are the keys of a kind of GPU for which a source may be given.
var figures = []string{"product", "compute_capability", "sms", "memory", "nvlink", "pcie", "c2c", "cpu",
	"peak", "nvlink_domain", "time"}

// Validate checks every figure of g, by itself and together with the others. The error is an *Error that names the
// field.
func (g *GPU) Validate() error {
	if !validName(g.Name) {
		return Errorf("name",
			"%q is not a name: 1 to %d letters, digits, '-', '_' and '.', the first a letter or digit", g.Name, maxName)
	}
	if !printable(g.Description) {
		return Errorf("description", "must be printable UTF-8, at most %d bytes", maxText)
	}
	if g.Product == "" || len(g.Product) > maxProduct || !printable(g.Product) {
		return Errorf("product", "%q must be 1 to %d bytes of printable UTF-8", g.Product, maxProduct)
	}
	if !slices.Contains(capabilities, g.Capability) {
		return Errorf("compute_capability", "%v is not known", g.Capability)
	}
	if err := cmp.Or(
		between("sms", g.SMs, 1, MaxSMs),
		between("memory", g.Memory, units.GiB, maxGPUMemory),
		between("pcie.generation", g.PCIe.Generation, 3, maxPCIeGeneration),
		between("pcie.gpus", g.PCIe.GPUs, 1, MaxGPUsPerNode),
		within("nvlink", g.NVLink.validate()),
		within("c2c", g.C2C.validate()),
		within("cpu", g.CPU.validate()),
		within("peak", g.Peak.validate()),
		within("time", g.Time.validate(g.MayUseNVLS(g.NVLink.Connection))),
	); err != nil {
		return err
	}
	if !slices.Contains([]int{1, 2, 4, 8, 16}, g.PCIe.Lanes) {
		return Errorf("pcie.lanes", "%d is not one of 1, 2, 4, 8, 16", g.PCIe.Lanes)
	}
	if g.NVLinkDomain != 0 && !g.HasSwitch() {
		return Errorf("nvlink_domain", "%d: only NVSwitches connect GPUs of several nodes", g.NVLinkDomain)
	}
	return g.validateSources()
}

func (p *Peak) validate() error {
	if !(p.FP16 >= 0 && p.FP16 <= maxTFLOPS) {
		return Errorf("fp16_tflops", "%g: must be 0 to %d", p.FP16, maxTFLOPS)
	}
	return nil
}

func (g *GPU) validateSources() error {
	for key, text := range g.Sources {
		if !slices.Contains(figures, key) {
			return Errorf("sources."+key, "%w", Unknown("figure", key, figures))
		}
		if text == "" || !printable(text) {
			return Errorf("sources."+key, "must be printable UTF-8, 1 to %d bytes", maxText)
		}
	}
	return nil
}

func (n *NVLink) validate() error {
	if n.Links == 0 {
		if n.Generation != 0 || n.Rate != 0 || n.Connection != "" || n.Graph != nil {
			return Errorf("links", "missing: give the number of links, or leave out nvlink")
		}
		return nil
	}
	if err := cmp.Or(
		between("links", n.Links, 1, MaxNVLinks),
		between("generation", n.Generation, 1, MaxNVLinkGeneration),
		between("rate", n.Rate, MinBandwidth, MaxBandwidth),
	); err != nil {
		return err
	}
	switch n.Connection {
	case SwitchedNVLink, MeshNVLink:
		if n.Graph != nil {
			return Errorf("graph", "given with connection %s: only %s has it", n.Connection, GraphNVLink)
		}
		return nil
	case GraphNVLink:
		return n.validateGraph()
	}
	return Errorf("connection", "missing: %s, %s or %s", SwitchedNVLink, MeshNVLink, GraphNVLink)
}

// validateGraph checks that a graph can be built: each pair of different GPUs once, no GPU with more links than it has,
// and no GPU alone.
func (n *NVLink) validateGraph() error {
	if len(n.Graph) == 0 {
		return Errorf("graph", "missing: list the pairs of GPUs that NVLinks connect")
	}
	used := map[int]int{}
	seen := map[[2]int]bool{}
	for i, p := range n.Graph {
		field := fmt.Sprintf("graph[%d]", i)
		if len(p.GPUs) != 2 {
			return Errorf(field+".gpus", "has %d GPUs: a link is between two", len(p.GPUs))
		}
		a, b := min(p.GPUs[0], p.GPUs[1]), max(p.GPUs[0], p.GPUs[1])
		if a < 0 || b >= MaxGraphGPUs {
			return Errorf(field+".gpus", "%d and %d: the GPUs of a node are 0 to %d", a, b, MaxGraphGPUs-1)
		}
		if a == b {
			return Errorf(field+".gpus", "GPU %d is connected with itself", a)
		}
		if seen[[2]int{a, b}] {
			return Errorf(field+".gpus", "GPUs %d and %d are connected twice: give the sum of their links once", a, b)
		}
		if p.Links < 1 {
			return Errorf(field+".links", "missing")
		}
		seen[[2]int{a, b}] = true
		for _, gpu := range []int{a, b} {
			if used[gpu] += p.Links; used[gpu] > n.Links {
				return Errorf(field, "GPU %d has %d links here and before, and %d in all", gpu, used[gpu], n.Links)
			}
		}
	}
	for gpu := range n.MostGPUs() {
		if used[gpu] == 0 {
			return Errorf("graph", "GPU %d has no link: GPUs are numbered from 0 without a gap", gpu)
		}
	}
	return nil
}

func (c *C2C) validate() error {
	if *c == (C2C{}) {
		return nil
	}
	return cmp.Or(between("links", c.Links, 1, maxC2CLinks), between("rate", c.Rate, MinBandwidth, MaxBandwidth))
}

func (c *CPUOfGPU) validate() error {
	switch {
	case c.Arch != X86 && c.Arch != ARM:
		return Errorf("arch", "%q is not one of %s, %s", c.Arch, X86, ARM)
	case c.Arch == ARM && c.Vendor != "":
		return Errorf("vendor", "%s: NCCL knows no vendors of %s", c.Vendor, ARM)
	case c.Arch == X86 && c.Vendor != AMD && c.Vendor != Intel:
		return Errorf("vendor", "%q is not one of %s, %s", c.Vendor, AMD, Intel)
	}
	return between("gpus", c.GPUs, 1, MaxGPUsPerNode)
}
