// SPDX-License-Identifier: Apache-2.0

package ncclxml

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
)

// machine is a topology file: the devices of a node.
type machine struct {
	cpus []*element
	gpus []gpu
	nics []nic

	// static says that the file has PCI devices only, without <gpu> and <net>, as clouds write it.
	static bool

	gpuIDs     map[string]bool // bus ids of the GPUs
	renumbered bool            // the NICs are not in the file's order
	unknown    map[string]int  // elements and devices that are not used, by what they are
}

// place is where a device is: its CPU and the PCI bridges above it, the outermost first.
type place struct {
	cpu     *element
	bridges []*element
	slot    int // Mb/s of the device's own PCI link, 0 if it has none
}

type gpu struct {
	place
	name            string // bus id
	dev             int    // -1 if the file does not say
	sm              int    // compute capability, 80 for 8.0
	toSwitch, toGPU int    // NVLinks
	c2c             bool
}

type nic struct {
	place
	name    string
	dev     int // -1 if the file does not say
	port    int
	rate    units.Bandwidth // 0 if the file does not say
	latency time.Duration
	guid    string
	gdr     int // -1 if the file does not say
	vendor  string
}

// readMachine finds the devices of a file.
func readMachine(root *element) (*machine, error) {
	m := &machine{unknown: map[string]int{}, gpuIDs: map[string]bool{}}
	m.findGPUs(root)
	m.static = !has(root, "gpu") && !has(root, "net")
	var err error
	for _, e := range root.subs {
		if e.name != "cpu" {
			m.unknown["<"+e.name+">"]++
			continue
		}
		m.cpus = append(m.cpus, e)
		err = cmp.Or(err, m.below(e, place{cpu: e}))
	}
	return m, err
}

// findGPUs notes the bus ids of all devices with a <gpu>.
func (m *machine) findGPUs(e *element) {
	if e.name == "pci" && hasDirect(e, "gpu") {
		m.gpuIDs[e.attr["busid"]] = true
	}
	for _, s := range e.subs {
		m.findGPUs(s)
	}
}

// has reports whether there is an element of this name below e.
func has(e *element, name string) bool {
	return slices.ContainsFunc(e.subs, func(s *element) bool { return s.name == name || has(s, name) })
}

// below finds the devices below a CPU or a bridge.
func (m *machine) below(e *element, at place) (err error) {
	for _, s := range e.subs {
		switch s.name {
		case "pci":
			err = cmp.Or(err, m.pci(s, at))
		case "nic":
			err = cmp.Or(err, m.nets(s, at, ""))
		case "pcilink":
		default:
			m.unknown["<"+s.name+">"]++
		}
	}
	return err
}

// pci is a PCI device or a bridge.
func (m *machine) pci(e *element, at place) error {
	class := e.attr["class"]
	isGPU, isNIC := strings.HasPrefix(class, "0x03"), strings.HasPrefix(class, "0x02")
	inner := place{cpu: at.cpu, bridges: append(slices.Clone(at.bridges), e)}
	at.slot = slotRate(e)
	switch {
	case has(e, "gpu") && !has(e, "pci") || isGPU && m.static:
		return m.addGPU(e, at)
	case hasDirect(e, "pci"):
		return m.below(e, inner)
	case hasDirect(e, "nic"):
		var err error
		e.each("nic", func(n *element) { err = cmp.Or(err, m.nets(n, at, e.attr["vendor"])) })
		return err
	case isNIC && m.static:
		m.nics = append(m.nics, nic{place: at, name: e.attr["busid"], dev: -1, gdr: -1, port: 1,
			vendor: e.attr["vendor"]})
	case class == "":
		m.unknown["PCI device without a class"]++
	default:
		m.unknown["PCI device of class "+class]++
	}
	return nil
}

func hasDirect(e *element, name string) bool {
	return slices.ContainsFunc(e.subs, func(s *element) bool { return s.name == name })
}

// addGPU adds the GPU of a PCI device. With several <gpu>, ranks share it or it is divided.
func (m *machine) addGPU(e *element, at place) (err error) {
	g := gpu{place: at, name: e.attr["busid"], dev: -1}
	seen := 0
	e.each("gpu", func(x *element) {
		if seen++; seen > 1 {
			m.unknown["further <gpu> of one PCI device"]++
			return
		}
		var e1, e2 error
		g.dev, e1 = x.number("dev", -1)
		if x.attr["gcn"] != "" { // then sm is the number of compute units
			m.unknown["gcn, which an AMD GPU has: the software CUDA shows NCCL NVIDIA's A100"]++
		} else {
			g.sm, e2 = x.number("sm", 0)
		}
		err = cmp.Or(e1, e2, m.links(x, &g))
	})
	m.gpus = append(m.gpus, g)
	return err
}

// links counts the links of a GPU to other GPUs and to NVSwitches.
func (m *machine) links(x *element, g *gpu) error {
	for _, l := range x.subs {
		switch l.name {
		case "nvlink":
			n, err := l.number("count", 1)
			if err != nil {
				return err
			}
			if n < 0 || n > 1024 {
				return fmt.Errorf("GPU %s has %d NVLinks to one device", g.name, n)
			}
			if class := l.attr["tclass"]; strings.HasPrefix(class, "0x0680") || class == "" &&
				!m.gpuIDs[l.attr["target"]] {
				g.toSwitch += n // NCCL takes a device that it does not know for an NVSwitch
			} else {
				g.toGPU += n
			}
		case "c2c":
			g.c2c = true
		default:
			m.unknown["<"+l.name+">"]++
		}
	}
	return nil
}

// nets adds the NICs of a device.
func (m *machine) nets(e *element, at place, vendor string) error {
	for _, x := range e.subs {
		if x.name != "net" {
			m.unknown["<"+x.name+">"]++
			continue
		}
		n := nic{place: at, name: x.attr["name"], guid: x.attr["guid"], vendor: vendor}
		var speed int
		var e1, e2, e3, e4 error
		n.dev, e1 = x.number("dev", -1)
		n.port, e2 = x.number("port", 1)
		n.gdr, e3 = x.number("gdr", -1)
		speed, e4 = x.number("speed", 0)
		if err := cmp.Or(e1, e2, e3, e4); err != nil {
			return err
		}
		switch {
		case speed <= 0:
		case units.Bandwidth(speed) <= configs.MaxBandwidth/units.Mbps:
			n.rate = units.Bandwidth(speed) * units.Mbps
		default:
			m.unknown[fmt.Sprintf("speed of %d Mb/s of a <net>, more than the %v that a fabric has", speed,
				configs.MaxBandwidth)]++
		}
		if us, err := strconv.ParseFloat(cmp.Or(x.attr["latency"], "0"), 64); err != nil || !(us >= 0 && us < 1e7) {
			return fmt.Errorf("<net latency=%q>: must be a number of microseconds", x.attr["latency"])
		} else {
			n.latency = time.Duration(us * 1e3)
		}
		// A NIC of sockets is listed below each CPU.
		same := func(o nic) bool {
			return o.name == n.name && o.dev == n.dev && o.port == n.port &&
				o.cpu.attr["host_hash"] == at.cpu.attr["host_hash"]
		}
		if !slices.ContainsFunc(m.nics, same) {
			m.nics = append(m.nics, n)
		}
	}
	return nil
}

// gens are the generations of PCI Express: Mb/s of a lane, in NCCL's table.
var gens = map[string]int{"2.5 GT/s": 1500, "5 GT/s": 3000, "5.0 GT/s": 3000, "8 GT/s": 6000, "8.0 GT/s": 6000,
	"16 GT/s": 12000, "16.0 GT/s": 12000, "32 GT/s": 24000, "32.0 GT/s": 24000, "64.0 GT/s": 48000}

// slotRate is the rate of a PCI link as NCCL computes it: 16 lanes if the width is 0, generation 3 if the speed is
// unknown.
func slotRate(e *element) int {
	lanes, err := e.number("link_width", 0)
	if err != nil || lanes <= 0 || lanes > 64 {
		lanes = 16
	}
	gen, ok := gens[strings.TrimSuffix(e.attr["link_speed"], " PCIe")]
	if !ok {
		gen = 6000
	}
	return lanes * gen
}
