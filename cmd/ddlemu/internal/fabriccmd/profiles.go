// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
)

// NewProfilesCommand is `ddlemu profiles`.
func NewProfilesCommand(g *cli.Global) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "profiles [NAME]",
		Short: "List the built-in profiles, or show one",
		Long: `List the built-in profiles: real networks with published or measured figures. With a
name, print that profile as a fabric file, with the sources of its figures. The file
can be changed and given to -F.

` + cli.ExitHelp,
		Example: `  ddlemu profiles
  ddlemu profiles roce100 > mine.yaml
  ddlemu up -F mine.yaml`,
		Args: cli.AtMostOneArg,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			return runProfiles(g, name)
		},
		ValidArgs: configs.ProfileNames(),
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

	Sources []string `json:"sources"`
}

func profileOf(f *configs.Fabric) profileJSON {
	return profileJSON{
		Name: f.Name, Description: f.Description, BandwidthBps: uint64(f.Link.Bandwidth),
		PayloadBps: uint64(8 * f.Link.PayloadRate()),
		LatencyNs:  int64(f.Link.Latency), Jitter: f.Link.Jitter.String(), Loss: f.Link.Loss.String(),
		Queue:     f.Link.Queue.String(),
		Transport: f.Transport.Kind, Nodes: f.Nodes, NICsPerNode: f.NICsPerNode, Sources: f.Sources,
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
	all, err := configs.Profiles()
	if err != nil {
		return err
	}
	columns := []string{"name", "line rate ", "payload rate ", "latency ", "jitter", "transport", "NICs ", "description"}
	return listBuiltIn(g, all, profileOf, columns, func(f *configs.Fabric) table.Row {
		return table.Row{
			f.Name, f.Link.Bandwidth, cli.Rate(f.Link.PayloadRate()), f.Link.Latency, f.Link.Jitter, f.Transport.Kind,
			f.NICsPerNode, f.Description,
		}
	})
}
