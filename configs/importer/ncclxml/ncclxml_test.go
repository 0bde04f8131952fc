// SPDX-License-Identifier: Apache-2.0

package ncclxml

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/importer/found"
	"github.com/ddlemu/ddlemu/configs/units"
)

// The parts of a file, as NCCL 2.22 to 2.30 write them.
func cpu(numa int, inside ...string) string {
	return fmt.Sprintf(
		`<cpu host_hash="0x1" numaid="%d" affinity="0000ffff" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="1">%s</cpu>`, numa, strings.Join(inside, ""))
}

func bridge(id string, inside ...string) string {
	return `<pci busid="` + id + `" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">` +
		strings.Join(inside, "") + `</pci>`
}

func gpuDev(dev int, links string) string {
	return fmt.Sprintf(
		`<pci busid="0000:5%d:00.0" class="0x030200" device="0x2330" link_speed="32.0 GT/s PCIe" link_width="16"><gpu dev="%d" sm="90" rank="%[1]d" gdr="1">%[3]s</gpu></pci>`, dev, dev, links)
}

func nicDev(dev int, speed int, more string) string {
	return fmt.Sprintf(
		`<pci busid="0000:6%d:00.0" class="0x020000" vendor="0x15b3" link_speed="32.0 GT/s PCIe" link_width="16"><nic><net name="mlx5_%[1]d" dev="%[1]d" speed="%[2]d" port="1" latency="0.000000" guid="0x%[1]d1" maxconn="131072" gdr="1"%[3]s/></nic></pci>`, dev, speed, more)
}

const nv18 = `<nvlink target="0000:07:00.0" count="9" tclass="0x068000"/><nvlink target="fffffff:ff:ff.0" count="9" tclass="0x068000"/>`

func read(t *testing.T, cpus ...string) *found.Fabric {
	t.Helper()
	out, err := Read(`<?xml version="1.0" encoding="ISO-8859-1"?><system version="1">`+strings.Join(cpus, "")+
		`</system>`, found.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := out.Config
	if c.Link.Latency == 0 {
		c.Link.Latency = time.Microsecond
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return out
}

func noted(t *testing.T, out *found.Fabric, want string) {
	t.Helper()
	if !strings.Contains(strings.Join(out.Notes, "\n"), want) {
		t.Errorf("no note %q in %q", want, out.Notes)
	}
}

func TestNearestNIC(t *testing.T) {
	for name, tc := range map[string]struct {
		cpus     []string
		near     []int
		switches int
		names    string // of the NICs, in the fabric's order
	}{
		// The order of the NICs is against that of the GPUs, as in a file of IBM's cloud.
		"against each other": {
			[]string{cpu(0, bridge("1", gpuDev(0, nv18), nicDev(1, 200000, "")),
				bridge("2", gpuDev(1, nv18), nicDev(0, 200000, "")))}, []int{1, 0}, 2, "mlx5_0 mlx5_1"},
		// Bridges within a PCI switch, as of DGX A100.
		"bridges below": {
			[]string{
				cpu(0, bridge("1", bridge("2", gpuDev(0, nv18)), bridge("3", gpuDev(1, nv18)),
					bridge("4", nicDev(0, 200000, "")), bridge("5", nicDev(1, 200000, ""))))}, []int{0, 1}, 1,
			"mlx5_0 mlx5_1"},
		// Two NICs for a GPU, numbered over the switches in turn: the fabric has those of a switch together.
		"numbered in turn": {
			[]string{cpu(0, bridge("1", gpuDev(0, nv18), nicDev(0, 200000, ""), nicDev(2, 200000, ""))),
				cpu(1, bridge("2", gpuDev(1, nv18), nicDev(1, 200000, ""), nicDev(3, 200000, "")))}, []int{0, 2}, 2,
			"mlx5_0 mlx5_2 mlx5_1 mlx5_3"},
		"switches below a switch": {
			[]string{
				cpu(0, bridge("0", bridge("1", gpuDev(0, nv18), nicDev(0, 200000, "")),
					bridge("2", gpuDev(1, nv18), nicDev(1, 200000, "")),
					bridge("3", gpuDev(2, nv18), nicDev(2, 200000, ""))))}, []int{0, 1, 2}, 3, "mlx5_0 mlx5_1 mlx5_2"},
		"a faster NIC": {
			[]string{cpu(0, bridge("1", gpuDev(0, nv18), nicDev(0, 100000, ""), nicDev(1, 400000, "")))}, []int{1}, 1,
			"mlx5_0 mlx5_1"},
		"on another CPU": {[]string{cpu(0, bridge("1", gpuDev(0, nv18), nicDev(0, 200000, ""))),
			cpu(1, bridge("2", gpuDev(1, nv18)))}, []int{0, 0}, 1, "mlx5_0"},
	} {
		t.Run(name, func(t *testing.T) {
			out := read(t, tc.cpus...)
			c := &out.Config
			if !slices.Equal(c.NICOfGPU, tc.near) || c.Node.PCISwitches != tc.switches || c.GPUDirect != nil ||
				c.NVLinksPerGPU != 18 || c.CPU != configs.AMD {
				t.Errorf("nearest %v, %d switches, GPUDirect %v, %d NVLinks", c.NICOfGPU, c.Node.PCISwitches,
					c.GPUDirect, c.NVLinksPerGPU)
			}
			if want := "on " + units.Count(tc.switches, "PCI switch") + ","; !strings.Contains(out.Says[0], want) {
				t.Errorf("%q, want %q", out.Says[0], want)
			}
			for i, want := range strings.Fields(tc.names) {
				if !strings.Contains(out.Says[1], want) || i > 0 &&
					strings.Index(out.Says[1], want) < strings.Index(out.Says[1], strings.Fields(tc.names)[i-1]) {
					t.Errorf("%q, want %s", out.Says[1], tc.names)
				}
			}
		})
	}
}

func TestWhatAFabricCannotBe(t *testing.T) {
	one := bridge("1", gpuDev(0, nv18), nicDev(0, 200000, ""))
	for want, cpus := range map[string][]string{
		"PCI switches have [1 2] NICs": {
			cpu(0, one, bridge("2", gpuDev(1, nv18), nicDev(1, 200000, ""), nicDev(2, 200000, "")))},
		"numbered anew": {
			cpu(0, bridge("1", gpuDev(0, nv18), nicDev(0, 200000, ""), nicDev(2, 200000, "")),
				bridge("2", gpuDev(1, nv18), nicDev(1, 200000, ""), nicDev(3, 200000, "")))},
		"1 of 2 GPUs reach a NIC only over a CPU": {cpu(0, one), cpu(1, bridge("2", gpuDev(1, nv18)))},
		"NIC 1 (mlx5_1) has 25Gbps":               {cpu(0, one, nicDev(1, 25000, ""), nicDev(2, 200000, ""))},
		"17 to 18 NVLinks": {
			cpu(0, one, bridge("2", gpuDev(1, `<nvlink target="x" count="17" tclass="0x068000"/>`),
				nicDev(1, 200000, "")))},
		"1 NVLink end from GPU to GPU": {
			cpu(0, bridge("1", gpuDev(0, `<nvlink target="0000:51:00.0" count="1"/>`), gpuDev(1, ""),
				nicDev(0, 200000, "")))},
		"1 GPU with NVLink-C2C": {
			cpu(0, bridge("1", gpuDev(0, nv18+`<c2c bw="44712" count="5"/>`), nicDev(0, 200000, "")))},
		"compute capability 9.0": {cpu(0, one)},
		"2 NICs have the GUID 0x7": {
			cpu(0,
				bridge("1", gpuDev(0, nv18),
					`<pci busid="z" class="0x020700"><nic><net name="a" dev="0" speed="200000" port="1" guid="0x7" gdr="1"/><net name="b" dev="1" speed="200000" port="2" guid="0x7" gdr="1"/></nic></pci>`))},
		"1 of 2 NICs have GPUDirect": {
			cpu(0, one, bridge("2", strings.Replace(nicDev(1, 200000, ""), `gdr="1"`, `gdr="0"`, 1)))},
		"NCCL was told a latency of 75": {
			cpu(0, strings.Replace(one, `latency="0.000000"`, `latency="75"`, 1))},
		"speed of NIC 1 (mlx5_1) is not in the file": {cpu(0, one, bridge("2", nicDev(1, 0, "")))},
		"CPUs of CentaurHauls x86_64":                {strings.Replace(cpu(0, one), "AuthenticAMD", "CentaurHauls", 1)},
		"not used: 1 x gcn, which an AMD GPU has":    {cpu(0, strings.Replace(one, `sm="90"`, `sm="90" gcn="908"`, 1))},
		"not used: 1 x speed of 200000000 Mb/s":      {cpu(0, one, bridge("2", nicDev(1, 200000000, "")))}, // as of cxi
		"1 PCI switch with NICs and no GPU":          {cpu(0, one, bridge("2", nicDev(1, 200000, "")))},
		"NVLink-C2C and a CPU are between": {cpu(0, gpuDev(0, nv18+`<c2c bw="44712" count="5"/>`),
			nicDev(0, 400000, ""))},
		"not used: 1 x <xgmi>": {
			cpu(0, bridge("1", gpuDev(0, `<xgmi target="x" count="1"/>`), nicDev(0, 200000, "")))},
		"not used: 1 x PCI device of class 0x010802": {cpu(0, one, `<pci busid="y" class="0x010802"/>`)},
		"slots of 1 NIC carry less": {
			cpu(0,
				bridge("1", gpuDev(0, nv18), strings.Replace(nicDev(0, 200000, ""), `link_width="16"`, `link_width="4"`,
					1)))},
		"slots of the GPUs carry 96 to 384 Gb/s": {
			cpu(0, bridge("1", strings.Replace(gpuDev(0, nv18), `link_width="16"`, `link_width="4"`, 1),
				gpuDev(1, nv18), nicDev(0, 200000, "")))},
	} {
		noted(t, read(t, cpus...), want)
	}
}

// RCCL writes the number of compute units as sm, beside gcn: it is no compute capability.
func TestComputeUnits(t *testing.T) {
	out := read(t,
		cpu(0, bridge("1", strings.Replace(gpuDev(0, ""), `sm="90"`, `sm="304" gcn="gfx942"`, 1),
			nicDev(0, 400000, ""))))
	if notes := strings.Join(out.Notes, "\n"); strings.Contains(notes, "compute capability") {
		t.Error(notes)
	}
	noted(t, out, "not used: 1 x gcn")
}

// NCCL's net for sockets lists its NIC below each CPU, with port 0 and without GPUDirect.
func TestSockets(t *testing.T) {
	const eth = `<nic><net name="eth0" dev="0" speed="10000" port="0" latency="0.000000" guid="0x0" maxconn="65536" gdr="0"/></nic>`
	out := read(t, cpu(0, bridge("1", gpuDev(0, nv18)), eth), cpu(1, bridge("2", gpuDev(1, nv18)), eth))
	if c := out.Config; c.NICsPerNode != 1 || c.Transport.Kind != configs.TCP || c.NCCLNet() != configs.SocketNet ||
		c.GPUDirect != nil {
		t.Errorf("%d NICs, %s, GPUDirect %v", c.NICsPerNode, c.NCCLNet(), c.GPUDirect)
	}
}

// In a virtual machine all devices are on the CPU: NCCL does not use GPUDirect there.
func TestVirtualMachine(t *testing.T) {
	out := read(t, cpu(-1, gpuDev(0, nv18), gpuDev(1, nv18), nicDev(0, 400000, ""), nicDev(1, 400000, "")))
	if c := out.Config; c.GPUDirect == nil || *c.GPUDirect || !slices.Equal(c.NICOfGPU, []int{0, 1}) ||
		c.Node.PCISwitches != 0 {
		t.Errorf("GPUDirect %v, %v", c.GPUDirect, c.NICOfGPU)
	}
	noted(t, out, "gpudirect is false")
}

func TestRefused(t *testing.T) {
	one := bridge("1", gpuDev(0, nv18), nicDev(0, 200000, ""))
	for want, cpus := range map[string][]string{
		"has 2 hosts":      {cpu(0, one), strings.Replace(cpu(1, one), `host_hash="0x1"`, `host_hash="0x2"`, 1)},
		"must be a number": {cpu(0, strings.Replace(one, `dev="0"`, `dev="x"`, 1))},
		"microseconds":     {cpu(0, strings.Replace(one, `latency="0.000000"`, `latency="x"`, 1))},
		"NVLinks to one": {
			cpu(0, bridge("1", gpuDev(0, `<nvlink target="x" count="-5" tclass="0x068000"/>`), nicDev(0, 1, "")))},
		"not whole XML": {cpu(0, one), "<cpu>"},
		"two elements":  {cpu(0, one), "</system><system>"},
	} {
		_, err := Read("<system>"+strings.Join(cpus, "")+"</system>", found.Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
