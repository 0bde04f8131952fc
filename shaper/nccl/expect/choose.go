// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"github.com/ddlemu/ddlemu/shaper/nccl/player"
	"github.com/ddlemu/ddlemu/shaper/nccl/player/events"
)

type (
	// Fabric, and the types below, are what callers give to a player.
	Fabric = player.Fabric
	Nodes  = player.Nodes
	Conn   = player.Conn
	Part   = player.Part
)

// choose returns the player. This is the only place that names one.
func choose() player.Player { return events.Player{} }
