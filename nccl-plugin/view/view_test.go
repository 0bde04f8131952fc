// SPDX-License-Identifier: Apache-2.0

package view

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/fabric"
)

func made(t testing.TB, profile string, change func(*configs.Fabric)) *fabric.Fabric {
	t.Helper()
	c, err := configs.Profile(profile)
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(c)
	}
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

var intel = Host{CPU: CPU{Arch: "x86_64", Vendor: "GenuineIntel", Family: "6", Model: "143"}, NUMA: []int{0, 1}}

// twoSockets is a host with four GPUs on each of two NUMA nodes.
func twoSockets() Host {
	h := intel
	for i := range 8 {
		h.GPUs = append(h.GPUs, HostGPU{BusID: fmt.Sprintf("0000:%02x:00.0", 0x10*i+0x1b), NUMA: i / 4})
	}
	return h
}

func TestXML(t *testing.T) {
	twoNICs := func(c *configs.Fabric) { c.NICsPerNode, c.GPUsPerNode = 2, 4 }
	onIntel := func(c *configs.Fabric) { twoNICs(c); c.CPU = configs.Intel }
	onHost := func(c *configs.Fabric) { c.CPU = configs.HostCPU }
	nvlink := func(c *configs.Fabric) { twoNICs(c); c.NVLinksPerGPU = 12 }
	for _, tc := range []struct {
		name string
		node Node
	}{
		{"soft-rdma", Of(made(t, "ndr400", onIntel), intel, Shape{Node: 1, GPU: 2, GPUs: 4}, "0000:16:00.0", true)},
		{"soft-nvlink", Of(made(t, "ndr400", nvlink), intel, Shape{Node: 1, GPU: 2, GPUs: 4}, "0000:16:00.0", true)},
		{"soft-tcp", Of(made(t, "eth25-tcp", onHost), intel, Shape{GPUs: 1}, "0000:10:00.0", false)},
		{"real", Of(made(t, "hdr200", nvlink), twoSockets(), Shape{Node: 1, GPU: 2, GPUs: 4}, "", false)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.node.XML()
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(filepath.Join("testdata", tc.name+".xml"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimSpace(string(want)), string(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// NCCL merges the files of a node's ranks: all must have the same NICs at the same positions,
// each NIC once. NCCL reads 256 elements at most.
func TestRanksOfANodeAgree(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		down := -1
		gpus := rapid.IntRange(1, 16).Draw(r, "gpus")
		kind, err := configs.LoadGPU(rapid.SampledFrom(configs.GPUNames()).Draw(r, "kind"), "")
		if err != nil {
			r.Fatal(err)
		}
		if gpus > kind.NVLink.MostGPUs() || rapid.Bool().Draw(r, "no kind") {
			kind = nil
		}
		f := made(t, "ndr400", func(c *configs.Fabric) {
			c.NVLinksPerGPU = rapid.IntRange(0, configs.MaxNVLinks).Draw(r, "nvlinks")
			if kind != nil {
				c.GPU, c.NVLinksPerGPU = kind, 0
			}
			c.GPUsPerNode, c.NICsPerNode = gpus, rapid.IntRange(1, configs.MaxNICsPerNode).Draw(r, "nics")
			if rapid.Bool().Draw(r, "affinity") {
				c.Node.GPUs = gpus
				c.NICOfGPU = rapid.SliceOfN(rapid.IntRange(0, c.NICsPerNode-1), gpus, gpus).Draw(r, "nic of gpu")
			}
			if c.NICsPerNode > 1 && rapid.Bool().Draw(r, "one down") {
				down = rapid.IntRange(0, c.NICsPerNode-1).Draw(r, "down")
				up := false
				c.Links = []configs.LinkOverride{
					{Match: fmt.Sprintf("node1.nic%d", down), LinkPatch: configs.LinkPatch{Up: &up}}}
			}
		})
		host, soft := intel, rapid.Bool().Draw(r, "soft")
		if !soft {
			host = twoSockets()
		}
		direct := soft && rapid.Bool().Draw(r, "direct")
		first := ""
		for gpu := range gpus {
			busID := ""
			if soft {
				busID = fmt.Sprintf("0000:%02x:00.0", 0x10+gpu)
			}
			n := Of(f, host, Shape{Node: 1, GPU: gpu, GPUs: gpus}, busID, direct)
			text, err := n.XML()
			if err != nil {
				r.Fatal(err)
			}
			elements, positions, parent := read(r, string(text), busID)
			if elements > 256 {
				r.Fatalf("%d elements:\n%s", elements, text)
			}
			nearest := f.NearestNIC(gpu, f.Config.NodeGPUs(gpus))
			if soft && parent == "" {
				r.Fatalf("GPU %s is not there:\n%s", busID, text)
			}
			if nic := positions[fmt.Sprintf("goemu%d", nearest)]; direct && kind == nil && nearest != down && nic != parent {
				r.Fatalf("GPU %d is on %s, its NIC on %s:\n%s", gpu, parent, nic, text)
			}
			if len(positions) != len(f.ListedNICs(1)) || positions[fmt.Sprintf("goemu%d", down)] != "" {
				r.Fatalf("%d NICs, want all %d that are up:\n%s", len(positions), len(f.ListedNICs(1)), text)
			}
			if all := fmt.Sprint(positions); first == "" {
				first = all
			} else if all != first {
				r.Fatalf("rank %d: %s\nothers: %s", gpu, all, first)
			}
		}
	})
}

// read counts the elements, and finds what each NIC and the GPU with this bus ID are on.
func read(r *rapid.T, text, gpu string) (elements int, positions map[string]string, parent string) {
	positions = map[string]string{}
	var path []string
	for d := xml.NewDecoder(strings.NewReader(text)); ; {
		token, err := d.Token()
		if err != nil {
			return elements, positions, parent
		}
		switch e := token.(type) {
		case xml.EndElement:
			path = path[:len(path)-1]
		case xml.StartElement:
			elements++
			id := e.Name.Local
			for _, a := range e.Attr {
				switch {
				case a.Name.Local == "busid" && a.Value == gpu:
					parent = path[len(path)-1]
				case a.Name.Local == "name" && positions[a.Value] != "":
					r.Fatalf("%s is there twice:\n%s", a.Value, text)
				case a.Name.Local == "name":
					positions[a.Value] = path[len(path)-3] // net is in nic, nic in pci, pci in what it is on
				case a.Name.Local == "busid" || a.Name.Local == "numaid":
					id = a.Value
				}
			}
			path = append(path, id)
		}
	}
}

func TestSlots(t *testing.T) {
	for gbps, want := range map[int]string{1: "8.0 GT/s PCIe", 100: "8.0 GT/s PCIe", 200: "16.0 GT/s PCIe",
		400: "32.0 GT/s PCIe", 800: "64.0 GT/s PCIe", 3200: "64.0 GT/s PCIe"} {
		if got := slotFor(gbps * 1000); got != want {
			t.Errorf("%d Gb/s: %s, want %s", gbps, got, want)
		}
	}
}

func TestReadHost(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	got := ReadHost(fstest.MapFS{
		"proc/cpuinfo": file(
			"processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: X\n\nprocessor\t: 1\nvendor_id\t: other\n"),
		"sys/devices/system/node/node1/cpumap":       file("0"),
		"sys/devices/system/node/node0/cpumap":       file("0"),
		"sys/devices/system/node/node10/cpumap":      file("0"),
		"sys/bus/pci/devices/0000:41:00.0/vendor":    file("0x10de\n"),
		"sys/bus/pci/devices/0000:41:00.0/class":     file("0x030200\n"),
		"sys/bus/pci/devices/0000:41:00.0/numa_node": file("1\n"),
		"sys/bus/pci/devices/0000:01:00.0/vendor":    file("0x10de\n"),
		"sys/bus/pci/devices/0000:01:00.0/class":     file("0x030000\n"),
		"sys/bus/pci/devices/0000:01:00.0/numa_node": file("-1\n"),
		"sys/bus/pci/devices/0000:02:00.0/vendor":    file("0x10de\n"), // an NVSwitch
		"sys/bus/pci/devices/0000:02:00.0/class":     file("0x068000\n"),
		"sys/bus/pci/devices/0000:03:00.0/vendor":    file("0x8086\n"),
		"sys/bus/pci/devices/0000:03:00.0/class":     file("0x030000\n"),
	})
	if got.CPU.Arch != "x86_64" {
		t.Skipf("NCCL does not read the vendor of %s", got.CPU.Arch)
	}
	want := Host{
		CPU:  CPU{Arch: "x86_64", Vendor: "AuthenticAMD", Family: "25", Model: "17"},
		NUMA: []int{0, 1, 10}, GPUs: []HostGPU{{"0000:01:00.0", -1}, {"0000:41:00.0", 1}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A GPU is in the slot that the fabric gives it, or in one that carries all NICs of its PCI switch.
func TestGPUSlot(t *testing.T) {
	for slot, want := range map[units.Bandwidth]string{0: "32.0 GT/s PCIe", 192 * units.Gbps: "16.0 GT/s PCIe",
		96 * units.Gbps: "8.0 GT/s PCIe"} {
		f := made(t, "hdr200", func(c *configs.Fabric) {
			c.GPUsPerNode, c.NICsPerNode = 2, 2
			c.Node = configs.Node{GPUs: 2, PCISwitches: 1, GPUSlot: slot}
		})
		n := Of(f, intel, Shape{Node: 1, GPU: 0, GPUs: 2}, "0000:10:00.0", true)
		if got := n.softGPU().Speed; got != want {
			t.Errorf("%v: %s, want %s", slot, got, want)
		}
	}
}

// With a kind of GPU the devices are on its CPUs, and the ranks of a node agree on everything but their own GPUs.
func TestKindXML(t *testing.T) {
	kind := func(name string, nics int, more ...func(*configs.Fabric)) *fabric.Fabric {
		return made(t, "ndr400", func(c *configs.Fabric) {
			gpu, err := configs.BuiltInGPU(name)
			if err != nil {
				t.Fatal(err)
			}
			c.GPU, c.NICsPerNode = gpu, nics
			for _, change := range more {
				change(c)
			}
		})
	}
	mesh := func(c *configs.Fabric) { c.NVLink = configs.MeshNVLink }
	for _, tc := range []struct {
		name string
		node Node
	}{
		{"h100", Of(kind("h100-sxm", 8), intel, Shape{Node: 1, GPU: 5, GPUs: 8}, "0000:15:00.0", true)},
		{"a100-mesh", Of(kind("a100-sxm", 2, mesh), intel, Shape{Node: 1, GPU: 1, GPUs: 4}, "0000:15:00.0", true)},
		{"a100-16-nics", Of(kind("a100-sxm", 16), intel, Shape{Node: 1, GPU: 5, GPUs: 8}, "0000:15:00.0", true)},
		{"gb200", Of(kind("gb200", 4), intel, Shape{GPU: 3, GPUs: 4}, "0000:13:00.0", true)},
		{"v100", Of(kind("v100", 1), intel, Shape{GPU: 6, GPUs: 8}, "0000:16:00.0", true)},
		{"l40s-tcp", Of(kind("l40s", 1), intel, Shape{GPU: 7, GPUs: 8}, "0000:17:00.0", false)},
	} {
		got, err := tc.node.XML()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("testdata", "kind-"+tc.name+".xml")
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.TrimSpace(string(want)), string(got)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tc.name, diff)
		}
	}
}
