// SPDX-License-Identifier: Apache-2.0

// Package gpus tests that the software CUDA, NVML and NCCL show the kind of GPU that a fabric names.
package gpus

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/needs"
	"github.com/ddlemu/ddlemu/test/world"
)

// show compiles the program that prints what CUDA and NVML show.
func show(t *testing.T) (program, libraries string) {
	soft := built.Path(t, "softcuda")
	program = filepath.Join(t.TempDir(), "show")
	cmd := exec.Command(needs.Program(t, "g++"), "-Wall", "-Werror", "testdata/show.cc", "-I"+soft+"/include",
		"-L"+soft+"/lib", "-lcudart", "-l:libnvidia-ml.so.1", "-o", program)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program, soft + "/lib"
}

// of is the two lines about a kind itself.
func of(g *configs.GPU, shared int) string {
	return fmt.Sprintf("CUDA: %s, %v, %d SMs, %d GiB, %d KiB shared\nNVML: %s, %v, PCIe %d of %d MT/s\n", g.Product,
		g.Capability, g.SMs, g.Memory>>30, shared, g.Product, g.Capability, g.PCIe.Generation,
		8000<<(g.PCIe.Generation-3))
}

// A program that uses no NCCL sees the kind of the fabric that is up.
func TestProgramsSeeTheKind(t *testing.T) {
	t.Parallel()
	program, libraries := show(t)
	const none, visible = "C2C: 0 links of 0 MB/s\n", "fffffff:ffff:ff"
	switched := func(version, links int) string {
		return strings.Repeat(fmt.Sprintf("NVLink %d: %s\n", version, visible), links)
	}
	pairs := func(version int, links ...int) (text string) {
		for peer, n := range links {
			text += strings.Repeat(fmt.Sprintf("NVLink %d: 00000000:%02x:00.0\n", version, 0x10+peer), n)
		}
		return text
	}
	kinds := map[string]struct {
		shared int
		rest   string
		flags  []string
	}{
		"a10":      {99, none, nil},
		"a100-sxm": {163, switched(3, 12) + none, nil},
		"b200":     {227, switched(5, 18) + none + "fabric: state 3, of a node, clique 0\n", nil},
		"b300":     {227, switched(5, 18) + none + "fabric: state 3, of a node, clique 0\n", nil},
		"gb200": {227, switched(5, 18) + "C2C: 5 links of 45000 MB/s\nfabric: state 3, of several nodes, clique 0\n",
			[]string{"--set", "nvlink_domain=1"}},
		"gb300": {227, switched(5, 18) + "C2C: 5 links of 45000 MB/s\nfabric: state 3, of several nodes, clique 0\n",
			[]string{"--nodes", "1"}},
		"gh200":        {227, pairs(4, 6, 0, 6, 6) + "C2C: 10 links of 45000 MB/s\n", []string{"--set", "gpus_per_node=4"}},
		"h100-sxm":     {227, none, []string{"--set", "nvlink=none"}},
		"h200-sxm":     {227, switched(4, 18) + none + "fabric: state 3, of a node, clique 0\n", nil},
		"l40s":         {99, none, nil},
		"rtx-6000d":    {99, none, nil},
		"rtx-pro-6000": {99, none, nil},
		"t4":           {64, none, nil},
		"v100":         {96, pairs(2, 1, 0, 2, 1, 0, 2) + none, []string{"--set", "gpus_per_node=8"}},
	}
	if diff := cmp.Diff(configs.GPUNames(), slices.Sorted(maps.Keys(kinds))); diff != "" {
		t.Errorf("kinds without a test (-want +got):\n%s", diff)
	}
	for kind, want := range kinds {
		t.Run(kind, func(t *testing.T) {
			g, err := configs.BuiltInGPU(kind)
			if err != nil {
				t.Fatal(err)
			}
			w := world.New(t)
			up := w.Run(append([]string{"up", "--profile", "ndr400", "--gpu", kind, "--no-measure"}, want.flags...)...)
			if !strings.Contains(up, ", GPUs "+kind) || !strings.Contains(w.Run("status"), ", GPUs "+kind) {
				t.Errorf("up and status do not name the kind: %s", up)
			}
			cmd := exec.Command(program)
			cmd.Env = append(built.Environ(), "DDLEMU_DIR="+w.Dir, "LD_LIBRARY_PATH="+libraries)
			out, err := cmd.CombinedOutput()
			if diff := cmp.Diff(of(g, want.shared)+want.rest, string(out)); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
	t.Run("a domain of several nodes", func(t *testing.T) {
		w := world.New(t)
		w.Run("up", "--profile", "ndr400", "--gpu", "gb200", "--nodes", "1", "--no-measure")
		cmd := exec.Command(program)
		cmd.Env = append(built.Environ(), "DDLEMU_DIR="+w.Dir, "LD_LIBRARY_PATH="+libraries, "DDLEMU_SOFT_NVLINK_DOMAIN=3")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasSuffix(string(out), "fabric: state 3, of several nodes, clique 3\n") {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("no fabric", func(t *testing.T) {
		cmd := exec.Command(program)
		cmd.Env = append(built.Environ(), "DDLEMU_DIR="+world.Folder(t), "LD_LIBRARY_PATH="+libraries)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "CUDA: ddlemu software GPU 1, 8.0, 108 SMs,") ||
			!strings.HasSuffix(string(out), "NVML: ddlemu software GPU 1, 8.0, PCIe 4 of 16000 MT/s\n"+none) {
			t.Errorf("%v\n%s", err, out)
		}
	})
}

// NCCL finds the GPUs, NVLinks, CPUs and slots of the kind, and calls are right. The numbers are NCCL's own.
func TestNCCLSeesTheKind(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		kind, nccl string
		gpus       int
		want       []string // in the topology that NCCL prints
	}{
		{"h100-sxm", "2.29", 2, []string{"CPU/0-0 (1/1/", "+ NVL[370.8] - NVS/0-0", "PCI[48.0] - GPU/0-10000 (0)"}},
		{"b200", "2.29", 2, []string{"+ NVL[721.8] - NVS/0-0"}},
		{"gb200", "2.29", 4, []string{"CPU/0-0 (3/-1/-1)", "+ C2C[225.0] - GPU/0-11000", "PCI[96.0] - GPU/0-12000 (2)"}},
		{"gh200", "2.22", 2, []string{"CPU/0-1 (3/-1/-1)", "+ NVL[370.8] - GPU/11000"}},
		{"v100", "2.22", 2, []string{"+ NVL[20.0] - GPU/11000", "PCI[12.0] - GPU/0-10000 (0)"}},
		{"l40s", "2.29", 2, []string{"PCI[24.0] - GPU/0-10000 (0)", "CPU/0-0 (1/2/"}},
	} {
		t.Run(tc.kind, func(t *testing.T) {
			w := world.New(t)
			logs := t.TempDir()
			out := w.Run("bench", "allreduce", "--profile", "ndr400", "--set", "link.jitter=none", "--set", "nics_per_node=2", "--gpu", tc.kind,
				"--nodes", "2", "--ranks", fmt.Sprint(2*tc.gpus), "--set", "nvlink_domain="+fmt.Sprint(tc.gpus), "--clock", "virtual",
				"--nccl", tc.nccl, "-b", "8", "-e", "512K", "-f", "65536", "-n", "1", "-w", "0", "--log-dir", logs)
			if !strings.Contains(out, "# decisions: fabric view, as for "+tc.kind+", net ib") ||
				!strings.Contains(out, "\nverdict: VALID") {
				t.Errorf("%s", out)
			}
			// Without jitter the model's times are those of the run, to the digits shown.
			timesOfModel(t, out, 4)
			log, err := os.ReadFile(filepath.Join(logs, "rank0.log"))
			if err != nil {
				t.Fatal(err)
			}
			system, _, _ := strings.Cut(string(log), "==========================================")
			_, system, _ = strings.Cut(system, "=== System")
			for _, want := range tc.want {
				if !strings.Contains(system, want) {
					t.Errorf("%q is not in %s", want, system)
				}
			}
			// The files of a node's ranks are merged: each CPU is there once.
			if n := strings.Count(system, "NCCL INFO CPU/0-0 ("); n != 1 {
				t.Errorf("CPU 0 is there %d times: %s", n, system)
			}
		})
	}
}

// timesOfModel checks that the n measured times of a table are those of the model.
func timesOfModel(t *testing.T, out string, n int) {
	t.Helper()
	diff := regexp.MustCompile(` [-+]\d+\.\d\d\b`).FindAllString(out, -1)
	if len(diff) != n || slices.ContainsFunc(diff, func(d string) bool { return d[2:] != "0.00" }) {
		t.Errorf("the times differ from the model's by %q %%, want %d of 0.00:\n%s", diff, n, out)
	}
}

// NVLSTree on GPUs that have NVLink SHARP: every element is right, and each time is that of the model. With fewer NICs than
// GPUs not every rank is a head.
func TestNVLSTree(t *testing.T) {
	t.Parallel()
	for version, nics := range map[string]string{"2.22": "3", "2.29": "2"} {
		t.Run(version, func(t *testing.T) {
			w := world.New(t)
			w.Env = append(w.Env, "NCCL_ALGO=NVLSTree")
			out := w.Run("bench", "allreduce", "--profile", "ndr400", "--set", "link.jitter=none", "--set", "nics_per_node="+nics,
				"--gpu", "h100-sxm", "--nodes", "2", "--ranks", "6", "--clock", "virtual", "--nccl", version, "-b", "8", "-e", "2M", "-f", "512",
				"-n", "2", "-w", "1")
			for _, want := range []string{"bytes NVLSTree Simple", "# Out of bounds values : 0 OK",
				"\nverdict: VALID"} {
				if !strings.Contains(out, want) {
					t.Errorf("%q is not in %s", want, out)
				}
			}
			timesOfModel(t, out, 6)
		})
	}
}

// With the host's view NCCL has no topology file of ours, and asks NVML.
func TestNCCLAsksNVML(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	logs := t.TempDir()
	out := w.Run("bench", "allreduce", "--profile", "ndr400", "--gpu", "h100-sxm", "--set", "nccl_view=host", "--nodes", "2",
		"--ranks", "4", "--clock", "virtual", "--nccl", "2.29", "-b", "8", "-e", "8", "-n", "1", "-w", "0", "--log-dir",
		logs)
	log, err := os.ReadFile(filepath.Join(logs, "rank0.log"))
	if err != nil || !strings.Contains(string(log), "+ NVL[370.8] - NVS/0-0") || !strings.Contains(out, "verdict: VALID") {
		t.Errorf("%v: no 18 NVLinks in the log, or not VALID:\n%s\n%s", err, out, log)
	}
}

// NVLinks that cannot connect the GPUs of a node are refused when only the ranks say how many there are.
func TestImpossibleNode(t *testing.T) {
	t.Parallel()
	w := world.New(t)
	for args, want := range map[string]string{
		"--ranks 32 --nodes 2":                   "the NVLinks of v100 connect 8 GPUs",
		"--ranks 16 --nodes 2 --set nvlink=mesh": "6 NVLinks connect a GPU with 6 others at most",
	} {
		o := w.Try(append([]string{"expect", "allreduce", "--profile", "ndr400", "--gpu", "v100", "-b", "8", "-e", "8"},
			strings.Fields(args)...)...)
		if o.Exit != 2 || !strings.Contains(o.Text(), want) || strings.Count(o.Text(), "\n") != 1 {
			t.Errorf("%s: exit status %d: %s", args, o.Exit, o.Text())
		}
	}
}

// The time of a node beside times that NVIDIA AIConfigurator 0.12.0 published for 8 H200 (NCCL 2.29.2, half). The times of
// this kind are those of the H100: none of these rows has set them.
func TestNodeTime(t *testing.T) {
	t.Parallel()
	published := map[int64]float64{1024: 16.76, 65536: 19.89, 4194304: 51.37, 268435456: 1052.63} // us, by bytes
	w := world.New(t)
	out := w.Run("expect", "allreduce", "--profile", "ndr400", "--gpu", "h200-sxm", "--set", "node_time=on", "--nodes", "1",
		"--ranks", "8", "--nccl", "2.29", "-d", "half", "-b", "1K", "-e", "256M", "-f", "64", "--json")
	var report struct {
		Rows []struct {
			Size     int64   `json:"size"`
			Expected float64 `json:"expected_us"`
			Algo     string  `json:"algo"`
		} `json:"rows"`
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err, out)
	}
	if len(report.Rows) != len(published) {
		t.Errorf("%d rows, want %d", len(report.Rows), len(published))
	}
	for _, r := range report.Rows {
		want := published[r.Size]
		if diff := r.Expected/want - 1; math.Abs(diff) > 0.15 {
			t.Errorf("%d bytes by %s: %.1f us, published %.1f: %+.0f %%", r.Size, r.Algo, r.Expected, want, 100*diff)
		}
		if r.Size >= 4<<20 && r.Algo != "NVLS" {
			t.Errorf("%d bytes: NCCL chose %s, want NVLS", r.Size, r.Algo)
		}
	}
}

// In an NVLink domain of several nodes real NCCL decides as for one node, and the times are those of one node. Domains of
// some nodes are NCCL's nodes. An emulated run is refused.
func TestNVLinkDomain(t *testing.T) {
	w := world.New(t)
	expect := func(args ...string) string {
		out := w.Run(append([]string{"expect", "allreduce", "--profile", "ndr400", "--set", "link.jitter=none", "--gpu", "gb200",
			"--set", "node_time=on", "--ranks", "8", "--nccl", "2.29", "-b", "1K", "-e", "64M", "-f", "256", "--quiet"}, args...)...)
		_, table, _ := strings.Cut(out, "\n\n")
		table, _, _ = strings.Cut(table, "\n\n")
		if strings.Count(table, "\n") < 3 {
			t.Fatalf("no table of three rows:\n%s", out)
		}
		return strings.TrimSpace(table)
	}
	node, domain := expect("--nodes", "1"), expect("--nodes", "4")
	if !strings.Contains(node, "NVLS") || node != domain {
		t.Errorf("one node:\n%s\na domain of 4:\n%s", node, domain)
	}
	if two := expect("--nodes", "4", "--set", "nvlink_domain=4"); !strings.Contains(two, "Tree") || two == domain {
		t.Errorf("two domains:\n%s\none:\n%s", two, domain)
	}
	apart, links := expect("--nodes", "4", "--set", "nvlink_domain=2"), expect("--nodes", "4", "--set", "nvlink_domain=1")
	if apart != links || apart == domain {
		t.Errorf("NVLinks within nodes of 2:\n%s\n%s", apart, links)
	}

	const refused = "ddlemu: nvlink_domain: NVLinks connect GPUs of 2 nodes, and an emulated run has no NVLinks between nodes"
	for _, args := range []string{"up", "run --soft-cuda -- true", "bench allreduce --ranks 4 -b 8 -e 8"} {
		words := strings.Fields(args)
		o := w.Try(slices.Insert(words, 1, "--profile", "ndr400", "--gpu", "gb200", "--nodes", "2")...)
		if o.Exit != 2 || !strings.Contains(o.Text(), refused) || strings.Count(o.Text(), "\n") != 1 {
			t.Errorf("%s: exit status %d: %s", args, o.Exit, o.Text())
		}
	}
	o := w.Try("expect", "allreduce", "--profile", "ndr400", "--gpu", "gb200", "--set", "node_time=on", "--ranks", "4", "--nodes", "2",
		"--nccl", "2.22", "-b", "8", "-e", "8")
	if o.Exit != 2 || !strings.Contains(o.Text(), "only NCCL 2.29 decides here for NVLinks between nodes") {
		t.Errorf("exit status %d: %s", o.Exit, o.Text())
	}
	w.Env = append(w.Env, "NCCL_MNNVL_ENABLE=0") // then NCCL shares the memory of a node by file descriptors
	o = w.Try("expect", "allreduce", "--profile", "ndr400", "--gpu", "gb200", "--set", "node_time=on", "--ranks", "4", "--nodes", "2",
		"-b", "8", "-e", "8")
	if !strings.Contains(o.Text(), "NCCL counts 2 nodes, and NVLinks make 1 node of the emulated ones") {
		t.Errorf("NCCL does not use the NVLinks: exit status %d: %s", o.Exit, o.Text())
	}
}
