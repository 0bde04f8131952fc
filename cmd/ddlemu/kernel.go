// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/fabric"
)

// nodeOf is the number of a node called name, node0 and on.
func nodeOf(fab *fabric.Fabric, name string) (int, error) {
	for n := range fab.Config.Nodes {
		if name == fmt.Sprintf("node%d", n) {
			return n, nil
		}
	}
	return 0, badInput("%q is not a node of fabric %s: there are node0 to node%d", name, fab.Config.Name, fab.Config.Nodes-1)
}
