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
	"github.com/ddlemu/ddlemu/shaper/nccl/topofile"
)

// vmTopology is the file that NCCL reads without NCCL_TOPO_FILE. In a virtual machine it
// describes the host's PCI bus.
const vmTopology = "/var/run/nvidia-topologyd/virtualTopology.xml"

// What NCCL decides by, in messages.
const (
	byFabric = "the fabric's view"
	byHost   = "the host's view"
)

// setVariables sets the variables of NCCL that the fabric's net sets on the real cluster. NCCL reads them after it has
// loaded the net.
func setVariables(variables map[string]string) error {
	for name, value := range variables {
		if getenv(name) != "" {
			continue
		}
		if err := setVariable(name, value); err != nil {
			return err
		}
	}
	return nil
}

// setVariable sets a variable of this process.
func setVariable(name, value string) error {
	n, v := C.CString(name), C.CString(value)
	defer C.free(unsafe.Pointer(n))
	defer C.free(unsafe.Pointer(v))
	if C.net_setenv(n, v) != 0 {
		return fmt.Errorf("set %s", name)
	}
	return nil
}

// setView gives NCCL a topology file that describes the emulated node, before NCCL looks at the
// machine, and keeps in decidesBy what NCCL will decide by.
func (m *member) setView(f *fabric.Fabric, gpu string) error {
	want := getenv(configs.NCCLViewEnv)
	if want == "" {
		want = f.Config.View()
	}
	if _, err := configs.ParseNCCLView(want); err != nil {
		return fmt.Errorf("%s: %w", configs.NCCLViewEnv, err)
	}
	if err := checkKind(f); err != nil {
		return err
	}
	real := gpu != ""
	C.net_set_without_ll128(boolInt(real))
	soft := busID(true)
	given, ignored := usersTopology(real, soft)
	if want == configs.HostView {
		m.decidesBy = byHost + ignored
		if given == "" {
			C.unsetenv(topoName)
		}
		return nil
	}
	direct := !real && soft != "" && f.Config.HasGPUDirect()
	C.net_set_direct(boolInt(direct))
	if given != "" {
		m.decidesBy = fmt.Sprintf("the topology in %s=%s, which is kept", configs.TopologyEnv, given)
		return nil
	}
	if _, err := os.Stat(vmTopology); err == nil && real {
		m.decidesBy = byHost + ", since this machine has a topology of its own in " + vmTopology
		return nil
	}
	shape := m.shape(f)
	if err := f.Config.CheckGPUs(shape.GPUs); err != nil {
		return err
	}
	node := view.Of(f, view.ReadHost(os.DirFS("/")), shape, soft, direct)
	text, err := node.XML()
	if err != nil {
		return fmt.Errorf("write the topology file: %w", err)
	}
	m.decidesBy = byFabric + ignored
	if real && f.Config.HasGPUDirect() {
		m.decidesBy += configs.WithoutLL128
	}
	return setTopology(text)
}

// checkKind says if the software CUDA does not show the fabric's kind of GPU: it reads it from the file of the fabric
// at the first call of CUDA, and this fabric may have been made later.
func checkKind(f *fabric.Fabric) error {
	shown, want := C.net_soft_kind(), f.Config.GPUName()
	if shown == nil || C.GoString(shown) == want {
		return nil
	}
	return fmt.Errorf("the software CUDA shows GPUs of kind %q and the fabric has %q: bring the fabric up before the job "+
		"starts, with `ddlemu up`, or start the job with `ddlemu run`", C.GoString(shown), want)
}

// usersTopology is the topology file that the user gave. On the software CUDA, ignored says why a file that NCCL
// cannot use there is left out, for the end of decidesBy.
func usersTopology(real bool, soft string) (given, ignored string) {
	given = getenv(configs.TopologyEnv)
	if strings.HasPrefix(given, topofile.Private) {
		return "", ""
	}
	if given == "" || real || soft == "" {
		return given, ""
	}
	if why := topofile.Problem(given, topofile.Names{GPU: soft, NIC: fabric.NICName}); why != "" {
		return "", fmt.Sprintf("; %s=%s is not used: %s", configs.TopologyEnv, given, why)
	}
	return given, ""
}

// shape is the GPUs of this rank's node, and which one the rank uses.
func (m *member) shape(f *fabric.Fabric) view.Shape {
	s := view.Shape{Node: m.placement.Node, GPUs: f.Config.GPUsPerNode}
	if s.GPUs == 0 {
		s.GPUs = max(m.placement.World/f.Config.Nodes, 1)
	}
	// LOCAL_RANK counts within this machine or, with torchrun, within an agent, which is a node.
	local := m.placement.Rank
	if n, err := configs.ParseInt(getenv("LOCAL_RANK")); err == nil {
		local = n
	}
	s.GPU = max(local, 0) % s.GPUs
	return s
}

// setTopology sets NCCL_TOPO_FILE to a file in memory with this text. The file ends with the
// process, however that ends.
func setTopology(text []byte) error {
	fd, err := unix.MemfdCreate("ddlemu-topology", unix.MFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("make the topology file: %w", err)
	}
	// It stays open: NCCL opens it by its path for each communicator.
	for len(text) > 0 {
		n, err := unix.Write(fd, text)
		if err != nil {
			unix.Close(fd)
			return fmt.Errorf("write the topology file: %w", err)
		}
		text = text[n:]
	}
	if err := setVariable(configs.TopologyEnv, fmt.Sprintf("%s%d", topofile.Private, fd)); err != nil {
		unix.Close(fd)
		return err
	}
	return nil
}

var topoName = C.CString(configs.TopologyEnv)
