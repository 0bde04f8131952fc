// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"github.com/ddlemu/ddlemu/shaper/nccl/player"
	"github.com/ddlemu/ddlemu/shaper/nccl/player/events"
)

type (
	// Fabric is the fabric of a player.
	Fabric = player.Fabric
	// Nodes is what its nodes cost.
	Nodes = player.Nodes
	// Conn is a connection of a plan.
	Conn = player.Conn
	// Part is a part of a time.
	Part = player.Part
)

// choose returns the player. This is the only place that names one.
func choose() player.Player { return events.Player{} }
