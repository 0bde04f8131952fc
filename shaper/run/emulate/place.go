// SPDX-License-Identifier: Apache-2.0

package emulate

import (
	"fmt"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// PlaceFlags says which of --ranks, --nodes and --set gpus_per_node the user gave.
type PlaceFlags struct{ Ranks, Nodes, GPUs bool }

// maxRanks is the most ranks that can take part.
func maxRanks(c *configs.Fabric) int {
	if c.OnKernel() {
		return state.MaxRanks - 1 // the daemon takes part
	}
	return state.MaxRanks
}

// Place returns the number of ranks and sets the nodes and the GPUs per node of c so that they fit: a number that is
// not given follows from the rest, with one rank per node by default. If all are given, no node may be empty; the last
// one may have GPUs without ranks. shared is the name of the fabric that is up and whose nodes cannot change, "" if c
// is for this run alone.
func Place(c *configs.Fabric, ranks int, given PlaceFlags, shared string) (int, error) {
	switch {
	case ranks < 0 || ranks == 0 && given.Ranks:
		return 0, fmt.Errorf("--ranks %d: must be at least 2", ranks)
	case ranks == 0 && c.GPUsPerNode == 0:
		ranks, c.GPUsPerNode = c.Nodes, 1
	case ranks == 0:
		ranks = c.Nodes * c.GPUsPerNode
	case shared != "" && c.GPUsPerNode == 0:
		if ranks%c.Nodes != 0 {
			return 0, fmt.Errorf("--ranks %d: they do not divide among the %s of fabric %s", ranks,
				units.Count(c.Nodes, "node"), shared)
		}
		c.GPUsPerNode = ranks / c.Nodes
	case shared != "" && ranks > c.Nodes*c.GPUsPerNode:
		return 0, fmt.Errorf("--ranks %d: fabric %s has %s x %s", ranks, shared, units.Count(c.Nodes, "node"),
			units.Count(c.GPUsPerNode, "GPU"))
	case given.Nodes && given.GPUs && ranks <= (c.Nodes-1)*c.GPUsPerNode:
		used := (ranks + c.GPUsPerNode - 1) / c.GPUsPerNode
		return 0, fmt.Errorf(
			"%s with %s on each node leave %d of %d nodes empty: change --nodes, --set gpus_per_node or --ranks; if "+
				"the job uses some of a node's GPUs, give the number to --set gpus_per_node=N, and the number of all to "+
				"--set node.gpus=N",
			units.Count(ranks, "rank"), units.Count(c.GPUsPerNode, "GPU"), c.Nodes-used, c.Nodes)
	case given.Nodes && !given.GPUs:
		if c.Nodes == 0 || ranks%c.Nodes != 0 {
			return 0, fmt.Errorf("%d ranks do not divide among %d nodes", ranks, c.Nodes)
		}
		c.GPUsPerNode = ranks / c.Nodes
	case !given.Nodes && !given.GPUs && c.GPUsPerNode == 0:
		c.Nodes, c.GPUsPerNode = ranks, 1
	case !given.Nodes:
		if ranks%max(c.GPUsPerNode, 1) != 0 {
			return 0, fmt.Errorf("%d ranks do not divide among nodes of %d GPUs", ranks, c.GPUsPerNode)
		}
		c.Nodes = ranks / max(c.GPUsPerNode, 1)
	}
	if ranks > c.Nodes*c.GPUsPerNode {
		return 0, fmt.Errorf("%s are more than %s x %s", units.Count(ranks, "rank"), units.Count(c.Nodes, "node"),
			units.Count(c.GPUsPerNode, "GPU"))
	}
	if n := c.Nodes * c.NICsPerNode; !given.Nodes && n > configs.MaxNICs {
		return 0, fmt.Errorf(
			"--ranks %d: %s with %s each are %d NICs, and a fabric has at most %d: give fewer --ranks, or more "+
				"--set gpus_per_node=N",
			ranks, units.Count(c.Nodes, "node"), units.Count(c.NICsPerNode, "NIC"), n, configs.MaxNICs)
	}
	if most := maxRanks(c); ranks > most {
		return 0, fmt.Errorf("--ranks %d: at most %d can take part in a fabric", ranks, most)
	}
	if c.Nodes < 2 && !c.NodeTime {
		return 0, fmt.Errorf("%s on %s: no traffic would cross a link; give at least 2 nodes",
			units.Count(ranks, "rank"), units.Count(c.Nodes, "node"))
	}
	return ranks, c.Validate()
}

// OtherNodes says that the ranks, as Place has put them on c, take another number of nodes than the one given at where,
// such as a line of a file; "" if they take that one.
func OtherNodes(where string, given, ranks int, c *configs.Fabric) string {
	if c.Nodes == given {
		return ""
	}
	note := fmt.Sprintf("%s gives %s, but %s with %s on each node take %d", where, units.Count(given, "node"),
		units.Count(ranks, "rank"),
		units.Count(c.GPUsPerNode, "GPU"), c.Nodes)
	if given > 1 && ranks%given == 0 {
		note += fmt.Sprintf(": --nodes %d puts %s on each", given, units.Count(ranks/given, "rank"))
	}
	return note
}
