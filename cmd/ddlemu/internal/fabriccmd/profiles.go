// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
)

// NewProfilesCommand is `ddlemu profiles`.
func NewProfilesCommand(g *cli.Global) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profiles [NAME]",
		Short: "List the built-in profiles and systems, or show one",
		Long: cli.Long("docs/gpus.md", `
List the built-in profiles: networks with published or measured figures, and systems, which also
have the kind of GPU, the GPUs and NICs of a node, NVLinks and the time of nodes. --profile takes
both. With a name, print that profile as a fabric file, to change and give to -F.`),
		Example: `  ddlemu profiles
  ddlemu profiles hgx-h100-ndr400
  ddlemu profiles roce100 > mine.yaml
  ddlemu up -F mine.yaml`,
		Args:      cli.AtMostOneArg,
		RunE:      func(_ *cobra.Command, args []string) error { return runProfiles(g, strings.Join(args, "")) },
		ValidArgs: configs.AllProfileNames(),
	}
	g.AddJSONFlag(cmd.Flags())
	return cmd
}

// profileJSON is one profile of profiles --json.
type profileJSON struct {
	Name         string `json:"name"`
	Description  string `json:"description"`
	BandwidthBps uint64 `json:"bandwidth_bps"` // line rate; 0 = unlimited
	PayloadBps   uint64 `json:"payload_bps"`
	LatencyNs    int64  `json:"latency_ns"`
	Jitter       string `json:"jitter"`
	Loss         string `json:"loss"`
	Queue        string `json:"queue"`
	Transport    string `json:"transport"`
	Nodes        int    `json:"nodes"`
	NICsPerNode  int    `json:"nics_per_node"`

	// of a system
	GPU              string `json:"gpu,omitempty"`
	GPUsPerNode      int    `json:"gpus_per_node,omitempty"`
	NVLinkConnection string `json:"nvlink_connection,omitempty"`
	NodeTime         bool   `json:"node_time,omitempty"` // nodes cost time, if it is known for the kind of GPU

	Sources []string `json:"sources"`
}

func profileOf(f *configs.Fabric) profileJSON {
	return profileJSON{
		Name: f.Name, Description: f.Description, BandwidthBps: uint64(f.Link.Bandwidth),
		PayloadBps: uint64(8 * f.Link.PayloadRate()),
		LatencyNs:  int64(f.Link.Latency), Jitter: f.Link.Jitter.String(), Loss: f.Link.Loss.String(),
		Queue:     f.Link.Queue.String(),
		Transport: f.Transport.Kind, Nodes: f.Nodes, NICsPerNode: f.NICsPerNode, Sources: f.Sources,
		GPU: f.GPUName(), GPUsPerNode: f.GPUsPerNode, NVLinkConnection: f.NodeNVLink().Connection, NodeTime: f.NodeTime,
	}
}

// runProfiles prints all profiles, or the one called name.
func runProfiles(g *cli.Global, name string) error {
	if name != "" {
		f, err := configs.Profile(name)
		if err != nil {
			return err
		}
		return showBuiltIn(g, f, profileOf(f))
	}
	links, err := configs.Profiles()
	if err != nil {
		return err
	}
	systems, err := configs.Systems()
	if err != nil {
		return err
	}
	if g.JSON {
		return listBuiltIn(g, slices.Concat(links, systems), profileOf, nil, nil)
	}
	fmt.Fprint(g.Stdout, "Links alone:\n\n")
	columns := []string{"name", "line rate ", "payload rate ", "latency ", "jitter", "transport", "NICs ", "description"}
	err = listBuiltIn(g, links, profileOf, columns, func(f *configs.Fabric) table.Row {
		return table.Row{
			f.Name, f.Link.Bandwidth, cli.Rate(f.Link.PayloadRate()), f.Link.Latency, f.Link.Jitter, f.Transport.Kind,
			f.NICsPerNode, f.Description,
		}
	})
	if err != nil {
		return err
	}
	fmt.Fprint(g.Stdout, "\nSystems, with the GPUs, NICs and NVLinks of a node, and its time:\n\n")
	return listBuiltIn(g, systems, profileOf, systemColumns, systemRow)
}

var systemColumns = []string{"name", "GPUs ", "kind", "NVLink", "NICs ", "payload rate ", "latency ", "GPU time",
	"description"}

func systemRow(f *configs.Fabric) table.Row {
	time, timed := "not known", *f
	if f.CostsGPUTime() {
		time = "yes"
		timed.SetNICRate()
	}
	return table.Row{f.Name, f.GPUsPerNode, f.GPUName(), f.NodeNVLink().Connection, f.NICsPerNode,
		cli.Rate(timed.Link.PayloadRate()), f.Link.Latency, time, f.Description}
}
