// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
)

// NewGPUsCommand is `ddlemu gpus`.
func NewGPUsCommand(g *cli.Global) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gpus [NAME | FILE]",
		Short: "List the kinds of GPUs, or show one",
		Long: cli.Long("docs/gpus.md", `
List the kinds of GPUs that the software CUDA can show to programs and NCCL. With a name, print
that kind as a file, with the sources of its figures, to change and give to --gpu. With a file,
check it and print its kind.`),
		Example: `  ddlemu gpus
  ddlemu gpus h100-sxm > mine.yaml
  ddlemu up --profile ndr400 --gpu h100-sxm
  ddlemu up --profile ndr400 --gpu ./mine.yaml`,
		Args: cli.AtMostOneArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return showGPU(g, args[0])
			}
			return listGPUs(g)
		},
		ValidArgs: configs.GPUNames(),
	}
	g.AddJSONFlag(cmd.Flags())
	return cmd
}

// gpuJSON is one kind of GPU of gpus --json.
type gpuJSON struct {
	Name              string `json:"name"`
	Description       string `json:"description"`
	Product           string `json:"product"` // as NVML and nccl-tests print it
	ComputeCapability string `json:"compute_capability"`
	SMs               int    `json:"sms"`
	MemoryBytes       int64  `json:"memory_bytes"`

	NVLinkGeneration int    `json:"nvlink_generation"` // 0 = no NVLink
	NVLinks          int    `json:"nvlinks"`
	NVLinkBps        uint64 `json:"nvlink_bps"` // of one link in one direction, raw
	NVLinkConnection string `json:"nvlink_connection"`
	NVLinkDomain     int    `json:"nvlink_domain"` // GPUs; 0 = those of a node

	PCIeGeneration int    `json:"pcie_generation"`
	PCIeLanes      int    `json:"pcie_lanes"`
	C2CLinks       int    `json:"c2c_links"` // 0 = none
	C2CBps         uint64 `json:"c2c_bps"`   // of one link in one direction
	CPUArch        string `json:"cpu_arch"`
	CPUVendor      string `json:"cpu_vendor"`
	GPUsPerCPU     int    `json:"gpus_per_cpu"`

	PeakFP16TFLOPS float64 `json:"peak_fp16_tflops"` // on tensor cores, without sparsity; 0 = not known
	PeakMemoryBps  uint64  `json:"peak_memory_bps"`  // 0 = not known

	Sources map[string]string `json:"sources"`
}

func gpuOf(g *configs.GPU) gpuJSON {
	connection := g.NVLink.Connection
	if connection == "" {
		connection = configs.NoNVLink
	}
	return gpuJSON{
		Name: g.Name, Description: g.Description, Product: g.Product, ComputeCapability: g.Capability.String(),
		SMs: g.SMs, MemoryBytes: int64(g.Memory), NVLinkGeneration: g.NVLink.Generation, NVLinks: g.NVLink.Links,
		NVLinkBps: uint64(g.NVLink.Rate), NVLinkConnection: connection, NVLinkDomain: g.NVLinkDomain,
		PCIeGeneration: g.PCIe.Generation, PCIeLanes: g.PCIe.Lanes, C2CLinks: g.C2C.Links, C2CBps: uint64(g.C2C.Rate),
		CPUArch: g.CPU.Arch, CPUVendor: g.CPU.Vendor, GPUsPerCPU: g.CPU.GPUs,
		PeakFP16TFLOPS: g.Peak.FP16, PeakMemoryBps: uint64(g.Peak.Memory), Sources: g.Sources,
	}
}

// showGPU prints the kind of GPU that text names.
func showGPU(g *cli.Global, text string) error {
	kind, err := configs.LoadGPU(text, "")
	if err != nil {
		return err
	}
	return showBuiltIn(g, kind, gpuOf(kind))
}

// listGPUs prints all built-in kinds.
func listGPUs(g *cli.Global) error {
	all, err := configs.GPUs()
	if err != nil {
		return err
	}
	columns := []string{"name", "product", "compute ", "SMs ", "memory ", "NVLink ", "connection", "domain ", "PCIe",
		"C2C ", "CPU", "GPUs per CPU "}
	return listBuiltIn(g, all, gpuOf, columns, gpuRow)
}

func gpuRow(kind *configs.GPU) table.Row {
	const none = "-"
	nvlink, connection, domain, c2c, cpu := none, none, none, none, kind.CPU.Arch
	if n := &kind.NVLink; n.Links > 0 {
		nvlink = fmt.Sprintf("%d x %s", n.Links, cli.Rate(float64(n.Rate)/8))
		connection = n.Connection
	}
	if kind.NVLinkDomain > 0 {
		domain = fmt.Sprint(kind.NVLinkDomain)
	}
	if kind.C2C.Has() {
		c2c = cli.Rate(float64(kind.C2C.Rate) / 8 * float64(kind.C2C.Links))
	}
	if kind.CPU.Vendor != "" {
		cpu += " " + kind.CPU.Vendor
	}
	return table.Row{kind.Name, kind.Product, kind.Capability, kind.SMs, kind.Memory, nvlink, connection, domain,
		fmt.Sprintf("gen %d x%d", kind.PCIe.Generation, kind.PCIe.Lanes), c2c, cpu, kind.CPU.GPUs}
}

// showBuiltIn prints one built-in profile or kind of GPU: as a file, or with --json as document.
func showBuiltIn(g *cli.Global, one interface{ Encode() ([]byte, error) }, document any) error {
	if g.JSON {
		return g.PrintJSON(document)
	}
	file, err := one.Encode()
	if err != nil {
		return err
	}
	fmt.Fprintf(g.Stdout, "%s", file)
	return nil
}

// listBuiltIn prints all of them: as a table with these columns, or with --json as documents.
func listBuiltIn[T, D any](g *cli.Global, all []*T, document func(*T) D, columns []string,
	row func(*T) table.Row) error {
	if g.JSON {
		list := []D{}
		for _, one := range all {
			list = append(list, document(one))
		}
		return g.PrintJSON(list)
	}
	t := cli.NewTable(g.Stdout, columns...)
	for _, one := range all {
		t.AppendRow(row(one))
	}
	t.Render()
	return nil
}
