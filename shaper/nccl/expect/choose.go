// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"github.com/ddlemu/ddlemu/shaper/nccl/player"
	"github.com/ddlemu/ddlemu/shaper/nccl/player/events"
)

// The types that callers give to a player.
type (
	Fabric = player.Fabric
	Nodes  = player.Nodes
	Conn   = player.Conn
	Part   = player.Part
)

// choose returns the player. This is the only place that names one.
func choose() player.Player { return events.Player{} }
