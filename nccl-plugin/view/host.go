// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bufio"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// CPU is this host's processor as NCCL names it: its tuning depends on the vendor.
type CPU struct {
	Arch                  string // x86_64, arm64 or ppc64
	Vendor, Family, Model string // as /proc/cpuinfo has them; empty on other than x86_64
}

// Host is what the file says of this machine. The zero value of a field is what
// NCCL itself takes for unknown.
type Host struct {
	CPU  CPU
	NUMA []int // the NUMA nodes, in order
	GPUs []HostGPU
}

// HostGPU is one of NVIDIA's GPUs on the PCI bus.
type HostGPU struct {
	BusID string // as 0000:3b:00.0
	NUMA  int    // -1: of no NUMA node
}

// NoNUMA is the CPU that is not said to be of a NUMA node.
const NoNUMA = -1

// ReadHost reads it from /proc and /sys in root. What is not there is left out:
// containers hide some of it.
func ReadHost(root fs.FS) Host {
	return Host{CPU: readCPU(root), NUMA: readNUMA(root), GPUs: readGPUs(root)}
}

func readCPU(root fs.FS) CPU {
	switch runtime.GOARCH {
	case "amd64":
	case "ppc64", "ppc64le":
		return CPU{Arch: "ppc64"}
	default:
		return CPU{Arch: runtime.GOARCH}
	}
	c := CPU{Arch: "x86_64", Vendor: "unknown", Family: "0", Model: "0"}
	f, err := root.Open("proc/cpuinfo")
	if err != nil {
		return c
	}
	defer f.Close()
	wanted := map[string]*string{"vendor_id": &c.Vendor, "cpu family": &c.Family, "model": &c.Model}
	for lines := bufio.NewScanner(f); lines.Scan() && len(wanted) > 0; {
		name, value, _ := strings.Cut(lines.Text(), ":")
		name = strings.TrimSpace(name)
		if field := wanted[name]; field != nil {
			*field = strings.TrimSpace(value)
			delete(wanted, name) // of the first processor
		}
	}
	return c
}

func readNUMA(root fs.FS) []int {
	dirs, _ := fs.Glob(root, "sys/devices/system/node/node[0-9]*")
	var nodes []int
	for _, dir := range dirs {
		if n, err := strconv.Atoi(strings.TrimPrefix(path.Base(dir), "node")); err == nil {
			nodes = append(nodes, n)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// readGPUs finds what is NVIDIA's and a display controller, in the order of bus ids,
// which is NVML's and CUDA_DEVICE_ORDER=PCI_BUS_ID.
func readGPUs(root fs.FS) []HostGPU {
	const vendor, display = "0x10de", "0x03"
	devices, _ := fs.Glob(root, "sys/bus/pci/devices/*")
	slices.Sort(devices)
	var gpus []HostGPU
	for _, dev := range devices {
		if word(root, dev, "vendor") != vendor || !strings.HasPrefix(word(root, dev, "class"), display) {
			continue
		}
		numa, err := strconv.Atoi(word(root, dev, "numa_node"))
		if err != nil {
			numa = NoNUMA
		}
		gpus = append(gpus, HostGPU{BusID: path.Base(dev), NUMA: numa})
	}
	return gpus
}

func word(root fs.FS, dir, name string) string {
	text, err := fs.ReadFile(root, path.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
