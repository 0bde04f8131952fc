// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/kernel/build"
)

// prepareKernel checks that a fabric can be on the kernel datapath and settles what
// the file leaves open: its subnet.
func prepareKernel(fab *fabric.Fabric) error {
	if err := checkPrivileges(); err != nil {
		return err
	}
	c := &fab.Config
	mtu := uint32(c.Link.MTU)
	for i, h := range fab.Hops {
		if h.Spec.MTU != mtu {
			return badInput("%s has the mtu %d, others %d: the kernel datapath has one for all NICs", fab.HopName(i), h.Spec.MTU, mtu)
		}
	}
	if c.Link.MTU > build.MaxMTU {
		return badInput("mtu %d: the kernel datapath has at most %d", c.Link.MTU, build.MaxMTU)
	}
	if c.Subnet != "" {
		used, err := build.InUse(c.Subnet)
		if err != nil {
			return err
		}
		if used != "" {
			return badInput("subnet %s: this host has %s: give another --subnet", c.Subnet, used)
		}
		return nil
	}
	var err error
	c.Subnet, err = build.FreeSubnet()
	return err
}

// checkPrivileges says which capability the kernel datapath lacks.
func checkPrivileges() error {
	var lack []string
	for _, c := range []struct {
		bit  uint
		name string
	}{{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"}, {unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN"}, {unix.CAP_NET_RAW, "CAP_NET_RAW"}} {
		if !capable(c.bit) {
			lack = append(lack, c.name)
		}
	}
	if len(lack) == 0 {
		return nil
	}
	return badInput("the kernel datapath needs %s: use sudo, or --datapath %s, which needs nothing", strings.Join(lack, ", "), configs.Shm)
}

// capable says whether this process has a capability in force.
func capable(bit uint) bool {
	var data [2]unix.CapUserData
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3, Pid: int32(os.Getpid())}
	return unix.Capget(&header, &data[0]) == nil && data[bit/32].Effective>>(bit%32)&1 == 1
}

// nodeOf is the number of a node called name, node0 and on.
func nodeOf(fab *fabric.Fabric, name string) (int, error) {
	for n := range fab.Config.Nodes {
		if name == fmt.Sprintf("node%d", n) {
			return n, nil
		}
	}
	return 0, badInput("%q is not a node of fabric %s: there are node0 to node%d", name, fab.Config.Name, fab.Config.Nodes-1)
}
