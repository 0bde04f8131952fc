// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
)

// Network is what a shaper is started on: a fabric whose namespaces exist. The NICs are up, and the ports of the switch
// are not yet connected to each other.
type Network struct {
	File   *state.File
	Fabric *fabric.Fabric
	Plan   *netns.Plan
}
