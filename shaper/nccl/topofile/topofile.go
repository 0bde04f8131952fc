// SPDX-License-Identifier: Apache-2.0

// Package topofile says whether a topology file of NCCL (NCCL_TOPO_FILE) describes an emulated node. Images of clouds
// set the variable to a file of their own machines. NCCL on the software CUDA cannot use such a file: it has neither
// the software GPUs nor the emulated NICs, and NCCL 2.22 fails with an internal error.
package topofile

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Names are what a node of the software CUDA has.
type Names struct {
	GPU string // PCI bus id of the rank's GPU, as 0000:10:00.0
	NIC string // how the names of its NICs begin
}

// The software GPUs are on the buses firstBus to lastBus of domain 0 (cuda/soft/runtime/gpus.h).
const firstBus, lastBus = 0x10, 0x2f

// MostGPUs is the most GPUs that the software CUDA has. More ranks than that use them several times, on different
// nodes.
const MostGPUs = lastBus - firstBus + 1

// Private begins the path of a file that a process has open, and that no other process can open by it. The plugin makes
// such files. A variable with such a path was inherited from another process.
const Private = "/proc/self/fd/"

// BusID is the PCI bus id of a software GPU.
func BusID(gpu int) string { return fmt.Sprintf("0000:%02x:00.0", firstBus+gpu) }

// NumberOf is the software GPU with a PCI bus id, false if it is none.
func NumberOf(id string) (gpu int, ok bool) {
	rest, ok := strings.CutPrefix(id, "0000:")
	bus, device, found := strings.Cut(rest, ":")
	n, err := strconv.ParseUint(bus, 16, 8)
	if !ok || !found || err != nil || n < firstBus || n > lastBus || device != "00.0" {
		return 0, false
	}
	return int(n) - firstBus, true
}

// Problem says why NCCL cannot use the file at path for a rank on the software CUDA; "" if it can: the file has the
// rank's GPU and none that is no software GPU, or it has no GPU and one of the node's NICs.
func Problem(path string, n Names) string {
	f, err := os.Open(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return "there is no such file"
		}
		return "it cannot be read"
	}
	defer f.Close()
	return problem(f, n)
}

func problem(r io.Reader, n Names) string {
	gpus, nics, err := devices(r)
	if err != nil {
		return "it is not XML"
	}
	if len(gpus) == 0 && slices.ContainsFunc(nics, func(name string) bool { return strings.HasPrefix(name, n.NIC) }) {
		return ""
	}
	if i := slices.IndexFunc(gpus, func(id string) bool { return !isSoft(id) }); i >= 0 {
		return fmt.Sprintf("it has GPU %s, which is no software GPU", gpus[i])
	}
	if !slices.ContainsFunc(gpus, func(id string) bool { return strings.EqualFold(id, n.GPU) }) {
		return fmt.Sprintf("it does not have the software GPU %s", n.GPU)
	}
	return ""
}

// devices are the bus ids of the GPUs of a topology file, and the names of its NICs.
func devices(r io.Reader) (gpus, nics []string, err error) {
	d := xml.NewDecoder(r)
	d.Strict = false
	for {
		token, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			return gpus, nics, nil
		}
		if err != nil {
			return nil, nil, err
		}
		e, ok := token.(xml.StartElement)
		switch {
		case !ok:
		case e.Name.Local == "pci" && strings.HasPrefix(attribute(&e, "class"), "0x03"):
			gpus = append(gpus, attribute(&e, "busid"))
		case e.Name.Local == "net":
			nics = append(nics, attribute(&e, "name"))
		}
	}
}

func attribute(e *xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// isSoft says whether a bus id belongs to a software GPU.
func isSoft(id string) bool {
	_, ok := NumberOf(id)
	return ok
}
