// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/configs/units"
)

// The figures of the kinds are the published ones; GB/s of all NVLinks of a GPU in one direction.
func TestGPUs(t *testing.T) {
	type facts struct {
		capability Capability
		sms        int
		memory     units.Size
		nvlink     int
		connection string
		pcie       int
		arch       string
		domain     int
		fp16       float64 // TFLOPS
		bandwidth  int     // GB/s of the memory
	}
	want := map[string]facts{
		"a10":          {86, 72, 24, 0, "", 4, X86, 0, 125, 600},
		"a100-sxm":     {80, 108, 80, 300, SwitchedNVLink, 4, X86, 0, 312, 2039},
		"b200":         {100, 148, 180, 900, SwitchedNVLink, 5, X86, 0, 2250, 8000},
		"b300":         {103, 148, 288, 900, SwitchedNVLink, 6, X86, 0, 2250, 8000},
		"gb200":        {100, 152, 186, 900, SwitchedNVLink, 6, ARM, 72, 2500, 8000},
		"gb300":        {103, 152, 288, 900, SwitchedNVLink, 6, ARM, 72, 2500, 8000},
		"gh200":        {90, 132, 96, 450, MeshNVLink, 5, ARM, 0, 989.4, 4000},
		"h100-sxm":     {90, 132, 80, 450, SwitchedNVLink, 5, X86, 0, 989.4, 3350},
		"h200-sxm":     {90, 132, 141, 450, SwitchedNVLink, 5, X86, 0, 989.4, 4800},
		"l40s":         {89, 142, 48, 0, "", 4, X86, 0, 362.05, 864},
		"rtx-6000d":    {120, 156, 84, 0, "", 5, X86, 0, 0, 0},
		"rtx-pro-6000": {120, 188, 96, 0, "", 5, X86, 0, 0, 0},
		"t4":           {75, 40, 16, 0, "", 3, X86, 0, 65, 300},
		"v100":         {70, 80, 32, 150, GraphNVLink, 3, X86, 0, 125, 900},
	}
	all, err := GPUs()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(want) {
		t.Errorf("%d kinds, want %d", len(all), len(want))
	}
	for _, g := range all {
		got := facts{g.Capability, g.SMs, g.Memory / units.GiB, int(g.NVLink.Bandwidth() / 8e9), g.NVLink.Connection,
			g.PCIe.Generation, g.CPU.Arch, g.NVLinkDomain, g.Peak.FP16, int(g.Peak.Memory / 8e9)}
		if got != want[g.Name] {
			t.Errorf("%s: got %+v, want %+v", g.Name, got, want[g.Name])
		}
		if g.Description == "" || g.Time == nil {
			t.Errorf("%s: no description or no times", g.Name)
		}
		given := map[string]bool{"nvlink": g.NVLink.Links > 0, "c2c": g.C2C.Has(), "nvlink_domain": g.NVLinkDomain > 0,
			"time": g.Time != nil, "peak": g.Peak != Peak{}}
		for _, key := range figures {
			has, optional := given[key]
			if _, sourced := g.Sources[key]; sourced != (has || !optional) {
				t.Errorf("%s: source of %s: %v", g.Name, key, sourced)
			}
		}
	}
}

const goodGPU = `name: mine
product: My GPU
compute_capability: 7.0
sms: 80
memory: 32G
nvlink:
  {generation: 2, links: 3, rate: 25GB/s, connection: graph, graph: [
    {gpus: [0, 1], links: 2},
    {gpus: [0, 2], links: 1},
  ]}
pcie: {generation: 3, lanes: 16, gpus: 2}
cpu: {arch: x86_64, vendor: intel, gpus: 4}
sources: {sms: my own count}
`

func TestGPURefuses(t *testing.T) {
	if _, err := DecodeGPU("g.yaml", []byte(goodGPU)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, want string }{
		{"sms: 80", "sm: 80", `g.yaml:4: "sm" is not a key here: did you mean sms?`},
		{"sms: 80\n", "", "g.yaml: sms: missing"},
		{"sms: 80", "sms: 8000", "g.yaml:4: sms: 8000 is out of range"},
		{"7.0", "7.1", `g.yaml:3: compute_capability: "7.1" is not one of 7.0, 7.5, 8.0`},
		{"32G", "32", "g.yaml:5: memory: 32 is out of range: must be 1G to"},
		{"My GPU", strings.Repeat("x", 64), "g.yaml:2: product: "},
		{"[0, 2]", "[0, 3]", "g.yaml:7: nvlink.graph: GPU 2 has no link"},
		{"[0, 2]", "[1, 0]", "g.yaml:9: nvlink.graph[1].gpus: GPUs 0 and 1 are connected twice"},
		{"[0, 2]", "[2, 2]", "g.yaml:9: nvlink.graph[1].gpus: GPU 2 is connected with itself"},
		{"[0, 2]", "[0, 1, 2]", "g.yaml:9: nvlink.graph[1].gpus: has 3 GPUs"},
		{"[0, 2]", "[0, 19]", "g.yaml:9: nvlink.graph[1].gpus: 0 and 19: the GPUs of a node are 0 to 18"},
		{"[0, 2], links: 1", "[0, 2], links: 2", "g.yaml:9: nvlink.graph[1]: GPU 0 has 4 links here and before, and 3"},
		{"connection: graph", "connection: mesh", "nvlink.graph: given with connection mesh"},
		{"connection: graph, ", "", "nvlink.connection: missing: switch, mesh or graph"},
		{"links: 3, ", "", "nvlink.links: missing"},
		{"lanes: 16", "lanes: 12", "g.yaml:11: pcie.lanes: 12 is not one of 1, 2, 4, 8, 16"},
		{"arch: x86_64", "arch: arm64", "g.yaml:12: cpu.vendor: intel: NCCL knows no vendors of arm64"},
		{"vendor: intel", "vendor: ibm", `g.yaml:12: cpu.vendor: "ibm" is not one of amd, intel`},
		{"sms: my", "sm: my", `g.yaml:13: sources.sm: "sm" is not a figure: did you mean sms`},
		{"sources:", "peak: {fp16_tflops: -1}\nsources:", `g.yaml:13: peak.fp16_tflops: "-1" is no number above 0`},
		{"sources:", "peak: {fp16_tflops: NaN}\nsources:", `g.yaml:13: peak.fp16_tflops: "NaN" is no number above 0`},
		{"sources:", "nvlink_domain: 72\nsources:", "g.yaml:13: nvlink_domain: 72: only NVSwitches connect"},
	} {
		text := strings.Replace(goodGPU, c.old, c.new, 1)
		_, err := DecodeGPU("g.yaml", []byte(text))
		if text == goodGPU || err == nil || !strings.Contains(err.Error(), c.want) || !IsUserError(err) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s for %s: %v\nwant %s", c.new, c.old, err, c.want)
		}
	}
	if _, err := LoadGPU("h10", ""); err == nil || !strings.HasPrefix(err.Error(),
		`"h10" is not a kind of GPU: did you mean a10, h100-sxm or `) {
		t.Errorf("unknown kind: %v", err)
	}
}

// A fabric names a built-in kind, and has all figures of another, so that it does not need the file.
func TestGPUOfFabric(t *testing.T) {
	file := writeFile(t, "mine.yaml", goodGPU)
	for text, want := range map[string]string{"h100-sxm": "gpu: h100-sxm\n", file: "gpu:\n  name: mine\n"} {
		f, err := Load(Source{Profile: "ndr400", Getenv: environ("DDLEMU_GPU", text)})
		if err != nil {
			t.Fatal(err)
		}
		encoded, err := f.Encode()
		if err != nil || !strings.Contains(string(encoded), want) {
			t.Errorf("%s: %v, want %q in\n%s", text, err, want, encoded)
		}
		if d := cmp.Diff(f, roundTrip(t, f)); d != "" {
			t.Errorf("%s printed and read again (-want +got):\n%s", text, d)
		}
	}
	fab := writeFile(t, "f.yaml", "base: efa-p4d\nnode: {gpus: 4}\ngpu: "+file+"\nnvlink: mesh\n")
	f, err := Load(Source{File: fab, Getenv: environ()})
	if err != nil || f.GPUName() != "mine" || f.NVLinksPerGPU != 0 || f.NodeNVLink().Connection != MeshNVLink {
		t.Errorf("%+v, %v: want the kind in mine.yaml, as a mesh", f, err)
	}
	fab = writeFile(t, "g.yaml", "base: ndr400\ngpu: h10\n")
	if _, err := Load(Source{File: fab, Getenv: environ()}); err == nil ||
		!strings.HasPrefix(err.Error(), fab+`:2: gpu: "h10" is not a kind of GPU`) {
		t.Errorf("unknown kind in a file: %v", err)
	}
}

// Links that go from GPU to GPU end at both, and no GPU has more than the kind says. Each pair has the same in a mesh.
func TestLinksBetween(t *testing.T) {
	v100, err := BuiltInGPU("v100")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(r *rapid.T) {
		n := v100.NVLink
		if rapid.Bool().Draw(r, "mesh") {
			n = NVLink{Links: rapid.IntRange(1, MaxNVLinks).Draw(r, "links"), Connection: MeshNVLink}
		}
		gpus := rapid.IntRange(1, n.MostGPUs()).Draw(r, "GPUs")
		links := n.Between(gpus)
		for a := range gpus {
			sum := 0
			for b := range gpus {
				sum += links[a][b]
				if links[a][b] != links[b][a] || n.Connection == MeshNVLink && (a == b) != (links[a][b] == 0) {
					r.Fatalf("%d GPUs: %v", gpus, links)
				}
			}
			if sum > n.Links || gpus == n.MostGPUs() && sum != n.Links {
				r.Fatalf("%d GPUs: GPU %d has %d links of %d: %v", gpus, a, sum, n.Links, links)
			}
		}
	})
}

func FuzzDecodeGPU(f *testing.F) {
	f.Add(goodGPU)
	f.Add(strings.Replace(goodGPU, "sources: {sms: my own count}", "c2c: {links: 5, rate: 45GB/s}", 1))
	f.Add(goodGPU + "peak: {fp16_tflops: 362.05, memory: 864GB/s}\n")
	f.Add("a: &x [*x]")
	f.Fuzz(func(t *testing.T, text string) {
		g, err := DecodeGPU("g.yaml", []byte(text))
		if err != nil {
			var e *Error
			if !errors.As(err, &e) || strings.ContainsAny(err.Error(), "\n") {
				t.Errorf("refused with %q", fmt.Sprint(err))
			}
			return
		}
		encoded, err := g.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeGPU("g.yaml", encoded)
		if err != nil {
			t.Fatal(err, "\n", string(encoded))
		}
		if d := cmp.Diff(g, again); d != "" {
			t.Errorf("printed and read again (-want +got):\n%s", d)
		}
	})
}

// The times of a kind are read as they are written, and what is missing or impossible is named with its line.
func TestGPUTime(t *testing.T) {
	const head = "product: My GPU\ncompute_capability: 9.0\nsms: 80\nmemory: 32G\n" +
		"pcie: {generation: 3, lanes: 16, gpus: 2}\ncpu: {arch: x86_64, vendor: intel, gpus: 4}\n"
	const good = "time:\n  kernel: 4us\n  call: 3us\n  links: {rate: 370GB/s, latency: 400ns}\n" +
		"  ll: {step: 500ns, rate: 40GB/s}\n  ll128: {step: 1us, rate: 20GB/s, occupies: 1.25}\n" +
		"  simple: {step: 2us, rate: 20GB/s}\n  send: {step: 1us, rate: 20GB/s}\n"
	g, err := DecodeGPU("mine.yaml", []byte(head+good))
	if err != nil {
		t.Fatal(err)
	}
	if g.Time.Kernel != 4000 || g.Time.Links.Rate != 370*8e9 || g.Time.LL128.Occupies != 1.25 || g.Time.NVLSCopy.Rate != 0 {
		t.Errorf("read %+v", g.Time)
	}
	for _, tc := range []struct{ from, to, want string }{
		{"  kernel: 4us\n", "", "mine.yaml:8: time.kernel: must be given, and above 0"},
		{"step: 500ns, ", "", "mine.yaml:11: time.ll.step: must be given, and above 0"},
		{"rate: 370GB/s", "rate: 0", "time.links.rate"},
		{"occupies: 1.25", "occupies: 0.5", `"0.5": must be a number from 1 to 8`},
		{"time:\n", "nvlink: {generation: 4, links: 18, rate: 25GB/s, connection: switch}\ntime:\n",
			"time.nvls_copy.step: must be given, and above 0"},
		{"kernel: 4us", "kernel: 11s", "mine.yaml:8: time.kernel: 11s is out of range: must be 0s to 10s"},
		{"kernel: 4us", "kernel: 4us\n  channels: 1h", "mine.yaml:9: time.channels: 1h0m0s is out of range"},
		{"call: 3us", "call: 1h", "time.call"}, {"latency: 400ns", "latency: 11s", "time.links.latency"},
		{"step: 2us", "step: 11s", "time.simple.step"},
		{"call: 3us", "call: 3us\n  net: {per_message: 11s, latency: 1us}", "time.net.per_message"},
		{"call: 3us", "call: 3us\n  net: {per_message: 1us, latency: 11s}", "time.net.latency"},
		{"call: 3us", "call: 3us\n  send_net: {per_channel: 1us}", "time.send_net.step: must be given, and above 0"},
		{"call: 3us", "call: 3us\n  send_net: {step: 1us, rate: 20GB/s, per_channel: 11s}", "time.send_net.per_channel"},
		{"call: 3us", "call: 3us\n  send_net: {step: 1us, rate: 20GB/s, start: 11s}", "time.send_net.start"},
		{"kernel: 4us", "launch: 4us", `mine.yaml:8: time: "launch" is not a key here`},
	} {
		_, err := DecodeGPU("mine.yaml", []byte(head+strings.Replace(good, tc.from, tc.to, 1)))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q in place of %q: %v, want %q", tc.to, tc.from, err, tc.want)
		}
	}
}

// An NVLink domain has whole nodes, and is an error where NVLinks cannot make it.
func TestNVLinkDomain(t *testing.T) {
	for _, tc := range []struct {
		gpu, nvlink         string
		nodes, gpus, domain int
		want                int    // nodes of a domain
		problem             string // of the fabric
		emulated            bool   // a run may have it
	}{
		{"gb200", "", 2, 4, 0, 2, "", false},
		{"gb200", "", 40, 4, 0, 18, "", false},
		{"gb200", "", 4, 4, 8, 2, "", false},
		{"gb200", "", 4, 4, 4, 1, "", true},
		{"gb200", "", 4, 4, 1, 1, "", true},
		{"gb200", "", 1, 4, 0, 1, "", true},
		{"gb200", "", 2, 0, 0, 2, "", false}, // the job will say how many GPUs a node has
		{"gb200", "", 2, 0, 8, 2, "", false},
		{"gb200", NoNVLink, 2, 4, 0, 1, "", true},
		{"h100-sxm", "", 2, 8, 0, 1, "", true},
		{"h100-sxm", "", 2, 8, 16, 2, "", false}, // DGX GH200 had such switches
		{"", "", 2, 8, 0, 1, "", true},
		{"", "", 2, 8, 16, 1, "16: a kind of GPU has NVLinks", true},
		{"gh200", "", 2, 4, 8, 1, "8: only NVSwitches connect GPUs of several nodes", true},
		{"gb200", NoNVLink, 2, 4, 8, 1, "8: only NVSwitches connect", true},
		{"gb200", "", 2, 4, 6, 1, "6: it has a part of a node: nodes have 4 GPUs", true},
	} {
		f, err := Profile("ndr400")
		if err != nil {
			t.Fatal(err)
		}
		f.Nodes, f.GPUsPerNode, f.NVLink, f.NVLinkDomain = tc.nodes, tc.gpus, tc.nvlink, tc.domain
		if tc.gpu != "" {
			if f.GPU, err = BuiltInGPU(tc.gpu); err != nil {
				t.Fatal(err)
			}
		}
		if got := f.DomainNodes(); got != tc.want {
			t.Errorf("%+v: %d nodes in a domain", tc, got)
		}
		err = f.Validate()
		if (err != nil) != (tc.problem != "") || err != nil && !strings.Contains(err.Error(), "nvlink_domain: "+tc.problem) {
			t.Errorf("%+v: %v", tc, err)
		}
		err = f.CheckEmulated()
		if (err == nil) != tc.emulated || err != nil && !strings.Contains(err.Error(), "expect --set node_time=on") {
			t.Errorf("%+v: emulated: %v", tc, err)
		}
	}
}
