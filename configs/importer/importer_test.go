// SPDX-License-Identifier: Apache-2.0

package importer

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/importer/found"
)

// readFiles imports files of testdata.
func readFiles(o found.Options, names ...string) (*found.Fabric, error) {
	var files []File
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			return nil, err
		}
		files = append(files, File{name, string(text)})
	}
	return Read(files, o)
}

// profile is a built-in profile.
func profile(t *testing.T, name string) *configs.Fabric {
	t.Helper()
	f, err := configs.Profile(name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// imported is the fabric of files, as its text reads again.
func imported(t *testing.T, o found.Options, names ...string) (*configs.Fabric, *found.Fabric) {
	t.Helper()
	in, err := readFiles(o, names...)
	if err != nil {
		t.Fatal(err)
	}
	text, err := Text(&in.Config, in, names)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	f, err := configs.Decode("x.yaml", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, name := range names {
		if !strings.Contains(string(text), name) {
			t.Errorf("the file does not name %s", name)
		}
	}
	return f, in
}

// hardware is what a topology file says of a node.
type hardware struct {
	gpus, nics, switches, nvLinks int
	nearest                       []int
	cpu, slot                     string
}

func hardwareOf(f *configs.Fabric) hardware {
	return hardware{f.Node.GPUs, f.NICsPerNode, f.PCISwitches(f.Node.GPUs), f.NVLinksPerGPU, f.NICOfGPU, f.NodeCPU(),
		f.Node.GPUSlot.String()}
}

// The files of clouds, and those that NCCL itself wrote, are of the nodes that the profiles describe.
func TestNodesOfClouds(t *testing.T) {
	pairs := []int{0, 0, 1, 1, 2, 2, 3, 3}
	each := []int{0, 1, 2, 3, 4, 5, 6, 7}
	for name, tc := range map[string]struct {
		base string
		want hardware
	}{
		"p4d-24xl-topo.xml":    {"efa-p4d", hardware{8, 4, 4, 12, pairs, configs.Intel, "96Gbps"}},
		"nccl-2.22.3-topo.xml": {"", hardware{8, 4, 4, 12, pairs, configs.Intel, "96Gbps"}},
		"nccl-2.29.7-topo.xml": {"", hardware{8, 4, 4, 12, pairs, configs.Intel, "96Gbps"}},
		"ndv4-topo.xml":        {"hdr200", hardware{8, 8, 4, 0, each, configs.AMD, "192Gbps"}},
		"ndv5-topo.xml":        {"ndr400", hardware{8, 8, 8, 0, each, configs.Intel, "384Gbps"}},
		"ndv2-topo.xml":        {"hdr200", hardware{8, 1, 1, 0, make([]int, 8), configs.Intel, "192Gbps"}},
		"ncv4-topo.xml":        {"", hardware{4, 1, 1, 0, make([]int, 4), configs.AMD, "96Gbps"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := found.Options{}
			if tc.base != "" {
				o.Base = profile(t, tc.base)
			}
			f, _ := imported(t, o, name)
			got := hardwareOf(f)
			if got.gpus != tc.want.gpus || got.nics != tc.want.nics || got.switches != tc.want.switches ||
				got.nvLinks != tc.want.nvLinks || !slices.Equal(got.nearest, tc.want.nearest) ||
				got.cpu != tc.want.cpu || got.slot != tc.want.slot {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
}

// The node of p4d in aws-ofi-nccl's file is that of the profile, and what NCCL wrote of the profile is the profile.
func TestProfileOfP4d(t *testing.T) {
	want := profile(t, "efa-p4d")
	for _, name := range []string{"p4d-24xl-topo.xml", "nccl-2.22.3-topo.xml", "nccl-2.29.7-topo.xml"} {
		f, _ := imported(t, found.Options{Base: want}, name)
		if f.Node.GPUs != want.Node.GPUs || f.Node.PCISwitches != want.Node.PCISwitches ||
			f.NICsPerNode != want.NICsPerNode || f.NVLinksPerGPU != want.NVLinksPerGPU || f.CPU != want.CPU {
			t.Errorf("%s: node %+v, %d NICs, %d NVLinks, %s; the profile has %+v, %d, %d, %s", name, f.Node,
				f.NICsPerNode, f.NVLinksPerGPU, f.CPU, want.Node, want.NICsPerNode, want.NVLinksPerGPU, want.CPU)
		}
		if f.Link.Bandwidth != want.Link.Bandwidth || f.NCCL.Latency != want.NCCL.Latency ||
			f.NCCL.Net != want.NCCL.Net || f.GPUDirect != nil {
			t.Errorf("%s: %v, %v, %v", name, f.Link.Bandwidth, f.NCCL, f.GPUDirect)
		}
	}
}

// A node of p5 as NCCL with aws-ofi-nccl writes it: 8 devices of 4 EFA each, a latency of 75 us, NVLinks to 4
// NVSwitches.
func TestProfileOfP5(t *testing.T) {
	var b strings.Builder
	b.WriteString(`<system version="1">`)
	for i := range 8 {
		if i%4 == 0 {
			fmt.Fprintf(&b,
				`<cpu host_hash="0x23d7" numaid="%d" affinity="00000000,0000ffff,ffffffff" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="1">`, i/4)
		}
		fmt.Fprintf(&b,
			`<pci busid="0000:4%d:00.0" class="0x060400" vendor="0x1d0f" link_speed="16.0 GT/s PCIe" link_width="8">
<pci busid="0000:5%[1]d:00.0" link_speed="32.0 GT/s PCIe" link_width="16" class="0x020000" vendor="0x1d0f" device="0xefa1"><nic>
<net name="rdmap8%[1]ds0" dev="%[1]d" latency="75" speed="400000" port="1" guid="0xa0103e5%[1]d" maxconn="262144" gdr="1" net="1" gin="1"/></nic></pci>
<pci busid="0000:6%[1]d:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="%[1]d" sm="90" rank="%[1]d" gdr="1">
<nvlink target="0000:d0:00.0" count="5" tclass="0x068000"/><nvlink target="0000:d2:00.0" count="4" tclass="0x068000"/>
<nvlink target="0000:d1:00.0" count="5" tclass="0x068000"/><nvlink target="0000:cf:00.0" count="4" tclass="0x068000"/></gpu></pci></pci>`, i)
		if i%4 == 3 {
			b.WriteString("</cpu>")
		}
	}
	b.WriteString("</system>")
	in, err := Read([]File{{"p5.xml", b.String()}}, found.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, want := &in.Config, profile(t, "efa-p5")
	if f.Node.GPUs != want.Node.GPUs || f.PCISwitches(8) != want.PCISwitches(8) || f.NICsPerNode != want.NICsPerNode ||
		f.NVLinksPerGPU != want.NVLinksPerGPU || f.CPU != want.CPU || f.Link.Bandwidth != want.Link.Bandwidth ||
		f.NCCL.Latency != want.NCCL.Latency {
		t.Errorf("%+v, %d NICs of %v, %d NVLinks, %s, %v", f.Node, f.NICsPerNode, f.Link.Bandwidth, f.NVLinksPerGPU,
			f.CPU, f.NCCL.Latency)
	}
}

// What a file does not say is asked for, or noted.
func TestWhatAFileDoesNotSay(t *testing.T) {
	for name, tc := range map[string]struct {
		base    string
		missing []string // flags
		notes   []string
	}{
		"ndv5-topo.xml": {"", []string{"lat", "bw", "nvlinks-per-gpu"},
			[]string{"has only PCI devices", "2 CPUs"}},
		"ndv4-topo.xml":        {"hdr200", []string{"nvlinks-per-gpu"}, []string{"200Gbps of the base", "4 CPUs"}},
		"p4d-24xl-topo.xml":    {"efa-p4d", nil, []string{"100Gbps of the base"}},
		"nccl-2.29.7-topo.xml": {"", []string{"lat"}, []string{"latency of 75µs", "nodes is 2"}},
		"ndv2-topo.xml":        {"hdr200", []string{"nvlinks-per-gpu"}, []string{"gpudirect is false"}},
		"ncv4-topo.xml":        {"", []string{"lat"}, []string{"transport is tcp", "48 NVLink ends from GPU to GPU"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := found.Options{}
			if tc.base != "" {
				o.Base = profile(t, tc.base)
			}
			in, err := readFiles(o, name)
			if err != nil {
				t.Fatal(err)
			}
			var flags []string
			for _, m := range in.Missing {
				flags = append(flags, m.Flag)
			}
			if !slices.Equal(flags, tc.missing) {
				t.Errorf("missing %q, want %q", flags, tc.missing)
			}
			for _, want := range tc.notes {
				if !strings.Contains(strings.Join(in.Notes, "\n"), want) {
					t.Errorf("no note %q in %q", want, in.Notes)
				}
			}
		})
	}
}

// A graph is a decision of NCCL: beside a topology it becomes facts, alone it is refused.
func TestGraphs(t *testing.T) {
	for _, version := range []string{"2.22.3", "2.29.7"} {
		in, err := readFiles(found.Options{}, "nccl-"+version+"-topo.xml", "nccl-"+version+"-graph.xml")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"NCCL's graph: Ring: 4 channels, 12 GB/s and NVL within a node, 12 GB/s and PIX between nodes, NICs 0 1 2 3",
			"NCCL's graph: Tree: 4 channels",
		} {
			if !strings.Contains(strings.Join(in.Says, "\n"), want) {
				t.Errorf("%s: no %q in %q", version, want, in.Says)
			}
		}
	}
	in, err := readFiles(found.Options{}, "ncv4-graph.xml")
	if err == nil || !strings.Contains(err.Error(), "what NCCL decided") || in == nil || len(in.Says) != 3 {
		t.Errorf("a graph alone: %v, %v", in, err)
	}
}

// Networks that SimAI's generator wrote. Its links have 0.5 us, so that one switch adds 1 us.
func TestSimAI(t *testing.T) {
	for name, tc := range map[string]struct {
		kind                string
		nodes, nics, spines int
		bandwidth, trunk    string
		loss                float64
		nvLinks             int
	}{
		"Spectrum-X_16g_8gps_100Gbps_A100":    {"rail", 2, 8, 2, "100Gbps", "400Gbps", 0, 12},
		"DCN+SingleToR_32g_8gps_200Gbps_H100": {"leaf-spine", 4, 8, 2, "200Gbps", "400Gbps", 0, 18},
		"DCN+SingleToR_16g_8gps_400Gbps_H20": {"leaf-spine", 2, 8, 2, "400Gbps", "400Gbps", 0.001,
			18},
		"AlibabaHPN_64g_8gps_DualToR_SinglePlane_200Gbps_H800": {"custom", 8, 16, 0, "200Gbps", "400Gbps", 0, 8},
	} {
		t.Run(name, func(t *testing.T) {
			f, in := imported(t, found.Options{}, name)
			if f.Topology.Kind != tc.kind || f.Nodes != tc.nodes || f.NICsPerNode != tc.nics ||
				f.Topology.Spines != tc.spines || f.NVLinksPerGPU != tc.nvLinks || f.Node.GPUs != 8 {
				t.Errorf("%+v: %d nodes of %d NICs, %+v", f.Topology, f.Nodes, f.NICsPerNode, f.Node)
			}
			if f.Link.Bandwidth.String() != tc.bandwidth || f.Topology.Trunk.Bandwidth.String() != tc.trunk ||
				f.Link.Latency.String() != "1µs" || f.Topology.Trunk.Latency.String() != "500ns" {
				t.Errorf("links %v %v, trunk %v %v", f.Link.Bandwidth, f.Link.Latency, f.Topology.Trunk.Bandwidth,
					f.Topology.Trunk.Latency)
			}
			// A packet crosses two links from NIC to NIC of one switch.
			if got, want := f.Link.Loss.P, 1-(1-tc.loss)*(1-tc.loss); got < want*0.999999 || got > want*1.000001 {
				t.Errorf("loss %g, want %g", got, want)
			}
			if l := f.Topology.Trunk.Loss; tc.loss > 0 && (l == nil || l.P != tc.loss) {
				t.Errorf("loss of a trunk %v, want %g", l, tc.loss)
			}
			if !strings.Contains(strings.Join(in.Notes, "\n"), "to NVSwitches") {
				t.Errorf("the NVLinks are not noted: %q", in.Notes)
			}
		})
	}
	f, _ := imported(t, found.Options{}, "AlibabaHPN_64g_8gps_DualToR_SinglePlane_200Gbps_H800")
	if want := []int{0, 2, 4, 6, 8, 10, 12, 14}; !slices.Equal(f.NICOfGPU, want) || f.PCISwitches(8) != 8 {
		t.Errorf("2 NICs for each GPU: %v on %d switches, want %v", f.NICOfGPU, f.PCISwitches(8), want)
	}
	_, err := readFiles(found.Options{}, "AlibabaHPN_16g_8gps_DualToR_DualPlane_200Gbps_H100")
	if err == nil || !strings.Contains(err.Error(), "2 parts, such as planes") {
		t.Errorf("two planes: %v", err)
	}
}

func TestSettingsOfSimAI(t *testing.T) {
	f, in := imported(t, found.Options{}, "Spectrum-X_16g_8gps_100Gbps_A100", "SimAI.conf")
	if l := f.Link; l.MTU != 9000 || l.Header != 0 || l.Framing != 48 { // CC_MODE 1 adds no telemetry
		t.Errorf("packets %d %d %d", l.MTU, l.Header, l.Framing)
	}
	if !strings.Contains(strings.Join(in.Notes, "\n"), "CC_MODE 1") {
		t.Errorf("DCQCN is not noted: %q", in.Notes)
	}
	for _, names := range [][]string{{"SimAI.conf"}, {"SimAI.conf", "ndv5-topo.xml"},
		{"ndv4-topo.xml", "ndv5-topo.xml"}} {
		if _, err := readFiles(found.Options{}, names...); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", names, err)
		}
	}
}

// --nodes takes the first nodes, with the switches of their paths.
func TestFirstNodes(t *testing.T) {
	f, in := imported(t, found.Options{Nodes: 2}, "AlibabaHPN_64g_8gps_DualToR_SinglePlane_200Gbps_H800")
	// 4 NICs fill a switch, so NIC i of the first 2 nodes is on switch i of the first group, which 3 spines join.
	if f.Nodes != 2 || f.Topology.Kind != "rail" || f.Topology.Spines != 3 || f.NICsPerNode != 16 {
		t.Errorf("%d nodes, %+v", f.Nodes, f.Topology)
	}
	if !strings.Contains(strings.Join(in.Notes, "\n"), "the first 2 of 8 nodes") {
		t.Errorf("%q", in.Notes)
	}
	if _, err := readFiles(found.Options{Nodes: 9},
		"AlibabaHPN_64g_8gps_DualToR_SinglePlane_200Gbps_H800"); err == nil {
		t.Error("more nodes than there are")
	}
}

// The .conf's error rate is that of links without their own. Hosts have any numbers; a mark of UTF-8 and CRLF do no
// harm.
func TestNS3(t *testing.T) {
	const topology = "\ufeff4 2 3\r\n0 3\r\n0 1 100Gbps 0.001ms 0.000000\r\n3 2 100Gb/s 1000ns 0\r\n0 3 1Tbps 2us 0.5\r\n"
	in, err := Read([]File{{"fat.txt", topology}, {"x.conf", "ENABLE_QCN 1\nERROR_RATE_PER_LINK 0.01\n"}},
		found.Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := &in.Config
	if f.Nodes != 2 || f.Topology.Kind != "custom" || f.Link.Latency != 2000 || f.Link.Loss.P < 0.0198 ||
		f.Link.Loss.P > 0.0200 || f.Topology.Trunk.Loss.P != 0.5 || f.Node.GPUs != 1 {
		t.Errorf("%+v %+v", f.Link, f.Topology)
	}
	if !strings.Contains(strings.Join(in.Notes, "\n"), "1 of the file is GPU 0 of all") {
		t.Errorf("%q", in.Notes)
	}
}

func TestForeign(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"empty": {"  \n", "is empty"},
		"text":  {"hello world\n", "is no network or node"},
		"hwloc": {`<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0"><object type="Machine" os_index="0"/></topology>`,
			"is hwloc's XML (lstopo)"},
		"hwloc 1": {`<topology><object type="System" os_index="0"></object></topology>`,
			"which a job with NCCL_TOPO_DUMP_FILE=topo.xml writes there"},
		"other XML": {"<topology/>", "is no network or node"},
		"cut XML":   {`<system version="1"><cpu numaid="0"><pci`, "line 1: is not whole XML"},
		"bomb": {`<!DOCTYPE s [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><system><cpu numaid="&b;"/></system>`,
			"is not whole XML"},
		"deep":       {"<system>" + strings.Repeat("<pci>", 100), "within each other"},
		"no devices": {`<system version="1"/>`, "has no GPU"},
		"two hosts": {
			`<system><cpu host_hash="1"><pci class="0x03"><gpu dev="0"/></pci></cpu><cpu host_hash="2"/></system>`,
			"MNNVL"},
		"no NIC":    {`<system><cpu><pci class="0x03"><gpu dev="0"/></pci></cpu></system>`, "no NIC"},
		"fabric":    {"base: ndr400\nnodes: 2\n", "is a fabric file already"},
		"cut SimAI": {"9 1 8\n8\n8 0 400Gbps 0.0005ms 0\n8 1 400Gb", "link 2 of 8"},
		"more links": {"3 1 0 1 1 A100\n2\n0 2 400Gbps 0.0005ms 0\n1 2 400Gbps 0.0005ms 0\n",
			"after which the simulator reads no more: if the rest belongs to the network, correct line 1"},
		"one server": {"3 2 1 0 2 H100\n2\n0 2 2880Gbps 0.000025ms 0\n1 2 2880Gbps 0.000025ms 0\n",
			"GPU 0 has no link to a switch other than an NVSwitch"},
		"uneven NICs": {
			"4 1 0 2 3 H100\n2 3\n0 2 400Gbps 0.0005ms 0\n0 3 400Gbps 0.0005ms 0\n1 2 400Gbps 0.0005ms 0\n",
			"GPU 1 has 1 link to switches, GPU 0 has 2"},
		"JSON":         {`{"a": 1}`, "no dimensions"},
		"large":        {`<system version="1">` + strings.Repeat(" ", maxOther), "has 1048596 bytes"},
		"logical dims": {`{"logical-dims": ["8"]}`, "physical topology"},
	} {
		_, err := Read([]File{{"f", tc.text}}, found.Options{})
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

// Whatever a file has, there is an error, or a fabric that is valid once what is missing is given, and that reads
// again.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the folder of the fuzzer's finds
		}
		f.Add(string(text), 0)
	}
	f.Add(
		"Nodes 8\nTiers 3\nPodsize 4\nTier 0\nDownlink_speed_Gbps 200\nRadix_Down 2\nRadix_Up 2\nDownlink_Latency_ns 1000\nTier 1\nDownlink_speed_Gbps 200\nRadix_Down 2\nRadix_Up 4\nDownlink_Latency_ns 1000\nTier 2\nDownlink_speed_Gbps 100\nRadix_Down 4\nDownlink_Latency_ns 1000\nBundle 2\n", 3)
	f.Add("topology: [ Ring, Switch ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 50.0, 1 ]\nlatency: [ 500.0, 1 ]\n", 0)
	f.Add(
		`{"topologies-per-dim": ["Switch"], "units-count": [8], "links-count": [1], "link-latency": [500], "link-bandwidth": [12.5], "router-latency": [10]}`, 2)
	f.Add("8 0 8\n\n0 1 25Gbps 0.005ms 0\n", 0)
	f.Add("3 1 2\n2\n0 2 1Gib/s 1 0.1\n1 2 1Gbps 1us 0.1\n", 0)
	f.Fuzz(func(t *testing.T, text string, nodes int) {
		if len(text) > 1<<16 || nodes < 0 || nodes > configs.MaxNodes {
			return
		}
		in, err := Read([]File{{"f", text}}, found.Options{Nodes: nodes})
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r\x1b") {
				t.Fatalf("not one line: %q", err)
			}
			return
		}
		if in.Config.Validate() != nil {
			return // the command refuses it too
		}
		out, err := Text(&in.Config, in, []string{"f"})
		if err != nil {
			t.Fatal(err)
		}
		again, err := configs.Decode("f", out)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := hardwareOf(again), hardwareOf(&in.Config); a.gpus != b.gpus || a.nics != b.nics ||
			a.switches != b.switches {
			t.Errorf("%+v is read as %+v", b, a)
		}
	})
}
