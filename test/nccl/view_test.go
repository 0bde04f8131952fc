// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
	"github.com/ddlemu/ddlemu/test/built"
	"github.com/ddlemu/ddlemu/test/needs"
)

// decided returns NCCL's decisions for AllReduce of the sizes from begin to end by factors of 8, on 2 nodes, as "size
// algorithm protocol".
func decided(t *testing.T, env []string, begin, end string, args ...string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if !slices.Contains(args, "--ranks") {
		args = append(args, "--ranks", "2")
	}
	e := expectIn(ctx, t, env, append([]string{"-b", begin, "-e", end, "-f", "8"}, args...)...)
	var all []string
	for _, r := range e.Rows {
		all = append(all, fmt.Sprintf("%d %s %s", r.Size, r.Algo, r.Proto))
	}
	return all
}

func has(decisions []string, protocol string) bool {
	return strings.Contains(strings.Join(decisions, "\n")+"\n", " "+protocol+"\n")
}

// NCCL uses LL up to the size at which the cost of its doubled bytes exceeds the latency that it saves: a larger size
// on a faster link. LL128 follows if the NIC reaches the GPU's memory.
func TestNCCLDecidesAsOnTheFabric(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2.22", "2.29"} {
		t.Run(version, func(t *testing.T) {
			// A child of a process with the plugin inherits NCCL_TOPO_FILE, but not the file.
			inherited := []string{"NCCL_TOPO_FILE=/proc/self/fd/99"}
			slow := decided(t, inherited, "32K", "2M", "--profile", "ndr400", "--bw", "10Gbps", "--nccl", version)
			fast := decided(t, nil, "32K", "2M", "--profile", "ndr400", "--nccl", version)
			t.Logf("10 Gb/s: %q; 400 Gb/s: %q", slow, fast)
			if want := "32768 Ring LL128"; slow[0] != want {
				t.Errorf("at 10 Gb/s: %s, want %s", slow[0], want)
			}
			if want := "32768 Ring LL"; fast[0] != want {
				t.Errorf("at 400 Gb/s: %s, want %s", fast[0], want)
			}
			if want := "2097152 Ring Simple"; slow[2] != want {
				t.Errorf("at 10 Gb/s: %s, want %s", slow[2], want)
			}
			if want := "2097152 Ring LL128"; fast[2] != want {
				t.Errorf("at 400 Gb/s: %s, want %s", fast[2], want)
			}
		})
	}
}

// With NVLink between the GPUs of a node, NCCL uses all NICs of the node, each beside a GPU. A call takes little more
// than the minimum with all NICs.
func TestNVLinkUsesEveryNIC(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2.22", "2.29"} {
		t.Run(version, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			e := expectIn(ctx, t, nil, "--profile", "efa-p4d", "--nodes", "2", "--ranks", "4", "--set", "nics_per_node=2",
				"-b", "64M", "-e", "64M", "--nccl", version)
			if r := e.Rows[0]; r.ExpectedUS == nil || *r.ExpectedUS > 1.2*r.BoundUS {
				t.Errorf("%+v: with one of two NICs it would be twice the bound", r)
			}
		})
	}
}

// Traffic over NVLink and over both NICs is correct and takes the model's time.
func TestNVLinkCollectives(t *testing.T) {
	t.Parallel()
	for _, coll := range []string{"allreduce", "alltoall"} {
		for _, version := range []string{"2.22", "2.29"} {
			t.Run(coll+" "+version, func(t *testing.T) {
				exact(t, bench(t, folder(t), nil, coll, "--profile", "efa-p4d", "--set", "link.jitter=none", "--bw", "2Gbps",
					"--nodes", "2", "--ranks", "4", "--set", "nics_per_node=2",
					"--nccl", version, "-b", "4M", "-e", "4M", "-n", "2", "-w", "1"))
			})
		}
	}
}

// NCCL's own nets tell it no latency, so it chooses Simple where the latency of a long line would make it choose LL.
func TestNCCLIsShownTheRealNet(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ profile, nccl, ranks, size, want string }{
		{"wan-metro", "2.22", "2", "2M", "2097152 Ring Simple"},
		{"wan-metro", "2.29", "2", "512K", "524288 Ring Simple"},
		{"wan-region", "2.22", "4", "8M", "8388608 Ring Simple"},
		{"eth25-tcp", "2.22", "4", "512K", "524288 Ring Simple"},
		{"eth10", "2.29", "4", "128K", "131072 Ring Simple"},
		{"ndr400", "2.22", "4", "8", "8 Ring LL"},
		{"ndr400", "2.29", "4", "8", "8 Tree LL"},
	} {
		if got := decided(t, nil, tc.size, tc.size, "--profile", tc.profile, "--nccl", tc.nccl, "--ranks",
			tc.ranks); !slices.Equal(got, []string{tc.want}) {
			t.Errorf("%s, NCCL %s, %s ranks: %q, want %q", tc.profile, tc.nccl, tc.ranks, got, tc.want)
		}
	}
	if got := decided(t, nil, "2M", "2M", "--profile", "wan-metro", "--set", "nccl.latency=link"); !slices.Equal(got,
		[]string{"2097152 Ring LL"}) {
		t.Errorf("with the links' latency: %q", got)
	}
}

// The vendor of the CPUs is the fabric's, so a small call gets the same algorithm on every host.
func TestNCCLDecidesByTheFabricsCPU(t *testing.T) {
	t.Parallel()
	for cpu, want := range map[string]string{"amd": "8 Ring LL", "intel": "8 Tree LL"} {
		if got := decided(t, nil, "8", "8", "--profile", "ndr400", "--nccl", "2.22", "--set", "nccl.latency=link", "--set",
			"cpu="+cpu); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q", cpu, got, want)
		}
	}
}

// With the host's view, and with tcp, no NIC reaches the GPUs' memory, and NCCL excludes LL128.
func TestNCCLDecidesAsOnTheHost(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"host view": {"--profile", "ndr400", "--set", "nccl_view=host"},
		"tcp":       {"--profile", "ndr400", "--set", "transport=tcp"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := decided(t, nil, "32K", "2M", args...); has(got, "LL128") {
				t.Errorf("%q", got)
			}
		})
	}
}

// LL128 of a GPU is not safe through host memory. NCCL must never select it there, and its log says where the real
// fabric would use it. If NCCL cannot be prevented from using it, the job is INVALID in every case.
func TestNoLL128OnAGPU(t *testing.T) {
	t.Parallel()
	gpu := "LD_PRELOAD=" + library(t, "libcuda.so.1", "testdata/libcuda.c")
	tuner2 := "NCCL_TUNER_PLUGIN=" + library(t, "libnccl-tuner-v2.so", "testdata/tuner_v2.c")
	empty := "NCCL_TUNER_PLUGIN=" + library(t, "libnccl-tuner-empty.so", "testdata/tuner_empty.c")
	users := "NCCL_TUNER_PLUGIN=" + library(t, "libnccl-tuner-users.so", "testdata/tuner_users.c")
	const (
		none     = "NCCL_TUNER_PLUGIN=none"
		takenOut = "the real fabric would use LL128, which is taken out"
		early    = "NCCL_PROTO lets NCCL choose LL128, which is not safe on a GPU"
		alone    = "of 32768 bytes: NCCL is left with LL128, which is not safe on a GPU"
	)
	for _, tc := range []struct {
		nccl, env, tuner string
		coll             string // default: allreduce
		unsafe           bool   // NCCL uses LL128, and the job is INVALID
		says, never      []string
	}{
		{nccl: "2.22", never: []string{early, alone}},
		{nccl: "2.29", never: []string{early, alone}},
		{nccl: "2.22", env: "NCCL_PROTO=LL,LL128,Simple",
			says: []string{early, "AllReduce of 2097152 bytes: " + takenOut}, never: []string{alone}},
		{nccl: "2.29", env: "NCCL_PROTO=LL,LL128,Simple",
			says: []string{early, "AllReduce of 2097152 bytes: " + takenOut}, never: []string{alone}},
		{nccl: "2.22", env: "NCCL_PROTO=^LL", says: []string{early}, never: []string{alone}},
		{nccl: "2.29", env: "NCCL_PROTO=^LL", says: []string{early}, never: []string{alone}},
		{nccl: "2.22", env: "NCCL_PROTO=^LL128", never: []string{early, takenOut, alone}},
		{nccl: "2.29", env: "NCCL_PROTO=^LL128;allreduce:LL", never: []string{takenOut, alone}},

		// There is no alternative.
		{nccl: "2.22", env: "NCCL_PROTO=LL128", unsafe: true, says: []string{early, alone}},
		{nccl: "2.29", env: "NCCL_PROTO=LL128", unsafe: true, says: []string{early, alone}},
		{nccl: "2.22", env: "NCCL_PROTO=^LL,Simple", unsafe: true, says: []string{early, alone}},
		{nccl: "2.29", env: "NCCL_PROTO=^LL,Simple", unsafe: true, says: []string{early, alone}},
		{nccl: "2.29", env: "NCCL_PROTO=allreduce:LL128", unsafe: true, says: []string{early, alone}},
		{nccl: "2.29", env: "NCCL_PROTO=LL;allreduce:LL128", unsafe: true, says: []string{early, alone}},
		{nccl: "2.29", env: "NCCL_PROTO=^LL128;allreduce:LL128", unsafe: true, says: []string{early, alone}},
		// Only another collective has no alternative.
		{nccl: "2.29", env: "NCCL_PROTO=LL;broadcast:LL128", says: []string{early}, never: []string{alone}},
		// Broadcasts have no trees: NCCL 2.22 uses rings instead.
		{nccl: "2.22", env: "NCCL_ALGO=tree NCCL_PROTO=^LL,Simple", coll: "broadcast", unsafe: true,
			says: []string{early, alone}},
		{nccl: "2.22", env: "NCCL_ALGO=tree", coll: "broadcast", never: []string{early, alone}},
		// NCCL does not show what it uses instead.
		{nccl: "2.22", env: "NCCL_PROTO=^LL", tuner: empty, unsafe: true, says: []string{early, alone}},
		{nccl: "2.22", tuner: empty, never: []string{early, alone}},

		// The tuner sees no costs: NCCL_PROTO decides.
		{nccl: "2.22", env: "NCCL_PROTO=^LL", tuner: tuner2, unsafe: true, says: []string{early}},
		{nccl: "2.22", env: "NCCL_PROTO=^LL128;allreduce:LL128", tuner: tuner2, unsafe: true, says: []string{early}},
		{nccl: "2.22", env: "NCCL_PROTO=^LL128", tuner: tuner2, never: []string{early}},
		{nccl: "2.22", tuner: tuner2, never: []string{early}},
		{nccl: "2.22", env: "NCCL_PROTO=^LL", tuner: users, unsafe: true, says: []string{early}},
		{nccl: "2.29", env: "NCCL_PROTO=^LL", tuner: users, unsafe: true, says: []string{early}},
		{nccl: "2.22", tuner: users, never: []string{early}},
		{nccl: "2.29", env: "NCCL_PROTO=allreduce:^LL", tuner: none, unsafe: true, says: []string{early}},
		{nccl: "2.29", env: "NCCL_PROTO=^LL128", tuner: none, never: []string{early}},
		{nccl: "2.29", tuner: none, never: []string{early}},
	} {
		name := strings.Join([]string{tc.nccl, tc.env, filepath.Base(tc.tuner)}, " ")
		t.Run(name, func(t *testing.T) {
			env := append(strings.Fields(tc.env), gpu, "DDLEMU_FAULT=gpu 1",
				"DDLEMU_PLUGIN_DIR="+built.Path(t, "faults"))
			if tc.tuner != "" {
				env = append(env, tc.tuner)
			}
			coll := cmp.Or(tc.coll, "allreduce")
			text := chosen(t, coll, tc.nccl, env, tc.unsafe)
			const view = "NCCL decides by the fabric's view, but without LL128, which the real fabric would use"
			checkLog(t, text, append(tc.says, view), tc.never)
		})
	}
}

// checkLog checks that each text of once is in a log once, and none of never.
func checkLog(t *testing.T, log string, once, never []string) {
	t.Helper()
	for _, want := range once {
		if n := strings.Count(log, want); n != 1 {
			t.Errorf("the log says %d times, want once: %s", n, want)
		}
	}
	for _, not := range never {
		if strings.Contains(log, not) {
			t.Errorf("the log says: %s", not)
		}
	}
}

// library compiles a shared library.
func library(t *testing.T, name, source string) string {
	t.Helper()
	lib := filepath.Join(t.TempDir(), name)
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-Wl,-soname,"+name, source, "-o",
		lib).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return lib
}

// chosen runs a collective on an apparent GPU, and checks whether NCCL chose LL128 and the verdict says so. It returns
// rank 0's log.
func chosen(t *testing.T, coll, version string, env []string, unsafe bool) string {
	t.Helper()
	logs := t.TempDir()
	r := bench(t, folder(t), env, coll, "--profile", "ndr400", "--ranks", "2", "--nccl", version,
		"-b", "32K", "-e", "2M", "-f", "8", "-n", "1", "-w", "1", "--set", "time_scale=1", "--log-dir", logs)
	const reason = "LL128 was forced on a real GPU"
	if got := strings.Contains(strings.Join(r.Reasons, "\n"), reason); got != unsafe {
		t.Errorf("%q among the reasons %q: %v, want %v", reason, r.Reasons, got, unsafe)
	}
	text, err := os.ReadFile(filepath.Join(logs, "rank0.log"))
	if err != nil {
		t.Fatal(err)
	}
	var p nccllog.Parser
	_, _ = p.Write(text)
	if len(p.Comm().Decisions) == 0 {
		t.Fatal("no decisions in the log")
	}
	ll128 := slices.ContainsFunc(p.Comm().Decisions,
		func(c nccllog.Decision) bool { return c.Proto == nccllog.ProtoLL128 })
	if ll128 != unsafe {
		t.Errorf("NCCL chose LL128: %v, want %v: %+v", ll128, unsafe, p.Comm().Decisions)
	}
	return string(text)
}

// The user's topology file is used.
func TestUsersTopologyFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "mine.xml")
	// It has a NIC of 10 Gb/s, unlike the profile.
	text := `<system version="1"><cpu numaid="-1" arch="x86_64" vendor="AuthenticAMD" familyid="25" modelid="1">
<pci busid="0000:50:00.0" class="0x020000" link_speed="8.0 GT/s PCIe" link_width="16"><nic><net name="goemu0" speed="10000" latency="1" port="1" guid="0x1" gdr="0"/></nic></pci>
</cpu></system>`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := bench(t, folder(t), []string{"NCCL_TOPO_FILE=" + file}, "allreduce", "--profile", "ndr400", "--ranks", "2",
		"-b", "2M", "-e", "2M", "-n", "1", "-w", "1", "--set", "time_scale=1", "--log-dir", dir)
	log, err := os.ReadFile(filepath.Join(dir, "rank0.log"))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) == 0 || !strings.Contains(string(log), "NCCL decides by the topology in NCCL_TOPO_FILE="+file+
		", which is kept") || !strings.Contains(string(log), "NET[1.2]") {
		t.Errorf("the user's NCCL_TOPO_FILE:\n%s", log)
	}
}

// A job gets the NICs near the GPUs that it uses, as in https://github.com/NVIDIA/nccl/issues/1250: a node of 8 GPUs
// has 8 NICs of 12.2 GB/s.
func TestJobOnSomeGPUsOfANode(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		gpus int
		args []string
		want float64 // GB/s of a node
	}{
		{1, nil, 12.2},
		{2, nil, 24.4},
		{4, nil, 48.8},
		{1, []string{"--set", "node.gpus=1"}, 97.6}, // all NICs are beside the node's only GPU
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		e := expectIn(ctx, t, nil, append([]string{
			"--profile", "roce100", "--nodes", "2", "--set", "nics_per_node=8", "--set", "nvlinks_per_gpu=12",
			"--set", "gpus_per_node=" + fmt.Sprint(tc.gpus), "--ranks", fmt.Sprint(2 * tc.gpus), "-b", "256M", "-e", "256M",
		}, tc.args...)...)
		r := e.Rows[0]
		if got := 268435456 / *r.ExpectedUS / 1000; got < 0.97*tc.want || got > 1.01*tc.want {
			t.Errorf("%d GPUs %q: %.1f GB/s, want %.1f", tc.gpus, tc.args, got, tc.want)
		}
	}
}

// A NIC that is down when the job starts is not used, and the job runs over the others.
func TestNICDownAtStart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "rails.yaml")
	text := "base: roce100\nnodes: 2\ngpus_per_node: 2\nnics_per_node: 2\nnvlinks_per_gpu: 12\nlinks:\n  - {match: node1.nic1, up: false}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"2.22", "2.29"} {
		for _, coll := range []string{"allreduce", "alltoall"} {
			r := bench(t, folder(t), nil, coll, "-F", file, "--set", "link.jitter=none", "--ranks", "4", "--nccl", version, "-b",
				"1M", "-e", "1M", "-n", "2", "-w", "1")
			nearModel(t, r, 1.5) // with PXN the model is not exact
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	e := expectIn(ctx, t, nil, "-F", file, "--ranks", "4", "-b", "64M", "-e", "64M")
	if got := 67108864 / *e.Rows[0].ExpectedUS / 1000; got < 12 || got > 12.3 {
		t.Errorf("%.1f GB/s with one of two NICs of 12.2", got)
	}
}

// Images of clouds set NCCL_TOPO_FILE to a file of their machines. On the software CUDA, whose GPUs and NICs it does
// not have, NCCL decides as without it, and the output says so.
func TestHostsTopologyFileIsNotUsed(t *testing.T) {
	t.Parallel()
	const text = `<system version="1"><cpu numaid="0" affinity="0000ffff" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="143">
<pci busid="ffff:ff:01.0" class="0x060400" link_speed="32.0 GT/s PCIe" link_width="16">
<pci busid="0001:00:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16"/>
<pci busid="0101:00:00.0" class="0x020700" link_speed="32.0 GT/s PCIe" link_width="16"/>
</pci></cpu></system>`
	dir := t.TempDir()
	file, none := filepath.Join(dir, "host.xml"), filepath.Join(dir, "none.xml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ version, view, file, why string }{
		{"2.22", "fabric", file, "it has GPU 0001:00:00.0, which is no software GPU"},
		{"2.22", "host", file, "it has GPU 0001:00:00.0, which is no software GPU"},
		{"2.29", "fabric", file, "it has GPU 0001:00:00.0, which is no software GPU"},
		{"2.22", "fabric", none, "there is no such file"},
	} {
		args := []string{"--profile", "ndr400", "--ranks", "2", "-b", "32K", "-e", "2M", "-f", "8", "--nccl",
			tc.version, "--set", "nccl_view=" + tc.view}
		note := "NCCL_TOPO_FILE=" + tc.file + " is not used: " + tc.why
		out, err := ddlemu(t.Context(), t, folder(t), []string{"NCCL_TOPO_FILE=" + tc.file},
			append([]string{"expect", "allreduce"}, args...)...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "note: "+note) {
			t.Errorf("%+v: expect: %v:\n%s", tc, err, out)
		}
		logs := t.TempDir()
		r := bench(t, folder(t), []string{"NCCL_TOPO_FILE=" + tc.file},
			append([]string{"allreduce", "-n", "1", "-w", "1", "--log-dir", logs}, args...)...)
		if r.Verdict != "VALID" ||
			!slices.Equal(r.Header.Notes, []string{"decisions: " + tc.view + " view, as for A100, net ib", noGPUTime, note}) {
			t.Errorf("%+v: %s, notes %q", tc, r.Verdict, r.Header.Notes)
		}
		log, err := os.ReadFile(filepath.Join(logs, "rank1.log"))
		if want := "NCCL decides by the " + tc.view + "'s view; " + note; err != nil ||
			!strings.Contains(string(log), want) {
			t.Errorf("%+v: %v, want %q in\n%s", tc, err, want, log)
		}
		if with, without := decided(t, []string{"NCCL_TOPO_FILE=" + tc.file}, "32K", "2M", "--profile", "ndr400",
			"--nccl", tc.version, "--set", "nccl_view="+tc.view),
			decided(t, nil, "32K", "2M", "--profile", "ndr400", "--nccl", tc.version, "--set",
				"nccl_view="+tc.view); !slices.Equal(with, without) {
			t.Errorf("%+v: %q, without the file %q", tc, with, without)
		}
	}
}

// noGPUTime is the note in the header of a run on links alone.
const noGPUTime = "GPU time: none (add --gpu KIND --set node_time=on)"

// A topology file of the software CUDA, as NCCL writes it, is kept.
func TestOwnTopologyFileIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "dump.xml")
	args := []string{"allreduce", "--profile", "efa-p4d", "--set", "link.jitter=none", "--nodes", "2", "--set", "gpus_per_node=2",
		"--ranks", "4", "-b", "1M", "-e", "1M", "-n", "1", "-w", "1"}
	before := bench(t, folder(t), []string{"NCCL_TOPO_DUMP_FILE=" + file}, args...)
	// The dump is of node0, so the ranks of node1 decide by the fabric.
	after := bench(t, folder(t), []string{"NCCL_TOPO_FILE=" + file}, args...)
	want := []string{
		"decisions: by the topology in NCCL_TOPO_FILE=" + file + ", in the ranks whose GPU it has", noGPUTime,
		"NCCL_TOPO_FILE=" + file + " is not used by all ranks: it does not have the software GPU 0000:12:00.0",
	}
	if !slices.Equal(after.Header.Notes, want) {
		t.Errorf("%q, want %q", after.Header.Notes, want)
	}
	if before.Rows[0].TimeUS != after.Rows[0].TimeUS || after.Verdict != "VALID" {
		t.Errorf("%s, %.2f us, %.2f with the own file", after.Verdict, before.Rows[0].TimeUS, after.Rows[0].TimeUS)
	}
}

// NCCL reads the variable from the user's file too.
func TestTopologyFileInNCCLsFile(t *testing.T) {
	t.Parallel()
	needs.Root(t, "a mount over the home folder")
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".nccl.conf"),
		[]byte("NCCL_TOPO_FILE=/opt/microsoft/ndv5-topo.xml\nNCCL_CHUNK_SIZE=65536\nNCCL_IB_HCA=mlx5\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	u, err := user.LookupId("0")
	if err != nil {
		t.Fatal(err)
	}
	script := `mount --bind "$1" "$2" && shift 2 && exec "$@"`
	inner := ddlemu(t.Context(), t, folder(t), nil, "bench", "sendrecv", "-F", hosts(t), "--ranks", "2", "-b", "64M",
		"-e", "64M", "-n", "2", "-w", "1", "--json")
	cmd := exec.CommandContext(t.Context(), "unshare",
		append([]string{"--mount", "--propagation", "private", "sh", "-c", script, "sh", home, u.HomeDir},
			inner.Args...)...)
	cmd.Env = inner.Env
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	var r result
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	conf := filepath.Join(u.HomeDir, ".nccl.conf")
	want := []string{
		"decisions: fabric view, as for A100, net ib", noGPUTime,
		"NCCL_TOPO_FILE=/opt/microsoft/ndv5-topo.xml is not used: there is no such file",
		"NCCL_IB_HCA=mlx5 (" + conf + ") has no effect here: it is for NCCL's NET/IB, and NCCL uses the plugin instead",
	}
	if !slices.Equal(r.Header.Notes, want) {
		t.Errorf("%q, want %q", r.Header.Notes, want)
	}
	if nearModel(t, r, 0.1); r.Rows[0].TimeUS < 10_000 {
		t.Errorf("%+v, the chunk size makes it 10253 us", r.Rows)
	}
}

// The plugin sets the variables that the net of the real cluster sets, unless they are set, and the model knows them.
func TestVariablesOfTheNet(t *testing.T) {
	t.Parallel()
	for env, want := range map[string]string{"": "P2P Chunksize set to 524288",
		"NCCL_P2P_NET_CHUNKSIZE=262144": "P2P Chunksize set to 262144"} {
		logs := t.TempDir()
		var set []string
		if env != "" {
			set = []string{env}
		}
		r := bench(t, folder(t), set, "sendrecv", "--profile", "efa-p4d", "--set", "link.jitter=none", "--ranks", "2", "-b",
			"16M", "-e", "16M", "-n", "2", "-w", "1", "--log-dir", logs)
		nearModel(t, r, 0.1)
		log, err := os.ReadFile(filepath.Join(logs, "rank1.log"))
		if err != nil || !strings.Contains(string(log), want) {
			t.Errorf("%q: %v, no %q in\n%s", env, err, want, log)
		}
	}
}
