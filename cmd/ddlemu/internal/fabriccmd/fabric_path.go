// SPDX-License-Identifier: Apache-2.0

package fabriccmd

import (
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/cmd/ddlemu/internal/cli"
	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// printPaths prints the paths of the pairs that pattern names, hop by hop.
func printPaths(g *cli.Global, fab *fabric.Fabric, pattern string) error {
	hops, err := fab.Select(pattern)
	if err != nil {
		return err
	}
	printed := 0
	for _, hop := range hops {
		if h := fab.Hops[hop]; h.Kind == link.Link {
			for i, path := range fab.Paths(h.Src, h.Dst) {
				if printed > 0 {
					fmt.Fprintln(g.Stdout)
				}
				title := fab.NICName(h.Src) + " to " + fab.NICName(h.Dst)
				if fab.PerFlow() {
					title += fmt.Sprintf(", path %d", i+1)
				}
				printPath(g, fab, title, path)
				printed++
			}
		}
	}
	if printed == 0 {
		return cli.BadInput("--path: %q names links between switches: name a pair, as node0:node1", pattern)
	}
	return nil
}

// printPath prints a path, and below its hops the least rate and the sum of the latencies.
func printPath(g *cli.Global, fab *fabric.Fabric, title string, path []link.PathHop) {
	links := make([]configs.Link, len(path))
	for i, step := range path {
		links[i] = fabric.LinkOf(fab.Hops[step.Hop].Spec)
	}
	columns := columnsOf(links)
	heads := linkHeads(columns, title)
	t := cli.NewTable(g.Stdout, heads...)
	for i, l := range links {
		t.AppendRow(linkRow(columns, &l, fab.HopName(path[i].Hop)))
	}
	total := fab.WholePath(path)
	row := linkRow(columns, &total, "whole path")
	for i, head := range heads[1:] {
		if !slices.Contains([]string{"bandwidth ", "latency ", "state"}, head) {
			row[i+1] = ""
		}
	}
	t.AppendRow(row)
	t.Render()
}
