// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"slices"
	"strconv"
)

// The elements of a topology file, with the attributes that NCCL requires.
type (
	system struct {
		XMLName xml.Name `xml:"system"`
		Version string   `xml:"version,attr"`
		CPUs    []cpu    `xml:"cpu"`
	}
	cpu struct {
		NUMA int `xml:"numaid,attr"`
		// Affinity is a set of this host's processors; "" = NCCL finds it.
		Affinity string `xml:"affinity,attr,omitempty"`
		Arch     string `xml:"arch,attr"`
		Vendor   string `xml:"vendor,attr,omitempty"`
		Family   string `xml:"familyid,attr,omitempty"`
		Model    string `xml:"modelid,attr,omitempty"`
		PCI      []pci  `xml:"pci"`
	}
	pci struct {
		BusID string `xml:"busid,attr"`
		Class string `xml:"class,attr"`
		Speed string `xml:"link_speed,attr"`
		Width int    `xml:"link_width,attr"`
		GPU   *gpu   `xml:"gpu"`
		NIC   *nic   `xml:"nic"`
		PCI   []pci  `xml:"pci"`
	}
	gpu struct {
		NVLinks []nvlink `xml:"nvlink"`
		C2C     *c2c     `xml:"c2c"`
	}
	c2c struct {
		MBps  int `xml:"bw,attr"` // of one link
		Count int `xml:"count,attr"`
	}
	nvlink struct {
		Target string `xml:"target,attr"`
		Count  int    `xml:"count,attr"`
		Class  string `xml:"tclass,attr"`
	}
	nic struct {
		Net net `xml:"net"`
	}
	net struct {
		Name    string `xml:"name,attr"`
		Speed   int    `xml:"speed,attr"`   // Mb/s
		Latency string `xml:"latency,attr"` // us
		Port    int    `xml:"port,attr"`
		GUID    string `xml:"guid,attr"`
		GDR     int    `xml:"gdr,attr"`
	}
)

// PCI device classes.
const (
	bridgeClass   = "0x060400"
	displayClass  = "0x030200"
	networkClass  = "0x020000"
	nvSwitchClass = "0x068000"
)

// Bus IDs of emulated devices, in PCI domains that no host has.
func nicBusID(n int) string    { return fmt.Sprintf("dde0:%02x:00.0", n+1) }
func switchBusID(n int) string { return fmt.Sprintf("dde1:%02x:00.0", n+1) }

const nvSwitchBusID = "dde2:01:00.0"

const slotWidth = 16 // lanes

// slots are the generations of PCI Express: the speed as /sys writes it, and the rate of 16
// lanes in NCCL (kvDictPciGen, graph/topo.cc).
var slots = []struct {
	speed string
	mbps  int
}{
	{"8.0 GT/s PCIe", 96_000}, {"16.0 GT/s PCIe", 192_000}, {"32.0 GT/s PCIe", 384_000}, {"64.0 GT/s PCIe", 768_000},
}

// slotFor is the oldest generation that carries 95 % of mbps, or the newest if none does. Real
// NICs nearly fill their slot: a NIC of 400 Gb/s is made for generation 5.
func slotFor(mbps int) string {
	for _, s := range slots {
		if s.mbps >= mbps*95/100 {
			return s.speed
		}
	}
	return slots[len(slots)-1].speed
}

// XML returns the topology file.
func (n *Node) XML() ([]byte, error) {
	top := system{Version: "1"}
	if n.Soft != nil && n.Soft.Kind != nil {
		top.CPUs = n.kindCPUs()
		return xml.MarshalIndent(top, "", "  ")
	}
	for _, numa := range n.cpus() {
		c := n.Host.CPU
		top.CPUs = append(top.CPUs, cpu{NUMA: numa, Arch: c.Arch, Vendor: c.Vendor, Family: c.Family, Model: c.Model,
			PCI: n.devices(numa)})
	}
	return xml.MarshalIndent(top, "", "  ")
}

// devices are the PCI devices on the CPU of a NUMA node.
func (n *Node) devices(numa int) []pci {
	var all []pci
	if n.Direct && n.Soft != nil {
		if numa == NoNUMA {
			all = n.switches()
		}
		return all
	}
	for i, nic := range n.NICs {
		if nic.NUMA == numa && !nic.Down {
			all = append(all, n.card(i))
		}
	}
	if n.Soft != nil && numa == NoNUMA {
		all = append(all, n.softGPU())
	}
	return all
}

// switches are the PCI switches, with the NICs and this rank's GPU on them.
func (n *Node) switches() []pci {
	var numbers []int
	for _, nic := range n.NICs {
		numbers = append(numbers, nic.Switch)
	}
	slices.Sort(numbers)
	var all []pci
	for _, s := range slices.Compact(numbers) {
		sw := pci{BusID: switchBusID(s), Class: bridgeClass, Speed: slotFor(n.speedOn(s)), Width: slotWidth}
		if n.Soft.Switch == s {
			sw.PCI = append(sw.PCI, n.softGPU())
		}
		for i, nic := range n.NICs {
			if nic.Switch == s && !nic.Down {
				sw.PCI = append(sw.PCI, n.card(i))
			}
		}
		all = append(all, sw)
	}
	return all
}

// speedOn is the speed in Mb/s of all NICs on a switch.
func (n *Node) speedOn(sw int) int {
	sum := 0
	for _, nic := range n.NICs {
		if nic.Switch == sw {
			sum += nic.SpeedMbps
		}
	}
	return sum
}

// softGPU is the PCI device of the software GPU, in its slot, or in one that carries all NICs of its switch. NCCL
// takes all NVSwitches of a node for one.
func (n *Node) softGPU() pci {
	slot := cmp.Or(n.Soft.slotMbps(), n.speedOn(n.Soft.Switch))
	p := pci{BusID: n.Soft.BusID, Class: displayClass, Speed: slotFor(slot), Width: slotWidth}
	var g gpu
	if n.Soft.addLinks(&g); g.NVLinks != nil || g.C2C != nil {
		p.GPU = &g
	}
	return p
}

// card is the PCI device of a NIC.
func (n *Node) card(i int) pci {
	p := n.NICs[i]
	gdr := 0
	if n.Direct {
		gdr = 1
	}
	return pci{
		BusID: nicBusID(i), Class: networkClass, Speed: slotFor(p.SpeedMbps), Width: slotWidth,
		NIC: &nic{net{
			Name: p.Name, Speed: p.SpeedMbps, Latency: strconv.FormatFloat(p.LatencyUs, 'f', -1, 64),
			Port: p.Port, GUID: fmt.Sprintf("0x%x", p.GUID), GDR: gdr,
		}},
	}
}
