// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/kernel/nodes"
)

// Prepare checks that this host can run fab on the kernel datapath. If the configuration names no subnet, Prepare
// selects one. An error that the user can correct is a *configs.Error.
func Prepare(fab *fabric.Fabric) error {
	c := &fab.Config
	if onNode() {
		// Namespaces are mounted in a folder, and mounts of a node are not visible on the host: see launch.Exec.
		return configs.Errorf("",
			"this process runs on a node of a fabric: bring up another fabric of the kernel datapath on the host")
	}
	if err := CheckPrivileges(); err != nil {
		return err
	}
	if c.Link.MTU > nodes.MaxMTU {
		return configs.Errorf("mtu", "%d: the kernel datapath supports at most %d", c.Link.MTU, nodes.MaxMTU)
	}
	if c.Subnet != "" {
		used, err := nodes.OverlappingRoute(c.Subnet)
		if err != nil {
			return err
		}
		if used != "" {
			return configs.Errorf("subnet", "%s: this host has %s: give another with --set subnet=NETWORK", c.Subnet, used)
		}
		return nil
	}
	var err error
	c.Subnet, err = nodes.FreeSubnet()
	return err
}

// onNode reports whether this process runs on an emulated node: only nodes have NICs with ddlemu's MAC addresses.
func onNode() bool {
	all, err := net.Interfaces()
	return err == nil &&
		slices.ContainsFunc(all, func(i net.Interface) bool { return netns.NICOfMAC(i.HardwareAddr) >= 0 })
}

// CheckPrivileges returns a *configs.Error that names the capabilities that the kernel datapath needs and this process
// lacks, or nil.
func CheckPrivileges() error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return fmt.Errorf("read the capabilities of this process: %w", err)
	}
	missing := netns.MissingCapabilities(string(status))
	if len(missing) == 0 {
		return nil
	}
	return configs.Errorf("", "the kernel datapath needs %s: use sudo, or --set datapath=%s, which needs nothing",
		strings.Join(missing, ", "), configs.Shm)
}
