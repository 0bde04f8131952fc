// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"net"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/host"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
)

// Prepare checks that this host can have a fabric on the kernel datapath and settles what its
// configuration leaves open: its subnet. What the user can mend is a *configs.Error.
func Prepare(fab *fabric.Fabric) error {
	c := &fab.Config
	if onNode() {
		// What is mounted here nobody else sees, see package enter.
		return configs.Errorf("", "this runs on a node of a fabric: bring up another one of the kernel datapath on the host")
	}
	if err := CheckPrivileges(); err != nil {
		return err
	}
	if c.Link.MTU > nodes.MaxMTU {
		return configs.Errorf("mtu", "%d: the kernel datapath has at most %d", c.Link.MTU, nodes.MaxMTU)
	}
	if c.Subnet != "" {
		used, err := nodes.OverlappingRoute(c.Subnet)
		if err != nil {
			return err
		}
		if used != "" {
			return configs.Errorf("subnet", "%s: this host has %s: give another --subnet", c.Subnet, used)
		}
		return nil
	}
	var err error
	c.Subnet, err = nodes.FreeSubnet()
	return err
}

// onNode says whether this process is on an emulated node: only these have such NICs.
func onNode() bool {
	all, err := net.Interfaces()
	return err == nil && slices.ContainsFunc(all, func(i net.Interface) bool { return netns.NICOfMAC(i.HardwareAddr) >= 0 })
}

// CheckPrivileges says which capability the kernel datapath lacks, in a
// *configs.Error.
func CheckPrivileges() error {
	lack := host.Machine{}.KernelLacks()
	if len(lack) == 0 {
		return nil
	}
	return configs.Errorf("", "the kernel datapath needs %s: use sudo, or --datapath %s, which needs nothing", strings.Join(lack, ", "), configs.Shm)
}
