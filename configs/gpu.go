// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ddlemu/ddlemu/configs/units"
)

//go:embed gpus/*.yaml
var gpuFiles embed.FS

// GPU is a kind of GPU: what CUDA, NVML and a topology file of NCCL say about it, and how the GPUs of a node are
// connected.
type GPU struct {
	Name        string `yaml:"name"`
	Description string `yaml:"description,omitempty"`

	Product    string     `yaml:"product"` // its name in CUDA, NVML and the header of nccl-tests
	Capability Capability `yaml:"compute_capability"`
	SMs        int        `yaml:"sms"`    // streaming multiprocessors that CUDA shows
	Memory     units.Size `yaml:"memory"` // nominal

	NVLink NVLink   `yaml:"nvlink,omitempty"` // the zero value: it has none
	PCIe   PCIe     `yaml:"pcie,flow"`
	C2C    C2C      `yaml:"c2c,omitempty,flow"` // NVLink-C2C to the CPU; the zero value: it has none
	CPU    CPUOfGPU `yaml:"cpu,flow"`

	// Peak is what the GPU computes and moves at most; the zero value: not known.
	Peak Peak `yaml:"peak,omitempty,flow"`

	// NVLinkDomain is how many GPUs of several nodes NVSwitches connect; 0 = only the GPUs of a node.
	NVLinkDomain int `yaml:"nvlink_domain,omitempty"`

	// Time is what a node costs NCCL; nil = not known.
	Time *GPUTime `yaml:"time,omitempty"`

	// Sources say where figures come from, by their keys.
	Sources map[string]string `yaml:"sources,omitempty"`
}

// NVLink is what NVLinks a GPU has, and to what.
type NVLink struct {
	Generation int             `yaml:"generation,omitempty"`
	Links      int             `yaml:"links,omitempty"` // of one GPU, in all
	Rate       units.Bandwidth `yaml:"rate,omitempty"`  // of one link in one direction, raw
	// Connection is SwitchedNVLink, MeshNVLink, or GraphNVLink.
	Connection string `yaml:"connection,omitempty"`
	// Graph is which GPUs of a node are connected, with Connection GraphNVLink only.
	Graph []NVLinkPair `yaml:"graph,omitempty"`
}

// NVLinkPair is the NVLinks between two GPUs of a node.
type NVLinkPair struct {
	GPUs  []int `yaml:"gpus,flow"` // two of them
	Links int   `yaml:"links"`
}

// How the NVLinks of the GPUs of a node are connected.
const (
	SwitchedNVLink = "switch" // each GPU to the node's NVSwitches
	MeshNVLink     = "mesh"   // each pair of GPUs directly, with as many links as every other pair
	GraphNVLink    = "graph"  // the pairs that are listed directly
	NoNVLink       = "none"
)

// PCIe is the slot of a GPU.
type PCIe struct {
	Generation int `yaml:"generation"`
	Lanes      int `yaml:"lanes"`
	GPUs       int `yaml:"gpus"` // that are on one PCI switch; 1 = each is alone, or on the CPU
}

// C2C is a GPU's NVLink-C2C to its CPU.
type C2C struct {
	Links int             `yaml:"links,omitempty"`
	Rate  units.Bandwidth `yaml:"rate,omitempty"` // of one link in one direction
}

// Peak are rates of data sheets, which kernels do not reach.
type Peak struct {
	FP16   float64         `yaml:"fp16_tflops,omitempty"` // of FP16 on tensor cores, without sparsity, in 10^12 operations/s
	Memory units.Bandwidth `yaml:"memory,omitempty"`      // of the GPU's memory
}

// CPUOfGPU is the usual CPU of the systems with a kind of GPU.
type CPUOfGPU struct {
	Arch   string `yaml:"arch"`             // X86 or ARM
	Vendor string `yaml:"vendor,omitempty"` // AMD or Intel; empty with ARM
	GPUs   int    `yaml:"gpus"`             // GPUs that are on one CPU
}

// Architectures of CPUs, as NCCL's topology names them.
const (
	X86 = "x86_64"
	ARM = "arm64" // Grace
)

// Capability is a compute capability: 90 is 9.0.
type Capability int

// capabilities are those whose GPUs the software CUDA can show, because it knows the sizes of their shared memory.
var capabilities = []Capability{70, 75, 80, 86, 89, 90, 100, 103, 120}

// ParseCapability reads a compute capability, such as 9.0.
func ParseCapability(s string) (Capability, error) {
	var names []string
	for _, c := range capabilities {
		if s == c.String() {
			return c, nil
		}
		names = append(names, c.String())
	}
	return 0, fmt.Errorf("%q is not one of %s", s, strings.Join(names, ", "))
}

// String is the text that ParseCapability reads.
func (c Capability) String() string { return fmt.Sprintf("%d.%d", c/10, c%10) }

// MarshalText writes what ParseCapability reads.
func (c Capability) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

var builtInGPUs = builtIn{gpuFiles, "gpus", "kind of GPU"}

// GPUNames are the names of the built-in kinds of GPUs in alphabetical order.
func GPUNames() []string { return builtInGPUs.names() }

// BuiltInGPU is the built-in kind of GPU of this name. For a name that does not exist the error is an *Error that lists
// similar names.
func BuiltInGPU(name string) (*GPU, error) { return decodeBuiltIn(&builtInGPUs, name, DecodeGPU) }

// GPUs are the built-in kinds of GPUs in the order of GPUNames.
func GPUs() ([]*GPU, error) { return allBuiltIn(&builtInGPUs, BuiltInGPU) }

// LoadGPU is the built-in kind of GPU that text names, or the kind of a file if text has a slash or ends in .yaml or
// .yml. A path is relative to folder; "" = the working folder.
func LoadGPU(text, folder string) (*GPU, error) {
	if !isPath(text) {
		return BuiltInGPU(text)
	}
	if folder != "" && !filepath.IsAbs(text) {
		text = filepath.Join(folder, text)
	}
	data, err := readFile(text, "file of a kind of GPU", "name one of "+strings.Join(GPUNames(), ", ")+", or a file")
	if err != nil {
		return nil, &Error{Err: err}
	}
	return DecodeGPU(text, data)
}

// isPath reports whether the user means a file by text, and not a name.
func isPath(text string) bool {
	ext := filepath.Ext(text)
	return strings.Contains(text, "/") || ext == ".yaml" || ext == ".yml"
}

// MarshalYAML writes a built-in kind by its name, and another one with all its figures: a fabric that is up does not
// need the file that it was made of.
func (g *GPU) MarshalYAML() (any, error) {
	if known, err := BuiltInGPU(g.Name); err == nil && reflect.DeepEqual(known, g) {
		return g.Name, nil
	}
	return (*plainGPU)(g), nil
}

// plainGPU is a GPU without its methods.
type plainGPU GPU

// Encode returns the text of a file that DecodeGPU reads as g. g must be valid.
func (g *GPU) Encode() ([]byte, error) {
	var b bytes.Buffer
	y := yaml.NewEncoder(&b)
	y.SetIndent(2)
	if err := y.Encode((*plainGPU)(g)); err != nil {
		return nil, fmt.Errorf("write kind of GPU %s as text: %w", g.Name, err)
	}
	return b.Bytes(), nil
}

// HasSwitch reports whether NVSwitches connect the GPUs of a node.
func (g *GPU) HasSwitch() bool { return g.NVLink.Connection == SwitchedNVLink }

// Has reports whether g has NVLink-C2C.
func (c C2C) Has() bool { return c.Links > 0 }

// Bandwidth is the rate of all links of g in one direction.
func (n *NVLink) Bandwidth() units.Bandwidth { return n.Rate * units.Bandwidth(n.Links) }

// MostGPUs is how many GPUs of a node links can connect; MaxGPUsPerNode if they set no limit.
func (n *NVLink) MostGPUs() int {
	switch n.Connection {
	case MeshNVLink:
		return n.Links + 1
	case GraphNVLink:
		most := 0
		for _, p := range n.Graph {
			most = max(most, slices.Max(p.GPUs)+1)
		}
		return most
	}
	return MaxGPUsPerNode
}

// Between is how many NVLinks go from each GPU of a node with gpus GPUs to each other one; nil if NVSwitches or nothing
// connect them.
func (n *NVLink) Between(gpus int) [][]int {
	if n.Connection != MeshNVLink && n.Connection != GraphNVLink {
		return nil
	}
	links := make([][]int, gpus)
	for a := range links {
		links[a] = make([]int, gpus)
		for b := range links {
			if a != b && n.Connection == MeshNVLink {
				links[a][b] = n.Links / (gpus - 1)
			}
		}
	}
	for _, p := range n.Graph {
		if a, b := p.GPUs[0], p.GPUs[1]; a < gpus && b < gpus {
			links[a][b], links[b][a] = p.Links, p.Links
		}
	}
	return links
}

// NodeNVLink is the NVLinks of the GPUs of f's nodes: the NVLinks of the kind of GPU, with f's changes. Without a kind
// they are NVLinksPerGPU to the node's NVSwitches.
func (f *Fabric) NodeNVLink() NVLink {
	if f.GPU == nil {
		if f.NVLinksPerGPU == 0 {
			return NVLink{}
		}
		return NVLink{Links: f.NVLinksPerGPU, Connection: SwitchedNVLink}
	}
	n := f.GPU.NVLink
	if f.NVLink == NoNVLink || n.Links == 0 {
		return NVLink{}
	}
	n.Links = cmp.Or(f.NVLinksPerGPU, n.Links)
	n.Connection = cmp.Or(f.NVLink, n.Connection)
	if n.Connection != GraphNVLink {
		n.Graph = nil
	}
	return n
}

// DomainNodes is how many nodes of f NVLinks connect: the nodes of an NVLink domain, 1 if NVLinks connect only the GPUs
// of a node.
func (f *Fabric) DomainNodes() int {
	if f.GPU == nil || f.NodeNVLink().Connection != SwitchedNVLink {
		return 1
	}
	gpus := cmp.Or(f.NVLinkDomain, f.GPU.NVLinkDomain)
	return max(min(gpus/max(f.GPUsPerNode, 1), f.Nodes), 1)
}

// CheckEmulated says if NVLinks connect several nodes of f: an emulated run has none between nodes.
func (f *Fabric) CheckEmulated() error {
	if f.DomainNodes() == 1 {
		return nil
	}
	return Errorf("nvlink_domain", "NVLinks connect GPUs of %d nodes, and an emulated run has no NVLinks between nodes: "+
		"only `ddlemu expect --set node_time=on` and `ddlemu validate --model` know them. If the nodes have none between them, "+
		"give nvlink_domain or --set nvlink_domain=%d", f.DomainNodes(), max(f.GPUsPerNode, 1))
}

// GPUName is the name of the kind of GPU that the software CUDA shows; "" without one.
func (f *Fabric) GPUName() string {
	if f.GPU == nil {
		return ""
	}
	return f.GPU.Name
}

// setGPU takes g as the kind of GPU, and drops what f said of another one.
func (f *Fabric) setGPU(g *GPU) {
	f.GPU, f.NVLink, f.NVLinkDomain, f.NVLinksPerGPU, f.CPU, f.Node.GPUSlot = g, "", 0, 0, "", 0
}

var nvLinkConnections = []string{SwitchedNVLink, MeshNVLink, NoNVLink}

// ParseNVLink reads SwitchedNVLink, MeshNVLink or NoNVLink.
func ParseNVLink(s string) (string, error) { return oneOf(s, nvLinkConnections) }

// validateGPU checks the kind of GPU, and whether its NVLinks can connect the GPUs of a node.
func (f *Fabric) validateGPU() error {
	if f.NVLink != "" && !slices.Contains(nvLinkConnections, f.NVLink) {
		return Errorf("nvlink", "%q is not one of %s", f.NVLink, strings.Join(nvLinkConnections, ", "))
	}
	if err := f.validateDomain(); err != nil {
		return err
	}
	if f.GPU == nil {
		if f.NVLink != "" {
			return Errorf("nvlink", "%s: a kind of GPU has NVLinks: give gpu or --gpu", f.NVLink)
		}
		return nil
	}
	if err := within("gpu", f.GPU.Validate()); err != nil {
		return err
	}
	if f.NVLink != "" && f.NVLink != NoNVLink && f.GPU.NVLink.Links == 0 {
		return Errorf("nvlink", "%s: %s has no NVLink", f.NVLink, f.GPU.Name)
	}
	if f.CPU != "" && f.CPU != HostCPU && f.GPU.CPU.Arch == ARM {
		return Errorf("cpu", "%s: %s is on a CPU of %s", f.CPU, f.GPU.Name, ARM)
	}
	if f.NVLinksPerGPU > f.GPU.NVLink.Links {
		return Errorf("nvlinks_per_gpu", "%d: %s has %d", f.NVLinksPerGPU, f.GPU.Name, f.GPU.NVLink.Links)
	}
	return f.validateNodeNVLink()
}

// validateDomain checks the NVLink domain that f gives.
func (f *Fabric) validateDomain() error {
	domain := f.NVLinkDomain
	if domain == 0 {
		return nil
	}
	connection := f.NodeNVLink().Connection
	switch {
	case f.GPU == nil:
		return Errorf("nvlink_domain", "%d: a kind of GPU has NVLinks: give gpu or --gpu", domain)
	case domain <= f.GPUsPerNode || f.GPUsPerNode == 0: // 0: the job's ranks will say
		return nil
	case connection != SwitchedNVLink:
		return Errorf("nvlink_domain", "%d: only NVSwitches connect GPUs of several nodes", domain)
	case domain%f.GPUsPerNode != 0:
		return Errorf("nvlink_domain", "%d: it has a part of a node: nodes have %d GPUs", domain, f.GPUsPerNode)
	}
	return nil
}

// validateNodeNVLink checks that NVLinks can connect the GPUs of a node.
func (f *Fabric) validateNodeNVLink() error {
	n := f.NodeNVLink()
	gpus := max(f.Node.GPUs, f.GPUsPerNode)
	field := "gpus_per_node"
	if f.Node.GPUs >= f.GPUsPerNode {
		field = "node.gpus"
	}
	if most := n.MostGPUs(); gpus > most {
		if n.Connection == MeshNVLink {
			return Errorf(field, "%d: %d NVLinks connect a GPU with %d others at most; give nvlink or --set nvlink=%s", gpus,
				n.Links, most-1, SwitchedNVLink)
		}
		return Errorf(field, "%d: the NVLinks of %s connect %d GPUs", gpus, f.GPU.Name, most)
	}
	return nil
}

// CheckGPUs checks that a node of f can have gpus GPUs, which NVLinks connect. It is for jobs whose number of GPUs per
// node f does not say.
func (f *Fabric) CheckGPUs(gpus int) error {
	with := *f
	with.GPUsPerNode = max(gpus, with.GPUsPerNode)
	if with.GPU == nil {
		return nil
	}
	return with.validateNodeNVLink()
}
