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

// CPU is a processor, with NCCL's names: NCCL's tuning depends on the vendor.
type CPU struct {
	Arch                  string // x86_64, arm64 or ppc64
	Vendor, Family, Model string // from /proc/cpuinfo; empty unless x86_64
}

// Host is what the file says about this machine. The zero value of a field means unknown,
// for NCCL too.
type Host struct {
	CPU  CPU
	NUMA []int // the NUMA nodes, ascending
	GPUs []HostGPU
}

// HostGPU is an NVIDIA GPU on the PCI bus.
type HostGPU struct {
	BusID string // as 0000:3b:00.0
	NUMA  int    // NoNUMA if the kernel does not say
}

// NoNUMA is the number of the CPU for devices whose NUMA node is unknown.
const NoNUMA = -1

// ReadHost describes the machine whose root folder is root, from /proc and /sys. It leaves out
// what it does not find: containers hide some of it.
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
			delete(wanted, name) // the other processors are ignored
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

// readGPUs finds NVIDIA's display controllers, in the order of bus IDs, as NVML and
// CUDA_DEVICE_ORDER=PCI_BUS_ID number them.
func readGPUs(root fs.FS) []HostGPU {
	const vendor, display = "0x10de", "0x03"
	devices, _ := fs.Glob(root, "sys/bus/pci/devices/*")
	slices.Sort(devices)
	var gpus []HostGPU
	for _, dev := range devices {
		if readWord(root, dev, "vendor") != vendor || !strings.HasPrefix(readWord(root, dev, "class"), display) {
			continue
		}
		numa, err := strconv.Atoi(readWord(root, dev, "numa_node"))
		if err != nil {
			numa = NoNUMA
		}
		gpus = append(gpus, HostGPU{BusID: path.Base(dev), NUMA: numa})
	}
	return gpus
}

func readWord(root fs.FS, dir, name string) string {
	text, err := fs.ReadFile(root, path.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
