// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// printPaths prints the ways of the pairs that pattern names, hop by hop.
func (g *global) printPaths(fab *fabric.Fabric, pattern string) error {
	hops, err := fab.Select(pattern)
	if err != nil {
		return err
	}
	printed := 0
	for _, hop := range hops {
		if h := fab.Hops[hop]; h.Kind == fabric.Link {
			if printed > 0 {
				fmt.Fprintln(g.Stdout)
			}
			g.printPath(fab, h.Src, h.Dst)
			printed++
		}
	}
	if printed == 0 {
		return badInput("--path: %q names links between switches: name a pair, as node0:node1", pattern)
	}
	return nil
}

// printPath prints the way from one NIC to another, and what all its hops come to: the
// least rate and the sum of the latencies.
func (g *global) printPath(fab *fabric.Fabric, src, dst int) {
	t := newTable(g.Stdout, fab.NICName(src)+" to "+fab.NICName(dst), "bandwidth ", "latency ", "queue", "jitter", "loss", "state")
	least, up := units.Unlimited, true
	for _, step := range fab.Path(src, dst) {
		l := fabric.LinkOf(fab.Hops[step.Hop].Spec)
		t.AppendRow(table.Row{fab.HopName(step.Hop), l.Bandwidth, l.Latency, l.Queue, l.Jitter, l.Loss, upOrDown(l.Up)})
		if least == units.Unlimited || l.Bandwidth != units.Unlimited && l.Bandwidth < least {
			least = l.Bandwidth
		}
		up = up && l.Up
	}
	t.AppendRow(table.Row{"all of it", least, fab.Latency(src, dst), "", "", "", upOrDown(up)})
	t.Render()
}
