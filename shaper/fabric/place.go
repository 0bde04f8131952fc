// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"fmt"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
)

// Placement is the rank of this process and its emulated node.
type Placement struct {
	Rank   int    // -1 if no variable gives it
	World  int    // ranks of the job, 0 if no variable gives it
	Node   int    // emulated node
	Source string // the variable that gives the node
}

// NodeEnv is the variable that names a process's emulated node directly.
const NodeEnv = "DDLEMU_NODE"

// Variables in which launchers give a process's rank and the number of ranks. The first
// one that is set counts. torchrun, Open MPI, PMIx, MPICH, Slurm. LOCAL_RANK is the rank
// only for a launcher that sets no other variable.
var (
	rankEnv  = []string{"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "LOCAL_RANK"}
	worldEnv = []string{"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", "LOCAL_WORLD_SIZE"}
)

// NodeOf is the emulated node of this process on a fabric of nodes nodes with
// gpusPerNode ranks each, 0 if the fabric does not give it. getenv reads a variable;
// "" counts as unset. The node comes from, in this order:
//
//  1. DDLEMU_NODE, as 1 or node1,
//  2. GROUP_RANK if GROUP_WORLD_SIZE is above 1: each torchrun agent is a node,
//  3. the rank divided by gpusPerNode, or by world size / nodes, which must divide.
//
// If none of them is set, or the fabric lacks the node, the error is a *configs.Error
// that names DDLEMU_NODE.
func NodeOf(getenv func(string) string, nodes, gpusPerNode int) (Placement, error) {
	p, rankFrom, worldFrom, err := rankOf(getenv)
	if err != nil {
		return Placement{}, err
	}
	if err := p.place(getenv, nodes, gpusPerNode, rankFrom, worldFrom); err != nil {
		return Placement{}, err
	}
	if p.Node >= nodes {
		return Placement{}, refuse(p.Source, "places this rank on node %d: the fabric has node 0 to %d", p.Node,
			nodes-1)
	}
	return p, nil
}

// RankOf is the rank of this process and the number of ranks of its job, without a node.
func RankOf(getenv func(string) string) (Placement, error) {
	p, _, _, err := rankOf(getenv)
	return p, err
}

func rankOf(getenv func(string) string) (p Placement, rankFrom, worldFrom string, err error) {
	p = Placement{Rank: -1}
	if rankFrom, err = first(getenv, rankEnv, &p.Rank); err != nil {
		return Placement{}, "", "", err
	}
	if worldFrom, err = first(getenv, worldEnv, &p.World); err != nil {
		return Placement{}, "", "", err
	}
	if worldFrom != "" && p.World < 1 {
		return Placement{}, "", "", refuse(worldFrom, "%d: a job has at least 1 rank", p.World)
	}
	if worldFrom != "" && p.Rank >= p.World {
		return Placement{}, "", "", refuse(rankFrom, "rank %d of the %d in %s: must be 0 to %d", p.Rank, p.World,
			worldFrom, p.World-1)
	}
	return p, rankFrom, worldFrom, nil
}

// place finds the node. It does not check that the fabric has it.
func (p *Placement) place(getenv func(string) string, nodes, gpusPerNode int, rankFrom, worldFrom string) error {
	if text := getenv(NodeEnv); text != "" {
		node, err := configs.ParseInt(strings.TrimPrefix(text, "node"))
		if err != nil {
			return refuse(NodeEnv, "%q is not a node: it must be 0 to %d", text, nodes-1)
		}
		p.Node, p.Source = node, NodeEnv
		return nil
	}
	if agents := 0; getenv("GROUP_WORLD_SIZE") != "" {
		if _, err := first(getenv, []string{"GROUP_WORLD_SIZE"}, &agents); err != nil {
			return err
		}
		if agents > 1 {
			return p.placeByAgent(getenv, agents)
		}
	}
	if rankFrom == "" {
		return refuse(NodeEnv,
			"unset, and no launcher's variable (%s) gives the rank: start the process with a launcher, or set %s",
			strings.Join(rankEnv, ", "), NodeEnv)
	}
	return p.placeByRank(nodes, gpusPerNode, rankFrom, worldFrom)
}

func (p *Placement) placeByAgent(getenv func(string) string, agents int) error {
	from, err := first(getenv, []string{"GROUP_RANK"}, &p.Node)
	switch {
	case err != nil:
		return err
	case from == "":
		return refuse("GROUP_RANK", "unset although GROUP_WORLD_SIZE is %d", agents)
	case p.Node >= agents:
		return refuse("GROUP_RANK", "%d: must be below GROUP_WORLD_SIZE, which is %d", p.Node, agents)
	}
	p.Source = from
	return nil
}

func (p *Placement) placeByRank(nodes, gpusPerNode int, rankFrom, worldFrom string) error {
	switch {
	case gpusPerNode > 0 && p.World > nodes*gpusPerNode:
		return refuse(worldFrom, "%d ranks are more than the fabric's %d nodes x %s: give --set gpus_per_node=%d", p.World,
			nodes, units.Count(gpusPerNode, "GPU"), (p.World+nodes-1)/nodes)
	case gpusPerNode == 0 && worldFrom == "":
		return refuse(worldEnv[0], "unset, so the GPUs per node are not known: give them with the fabric")
	case gpusPerNode == 0 && p.World%nodes != 0:
		return refuse(worldFrom, "%d ranks do not divide among %d nodes: give the GPUs per node with the fabric",
			p.World, nodes)
	case gpusPerNode == 0:
		gpusPerNode = p.World / nodes
	}
	p.Node, p.Source = p.Rank/gpusPerNode, rankFrom
	return nil
}

// first reads the first of names that is set and returns its name.
func first(getenv func(string) string, names []string, dst *int) (string, error) {
	for _, name := range names {
		text := getenv(name)
		if text == "" {
			continue
		}
		n, err := configs.ParseInt(text)
		if err != nil {
			return "", refuse(name, "%w", err)
		}
		*dst = n
		return name, nil
	}
	return "", nil
}

// WorldOf is the number of ranks of this process's job, 0 if no variable gives it.
func WorldOf(getenv func(string) string) (int, error) {
	world := 0
	from, err := first(getenv, worldEnv, &world)
	if err == nil && from != "" && world < 1 {
		err = refuse(from, "%d: a job has at least 1 rank", world)
	}
	return world, err
}

// refuse is an error about a variable. It tells the user to set NodeEnv instead.
func refuse(name, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if name != NodeEnv {
		err = fmt.Errorf("%w; or set %s to this process's node", err, NodeEnv)
	}
	return &configs.Error{Where: name, Err: err}
}
