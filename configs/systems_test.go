// SPDX-License-Identifier: Apache-2.0

package configs

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The systems are those of their makers' pages; GB/s of payload per NIC with the time of nodes.
func TestSystems(t *testing.T) {
	type facts struct {
		gpu, nvlink string // nvlink: how the GPUs of a node are connected
		gpus, nics  int    // of a node
		payload     float64
		cpu, net    string
	}
	want := map[string]facts{
		"dgx-a100-hdr":     {"a100-sxm", SwitchedNVLink, 8, 8, 24.4, AMD, IBNet},
		"hgx-h100-ndr400":  {"h100-sxm", SwitchedNVLink, 8, 8, 49.3, Intel, IBNet},
		"hgx-h200-ndr400":  {"h200-sxm", SwitchedNVLink, 8, 8, 49.3, Intel, IBNet},
		"hgx-h200-roce400": {"h200-sxm", SwitchedNVLink, 8, 8, 49.0, Intel, IBNet},
		"hgx-b200-ndr400":  {"b200", SwitchedNVLink, 8, 8, 49.3, Intel, IBNet},
		"gb200-nvl72":      {"gb200", SwitchedNVLink, 4, 4, 49.3, "", IBNet},
		"gh200-ss11":       {"gh200", MeshNVLink, 4, 4, 18.0, "", OFISendRecv},
		"a100x4-ss11":      {"a100-sxm", MeshNVLink, 4, 2, 18.0, AMD, OFISendRecv},
		"p4d":              {"a100-sxm", SwitchedNVLink, 8, 4, 11.7, Intel, OFISendRecv},
		"p5":               {"h100-sxm", SwitchedNVLink, 8, 8, 48, AMD, OFIRDMA},
		"a3-mega":          {"h100-sxm", SwitchedNVLink, 8, 8, 23.6, Intel, FasTrak},
		"a4":               {"b200", SwitchedNVLink, 8, 8, 49.0, Intel, IBNet},
	}
	all, err := Systems()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(want) {
		t.Errorf("%d systems, want %d", len(all), len(want))
	}
	for _, f := range all {
		w, ok := want[f.Name]
		if !ok {
			t.Errorf("system %s: not in the list of this test", f.Name)
			continue
		}
		timed := *f
		timed.SetNICRate()
		nvlink := f.NodeNVLink()
		got := facts{f.GPUName(), nvlink.Connection, f.GPUsPerNode, f.NICsPerNode, timed.Link.PayloadRate() / 1e9,
			f.NodeCPU(), f.NCCLNet()}
		if math.Abs(got.payload-w.payload) > 0.002*w.payload {
			t.Errorf("system %s: payload %.4f GB/s, want %.4f within 0.2 %%", f.Name, got.payload, w.payload)
		}
		if got.payload = w.payload; got != w {
			t.Errorf("system %s: got %+v, want %+v", f.Name, got, w)
		}
		if f.Node.GPUs != f.GPUsPerNode || !f.NodeTime || f.Description == "" || len(f.Sources) < 2 {
			t.Errorf("system %s: node %+v, node time %v, %q, sources %q", f.Name, f.Node, f.NodeTime, f.Description,
				f.Sources)
		}
		if d := cmp.Diff(f, roundTrip(t, f)); d != "" {
			t.Errorf("system %s printed and read again differs:\n%s", f.Name, d)
		}
	}
	for _, name := range SystemNames() {
		if slices.Contains(ProfileNames(), name) {
			t.Errorf("%s is a system and a profile of links", name)
		}
	}
}

// A profile of links alone says nothing of GPUs that cost time.
func TestProfilesOfLinksHaveNoNodeTime(t *testing.T) {
	all, err := Profiles()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.NodeTime || f.GPU != nil || f.GPUTimeText(nil) != "none (add --gpu KIND --set node_time=on)" {
			t.Errorf("%s: node time %v, GPU %s, %q", f.Name, f.NodeTime, f.GPUName(), f.GPUTimeText(nil))
		}
	}
}

func TestGPUTimeText(t *testing.T) {
	for _, tc := range []struct {
		profile, gpu string
		off          bool
		not          error
		want         string
	}{
		{profile: "ndr400", want: "none (add --gpu KIND --set node_time=on)"},
		{profile: "ndr400", not: errors.New("x"), want: "none (x)"},
		{profile: "ndr400", gpu: "h100-sxm", off: true, want: "none (add --set node_time=on)"},
		{profile: "ndr400", gpu: "v100", want: "that of v100 (estimated from a100-sxm)"},
		{profile: "ndr400", gpu: "a10", want: "that of a10 (estimated from l40s and rtx-pro-6000)"},
		{profile: "ndr400", gpu: "./mine.yaml", want: "none (mine has no section time: see docs/node-time.md)"},
		{profile: "hgx-h100-ndr400", want: "that of h100-sxm"},
		{profile: "hgx-h100-ndr400", off: true, want: "none (add --set node_time=on)"},
		{profile: "hgx-h100-ndr400", not: errors.New("a reason"), want: "none (a reason)"},
		{profile: "hgx-h100-ndr400", off: true, not: errors.New("no flag helps"), want: "none (no flag helps)"},
	} {
		f, err := Profile(tc.profile)
		if err != nil {
			t.Fatal(err)
		}
		if tc.gpu != "" {
			f.GPU, f.NodeTime = kindOf(t, tc.gpu), true
		}
		f.NodeTime = f.NodeTime && !tc.off
		if got := f.GPUTimeText(tc.not); got != tc.want {
			t.Errorf("%+v: %q", tc, got)
		}
		if got := f.CostsGPUTime(); got != (strings.HasPrefix(tc.want, "that of") || tc.want == "none (a reason)") {
			t.Errorf("%+v: costs time %v", tc, got)
		}
	}
}

// kindOf is a built-in kind, or goodGPU, which has no times.
func kindOf(t *testing.T, name string) *GPU {
	t.Helper()
	g, err := BuiltInGPU(name)
	if name == "./mine.yaml" {
		g, err = DecodeGPU(name, []byte(goodGPU))
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestNodeTimeOfFile(t *testing.T) {
	for text, want := range map[string]bool{
		"base: ndr400\ngpu: h100-sxm\nnode_time: on\n":      true,
		"base: ndr400\ngpu: h100-sxm\nnode_time: true\n":    true,
		"base: ndr400\ngpu: h100-sxm\n":                     false,
		"base: hgx-h100-ndr400\n":                           true,
		"base: hgx-h100-ndr400\ngpu: gh200\n":               true, // which has no times: the header says so
		"base: hgx-h100-ndr400\nnode_time: off\nnodes: 4\n": false,
	} {
		f, err := Decode("mine.yaml", []byte(text))
		if err != nil || f.NodeTime != want {
			t.Errorf("%s: %v, %v", text, f, err)
		}
	}
	for text, want := range map[string]string{
		"base: ndr400\nnode_time: on\n":                  "mine.yaml:2: node_time: a kind of GPU has times: give gpu or --gpu",
		"base: p4d\ntimed_nodes: true\nnode_time: off\n": "mine.yaml:2: timed_nodes: needs node_time: on",
		"base: p4d\nnode_time: always\n":                 `mine.yaml:2: node_time: "always" is not on or off`,
		"base: hgx-h100-ndr40\nnodes: 2\n":               `mine.yaml:1: base: "hgx-h100-ndr40" is not a profile: did you mean hgx-h100-ndr400`,
	} {
		if _, err := Decode("mine.yaml", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// The same kind again is no other kind: what a system says of its NVLinks and CPUs stays.
func TestSameGPUAgain(t *testing.T) {
	load := func(env string) *Fabric {
		f, err := Load(Source{Profile: "a100x4-ss11", Getenv: func(name string) string {
			if name == "DDLEMU_GPU" {
				return env
			}
			return ""
		}})
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if d := cmp.Diff(load(""), load("a100-sxm")); d != "" {
		t.Errorf("(-without +with):\n%s", d)
	}
	if f := load("h100-sxm"); f.NVLink != "" || f.GPUName() != "h100-sxm" {
		t.Errorf("another kind: %+v", f)
	}
}

func TestSystemOf(t *testing.T) {
	for _, tc := range []struct{ links, gpu, nvlink, want string }{
		{"ndr400", "h100-sxm", "", "hgx-h100-ndr400"},
		{"ndr400", "h100-sxm", SwitchedNVLink, "hgx-h100-ndr400"},
		{"ndr400", "h100-sxm", NoNVLink, ""},
		{"ndr400", "h200-sxm", "", "hgx-h200-ndr400"},
		{"roce400", "h200-sxm", "", "hgx-h200-roce400"},
		{"roce400", "h100-sxm", "", ""},
		{"ss11-200", "a100-sxm", MeshNVLink, "a100x4-ss11"},
		{"ss11-200", "a100-sxm", "", ""},
		{"ss11-200", "gh200", "", "gh200-ss11"},
		{"ss11-200", "gh200", MeshNVLink, "gh200-ss11"},
		{"tcpxo", "h100-sxm", "", "a3-mega"},
		{"ndr400", "", "", ""},
		{"hgx-h100-ndr400", "h100-sxm", "", ""}, // is no profile of links
	} {
		if got := SystemOf(tc.links, tc.gpu, tc.nvlink); got != tc.want {
			t.Errorf("%+v: %q", tc, got)
		}
	}
	// No two systems have the same links, GPUs and NVLinks: a table would not say which.
	all, err := Systems()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range all {
		for _, links := range ProfileNames() {
			if name := SystemOf(links, f.GPUName(), f.NodeNVLink().Connection); name == f.Name {
				seen[name] = true
			}
		}
		if !seen[f.Name] {
			t.Errorf("%s is not found by what it has", f.Name)
		}
	}
}

// Emulated runs have the time of nodes where they can play it.
func TestTimeNodes(t *testing.T) {
	for _, tc := range []struct {
		profile, gpu string
		datapath     string
		want         string
	}{
		{"hgx-h100-ndr400", "", "", ""},
		{"hgx-h100-ndr400", "", Kernel, "runs on the datapath kernel do not have it; ddlemu expect has"},
		{"gh200-ss11", "", "", "emulated runs do not know the rendezvous of NICs"},
		{"ndr400", "./mine.yaml", "", "mine has no section time"},
		{"ndr400", "v100", "", "emulated runs do not know NVLinks that connect some pairs only"},
		{"ndr400", "h100-sxm", "", ""},
	} {
		f, err := Profile(tc.profile)
		if err != nil {
			t.Fatal(err)
		}
		if tc.gpu != "" {
			f.GPU = kindOf(t, tc.gpu)
		}
		f.NodeTime, f.Datapath = false, tc.datapath
		switch err = f.TimeNodes(); {
		case (err == nil) != (tc.want == "") || err != nil && !strings.HasPrefix(err.Error(), tc.want):
			t.Errorf("%+v: %v", tc, err)
		case f.TimedNodes != (err == nil) || f.NodeTime != (err == nil):
			t.Errorf("%+v: timed nodes %v, node time %v", tc, f.TimedNodes, f.NodeTime)
		}
	}
}
