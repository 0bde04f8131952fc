// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ddlemu/ddlemu/configs/units"
)

var gpuFile = fileKind{one: "kind of GPU", example: "see `ddlemu gpus h100-sxm`",
	keys: "compute_capability: and nvlink:"}

// DecodeGPU reads the text of a file with a kind of GPU. Errors name the file as name; without folder and extension,
// name is also the kind's name if the text gives none. The result is valid. Each error is an *Error.
func DecodeGPU(name string, text []byte) (*GPU, error) {
	d := &decoder{file: name, origin: origins{"": name}, what: gpuFile}
	root, err := d.document(text)
	if err != nil {
		return nil, err
	}
	g := new(GPU)
	g.Name, _, _ = strings.Cut(filepath.Base(name), ".")
	if err := d.mapping("", root, d.gpu(g)); err != nil {
		return nil, err
	}
	for _, key := range gpuNeeds {
		if d.origin[key] == "" {
			return nil, &Error{Where: name, Field: key, Err: errors.New("missing")}
		}
	}
	if err := d.origin.place(g.Validate()); err != nil {
		return nil, err
	}
	return g, nil
}

// gpuNeeds are the keys that a kind of GPU must give.
var gpuNeeds = []string{"product", "compute_capability", "sms", "memory", "pcie", "cpu"}

func (d *decoder) gpu(g *GPU) []field {
	return []field{
		{"name", scalar(d, &g.Name, text)},
		{"description", scalar(d, &g.Description, text)},
		{"product", scalar(d, &g.Product, text)},
		{"compute_capability", scalar(d, &g.Capability, ParseCapability)},
		{"sms", scalar(d, &g.SMs, positive(MaxSMs))},
		{"memory", scalar(d, &g.Memory, units.ParseSize)},
		{"nvlink", d.section([]field{
			{"generation", scalar(d, &g.NVLink.Generation, positive(MaxNVLinkGeneration))},
			{"links", scalar(d, &g.NVLink.Links, positive(MaxNVLinks))},
			{"rate", scalar(d, &g.NVLink.Rate, units.ParseBandwidth)},
			{"connection", scalar(d, &g.NVLink.Connection, among(SwitchedNVLink, MeshNVLink, GraphNVLink))},
			{"graph", list(d, &g.NVLink.Graph, func(p *NVLinkPair) []field {
				return []field{{"gpus", d.ints(&p.GPUs)}, {"links", scalar(d, &p.Links, positive(MaxNVLinks))}}
			})},
		})},
		{"pcie", d.section([]field{
			{"generation", scalar(d, &g.PCIe.Generation, positive(maxPCIeGeneration))},
			{"lanes", scalar(d, &g.PCIe.Lanes, positive(maxPCIeLanes))},
			{"gpus", scalar(d, &g.PCIe.GPUs, positive(MaxGPUsPerNode))},
		})},
		{"c2c", d.section([]field{
			{"links", scalar(d, &g.C2C.Links, positive(maxC2CLinks))},
			{"rate", scalar(d, &g.C2C.Rate, units.ParseBandwidth)},
		})},
		{"cpu", d.section([]field{
			{"arch", scalar(d, &g.CPU.Arch, among(X86, ARM))},
			{"vendor", scalar(d, &g.CPU.Vendor, among(AMD, Intel))},
			{"gpus", scalar(d, &g.CPU.GPUs, positive(MaxGPUsPerNode))},
		})},
		{"peak", d.section([]field{
			{"fp16_tflops", scalar(d, &g.Peak.FP16, tflops)},
			{"memory", scalar(d, &g.Peak.Memory, units.ParseBandwidth)},
		})},
		{"nvlink_domain", scalar(d, &g.NVLinkDomain, positive(MaxNVLinkDomain))},
		{"time", d.gpuTime(&g.Time)},
		{"sources", d.variables(&g.Sources)},
	}
}

// tflops reads a rate in 10^12 operations per second.
func tflops(s string) (float64, error) {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || !(x > 0 && x <= maxTFLOPS) {
		return 0, fmt.Errorf("%q is no number above 0, and %d at most", s, maxTFLOPS)
	}
	return x, nil
}

// kindOfGPU reads the kind of GPU of a fabric: a name, a path, or the figures themselves.
func (d *decoder) kindOfGPU(dst **GPU) func(string, *yaml.Node) error {
	return func(path string, n *yaml.Node) error {
		if resolve(n).Kind == yaml.MappingNode {
			*dst = &GPU{Name: "gpu"}
			return d.mapping(path, n, d.gpu(*dst))
		}
		return scalar(d, dst, func(text string) (*GPU, error) { return LoadGPU(text, filepath.Dir(d.file)) })(path, n)
	}
}
