// SPDX-License-Identifier: Apache-2.0

package main

/*
#include <stdlib.h>
#include "glue.h"
*/
import "C"

import (
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/nccl-plugin/view"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

const (
	// fdPrefix begins the name of a file that this process has open. Nobody but us names
	// a topology file so: where it is inherited it means nothing, and is made anew.
	fdPrefix = "/proc/self/fd/"

	// vmTopology is what NCCL reads without NCCL_TOPO_FILE: the host of a virtual machine
	// describes in it the PCI bus that the machine does not show.
	vmTopology = "/var/run/nvidia-topologyd/virtualTopology.xml"
)

// What NCCL decides by, as the log words it.
const (
	byFabric = "the fabric's view"
	byHost   = "the host's view"
)

// setView tells NCCL of the emulated node, before it looks at the machine, and keeps
// in decidesBy what NCCL will decide by.
func (m *member) setView(f *fabric.Fabric, gpu string) error {
	want := getenv(configs.NCCLViewEnv)
	if want == "" {
		want = f.Config.View()
	}
	if _, err := configs.ParseNCCLView(want); err != nil {
		return fmt.Errorf("%s: %w", configs.NCCLViewEnv, err)
	}
	real := gpu != ""
	C.net_set_without_ll128(boolInt(real)) // by whatever NCCL decides
	users := getenv(configs.TopologyEnv)
	if strings.HasPrefix(users, fdPrefix) {
		users = ""
	}
	if want == configs.HostView {
		m.decidesBy = byHost
		if users == "" {
			C.unsetenv(topoName)
		}
		return nil
	}
	soft := softGPU()
	direct := !real && soft != "" && f.Config.HasGPUDirect()
	C.net_set_direct(boolInt(direct))
	if users != "" {
		m.decidesBy = fmt.Sprintf("the topology in %s=%s, which is kept", configs.TopologyEnv, users)
		return nil
	}
	if _, err := os.Stat(vmTopology); err == nil && real {
		m.decidesBy = byHost + ", since this machine has a topology of its own in " + vmTopology
		return nil
	}
	node := view.Of(f, view.ReadHost(os.DirFS("/")), m.shape(f), soft, direct)
	text, err := node.XML()
	if err != nil {
		return fmt.Errorf("write the topology file: %w", err)
	}
	m.decidesBy = byFabric
	if real && f.Config.HasGPUDirect() {
		m.decidesBy += configs.WithoutLL128
	}
	return setTopology(text)
}

// shape is which of its node's GPUs this rank has.
func (m *member) shape(f *fabric.Fabric) view.Shape {
	s := view.Shape{Node: m.place.Node, GPUs: f.Config.GPUsPerNode}
	if s.GPUs == 0 {
		s.GPUs = max(m.place.World/f.Config.Nodes, 1)
	}
	// LOCAL_RANK counts within the machine or within a torchrun agent, which is a node.
	local := m.place.Rank
	if n, err := configs.ParseInt(getenv("LOCAL_RANK")); err == nil {
		local = n
	}
	s.GPU = max(local, 0) % s.GPUs
	return s
}

// setTopology makes text what NCCL_TOPO_FILE names: a file in memory that is gone
// with the process, however that ends.
func setTopology(text []byte) error {
	fd, err := unix.MemfdCreate("ddlemu-topology", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("make the topology file: %w", err)
	}
	// NCCL opens it again for each communicator, so it stays open.
	for len(text) > 0 {
		n, err := unix.Write(fd, text)
		if err != nil {
			unix.Close(fd)
			return fmt.Errorf("write the topology file: %w", err)
		}
		text = text[n:]
	}
	path := C.CString(fmt.Sprintf("%s%d", fdPrefix, fd))
	defer C.free(unsafe.Pointer(path))
	if C.net_setenv(topoName, path) != 0 {
		unix.Close(fd)
		return fmt.Errorf("set %s", configs.TopologyEnv)
	}
	return nil
}

var topoName = C.CString(configs.TopologyEnv)

// softGPU is the bus id of this thread's software GPU, "" if there is none.
func softGPU() string {
	var text [64]C.char
	if C.net_soft_gpu(&text[0], C.size_t(len(text))) == 0 {
		return ""
	}
	return C.GoString(&text[0])
}

func boolInt(b bool) C.int {
	if b {
		return 1
	}
	return 0
}
