// SPDX-License-Identifier: Apache-2.0

// Package topology lays out the switches of a fabric: their names, the switch that
// each NIC is on, the links between switches, and the path from each NIC to each
// other one. It knows neither rates nor latencies.
//
// The kind star, one ideal switch, has no switches and no links here.
package topology

// Kinds of topologies.
const (
	Star      = "star"       // every NIC on one ideal switch
	Rail      = "rail"       // NIC i of every node on switch rail<i>, rails joined by spines
	LeafSpine = "leaf-spine" // nodes on leaves, every leaf on every spine
	FatTree   = "fat-tree"   // k pods of k/2 edge and k/2 aggregation switches, k²/4 cores (Al-Fares et al. 2008)
	Torus     = "torus"      // a switch per node, joined to its neighbours in each dimension
	Ring      = "ring"       // a torus of one dimension
	Dragonfly = "dragonfly"  // groups of routers, all joined within, one link between any two groups (Kim et al. 2008)
	WAN       = "wan"        // sites, each a switch, any two joined by a link
	Islands   = "islands"    // NIC 0 of each group of nodes on a switch of its own, all other NICs on switch net
	Custom    = "custom"     // switches and links by name
)

// Kinds are the kinds in the order in which messages list them.
var Kinds = []string{Star, Rail, LeafSpine, FatTree, Torus, Ring, Dragonfly, WAN, Islands, Custom}

// MaxLinks is the most links between switches that a path may have: of the
// link.MaxHops hops of a path, the two ports and the link of the pair are three.
const MaxLinks = 5

// MaxSwitches is the most switches that a fabric may have.
const MaxSwitches = 1024
