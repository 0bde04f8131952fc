// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/test/built"
)

// Real NCCL takes the time that the model computes for nodes that cost time: one node and several, rings, trees, NVLS
// and sends, over switches and a mesh.
func TestNodeTimeIsThatOfTheModel(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		collective, gpu, version string
		env, args                []string
	}{
		{"allreduce", "a100-sxm", "2.22", nil, []string{"--ranks", "2", "--nodes", "1"}},
		{"allreduce", "a100-sxm", "2.29", []string{"NCCL_PROTO=Simple"}, []string{"--ranks", "4", "--nodes", "1"}},
		{"allreduce", "a100-sxm", "2.29", []string{"NCCL_ALGO=Tree"}, []string{"--ranks", "8", "--nodes", "1"}},
		{"allreduce", "a100-sxm", "2.22", []string{"NCCL_ALGO=Tree", "NCCL_PROTO=LL128"},
			[]string{"--ranks", "8", "--nodes", "2", "--set", "nvlink=mesh"}},
		{"allreduce", "h100-sxm", "2.22", []string{"NCCL_ALGO=NVLS"}, []string{"--ranks", "8", "--nodes", "1"}},
		{"allgather", "h100-sxm", "2.29", []string{"NCCL_ALGO=NVLS"}, []string{"--ranks", "4", "--nodes", "1"}},
		{"reducescatter", "h100-sxm", "2.29", []string{"NCCL_ALGO=NVLS"}, []string{"--ranks", "4", "--nodes", "1"}},
		{"allreduce", "h100-sxm", "2.29", []string{"NCCL_ALGO=NVLSTree"},
			[]string{"--ranks", "8", "--nodes", "2", "--set", "nics_per_node=4"}},
		{"alltoall", "h100-sxm", "2.29", nil, []string{"--ranks", "4", "--nodes", "1"}},
		{"alltoall", "h100-sxm", "2.22", nil, []string{"--ranks", "4", "--nodes", "2", "--set", "nics_per_node=2"}},
		// On one NIC the order in which connections were made matters: by PXN, and where PAT adds to those of the tree.
		{"allgather", "h100-sxm", "2.29", []string{"NCCL_ALGO=PAT"}, []string{"--ranks", "4", "--nodes", "4"}},
		{"alltoall", "h100-sxm", "2.29", nil, []string{"--ranks", "8", "--nodes", "2", "--set", "nics_per_node=1"}},
		// Of a kernel's batches on a channel only the first one starts its sends later.
		{"alltoall", "h100-sxm", "2.29", []string{"NCCL_MAX_P2P_NCHANNELS=1"}, []string{"--ranks", "10", "--nodes", "5"}},
		{"hypercube", "a100-sxm", "2.22", nil, []string{"--ranks", "4", "--nodes", "1"}},
		{"sendrecv", "a100-sxm", "2.29", nil, []string{"--ranks", "4", "--nodes", "2"}},
	} {
		t.Run(fmt.Sprint(tc.collective, tc.gpu, tc.version, tc.env, tc.args), func(t *testing.T) {
			args := append([]string{tc.collective, "--profile", "ndr400", "--set", "link.jitter=none", "--gpu", tc.gpu, "--set", "node_time=on",
				"--nccl", tc.version, "-b", "1K", "-e", "4M", "-f", "64", "-n", "2", "-w", "1"}, tc.args...)
			exact(t, bench(t, folder(t), tc.env, args...))
		})
	}
}

// A profile whose GPUs cost time has that time in every command: a call takes the same in bench, expect, run and a replay
// of that run. Where an emulated run cannot have it, bench, run and replay give the same reason.
func TestNodeTimeOfASystemInEveryCommand(t *testing.T) {
	t.Parallel()
	const call = 5 // of the program: 3 before the 2 that are timed
	bin := program(t)
	for _, tc := range []struct{ system, size, count, gpuTime string }{
		{"hgx-h100-ndr400", "64M", "16777216", "that of h100-sxm"},
		{"dgx-a100-hdr", "4M", "1048576", "that of a100-sxm"},
		{"a100x4-ss11", "4M", "1048576", "none (emulated runs do not know the rendezvous of NICs (nic_time) yet)"},
	} {
		t.Run(tc.system, func(t *testing.T) {
			t.Parallel()
			on := []string{"--profile", tc.system, "--set", "link.jitter=none", "--nodes", "2", "--set", "gpus_per_node=2"}
			rows := append([]string{"allreduce", "--ranks", "4", "-b", tc.size, "-e", tc.size, "-n", "2", "-w", "3"}, on...)
			r := bench(t, folder(t), nil, rows...)
			exact(t, r)
			trace, job := filepath.Join(t.TempDir(), "trace"), filepath.Join(t.TempDir(), "job.jsonl")
			out := succeeds(t, []string{"WORLD_SIZE=4", "CALLS=2", "COUNT=" + tc.count}, append(append([]string{"run"}, on...), "--soft-cuda",
				"--clock", "virtual", "--trace", trace, "--", bin)...)
			// Without the time of nodes the ranks of the program are not ready at the same time after its first calls.
			timed := strings.HasPrefix(tc.gpuTime, "that of")
			if got := meanOfRanks(t, out); timed && math.Abs(got-r.Rows[1].TimeUS) > 0.001 { // both have times to the ns
				t.Errorf("a call took %.3f us in run, %.3f in bench:\n%s", got, r.Rows[1].TimeUS, out)
			}
			if want := "GPU time: " + tc.gpuTime + "\n"; !strings.Contains(out, want) {
				t.Errorf("run, want %q:\n%s", want, out)
			}
			succeeds(t, nil, "record", "-o", job, "--from", trace)
			again := filepath.Join(t.TempDir(), "again")
			out = succeeds(t, nil, append([]string{"replay", job, "--trace", again}, on...)...)
			if want := "# GPU time: " + tc.gpuTime + "\n"; !strings.Contains(out, want) {
				t.Errorf("replay, want %q:\n%s", want, out)
			}
			var d struct {
				Functions []struct {
					Calls int
					A     int64 `json:"a_ns"`
					B     int64 `json:"b_ns"`
				}
			}
			text := succeeds(t, nil, "diff", trace, again, "--json")
			if err := json.Unmarshal([]byte(text), &d); err != nil || len(d.Functions) != 1 || d.Functions[0].Calls != call ||
				d.Functions[0].A != d.Functions[0].B || d.Functions[0].A == 0 {
				t.Errorf("recorded and replayed: %v\n%s", err, text)
			}
		})
	}
}

// meanOfRanks is the mean of the times that the ranks of testdata/allreduce.cc printed, in us: what nccl-tests shows.
func meanOfRanks(t *testing.T, out string) (mean float64) {
	t.Helper()
	times := regexp.MustCompile(`a call takes (\S+) us`).FindAllStringSubmatch(out, -1)
	for _, m := range times {
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		mean += v / float64(len(times))
	}
	return mean
}

// succeeds runs ddlemu and returns all that it prints, and what its program prints.
func succeeds(t *testing.T, env []string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := ddlemu(ctx, t, folder(t), env, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ddlemu %v: %v\n%s%s", args, err, out, stderr.String())
	}
	if slices.Contains(args, "--json") {
		return string(out)
	}
	return string(out) + stderr.String()
}

// slowGPU is a kind of GPU whose launches, steps and NVLinks take so long that most hosts can play them in time.
const slowGPU = `name: slow
description: for a test
product: Slow
compute_capability: 8.0
sms: 8
memory: 80G
nvlink: {generation: 3, links: 12, rate: 25GB/s, connection: switch}
pcie: {generation: 4, lanes: 16, gpus: 2}
cpu: {arch: x86_64, vendor: amd, gpus: 4}
time:
  kernel: 50ms
  call: 20ms
  links: {rate: 200GB/s, latency: 40ms}
  net: {per_message: 1us, latency: 40ms}
  ll: {step: 50ms, rate: 20GB/s}
  ll128: {step: 50ms, rate: 20GB/s}
  simple: {step: 50ms, rate: 20GB/s}
  send: {step: 50ms, rate: 20GB/s}
sources: {time: for a test}
`

// On a real clock the nodes take at least their time. A host that plays them late makes the run INVALID, and the reason
// names rank and part; one that is in time makes it VALID.
func TestNodeTimeOnARealClock(t *testing.T) {
	const hold = 200 * time.Millisecond // longer than a busy host stops a thread, by far
	gpu := filepath.Join(t.TempDir(), "slow.yaml")
	if err := os.WriteFile(gpu, []byte(slowGPU), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, nodes := range []string{"1", "2"} {
		t.Run(nodes+" nodes", func(t *testing.T) {
			args := []string{"allreduce", "--profile", "ndr400", "--set", "link.jitter=none", "--gpu", gpu, "--set", "node_time=on", "--ranks",
				"2", "--nodes", nodes, "--set", "time_scale=2", "-b", "8", "-e", "8", "-n", "2", "-w", "1"}
			env := []string{"DDLEMU_PLUGIN_DIR=" + built.Path(t, "faults"), "NCCL_ALGO=Ring", "NCCL_PROTO=LL"}
			notShorter := func(r result) {
				for _, row := range r.Rows {
					if row.TimeUS < 0.99*row.ExpectedUS {
						t.Fatalf("%d bytes took %.0f us, less than the nodes take: %.0f us", row.Size, row.TimeUS,
							row.ExpectedUS)
					}
				}
			}
			r := bench(t, folder(t), append(env, fmt.Sprintf("DDLEMU_FAULT=hold %d %d", hold, 3*hold/2)), args...)
			notShorter(r)
			onlyTheHost(t, r.Verdict, r.Findings)
			reasons := strings.Join(r.Reasons, "\n")
			for _, want := range []string{"rank 0 (node0/gpu0), ", "actions of kernels <= 4 KiB", "launches of kernels: ",
				": this host cannot play the node in time"} {
				if !strings.Contains(reasons, want) {
					t.Errorf("%s %q, want %q", r.Verdict, r.Reasons, want)
				}
			}
			if late := largestLateness(t, reasons); r.Verdict != "INVALID" || late < hold/4 {
				t.Errorf("%s, largest lateness %v, of a node that is held for %v", r.Verdict, late, hold)
			}
			onRealClock(t, func(string) error {
				r := bench(t, folder(t), env, args...)
				notShorter(r)
				if r.Verdict != "VALID" {
					onlyTheHost(t, r.Verdict, r.Findings)
					return fmt.Errorf("without a fault: %s %q", r.Verdict, r.Reasons)
				}
				return nil
			})
		})
	}
}

// Communicators of some of the ranks take the time of the model too: one after another and at the same time, where they
// share the links between the GPUs, the NICs and the host's thread; also where NVSwitches reduce.
func TestNodeTimeOfSomeRanks(t *testing.T) {
	t.Parallel()
	const pairs = `{"name":"tp","ranks":"0-1"},{"name":"tp","ranks":"2-3"},{"name":"dp","ranks":"0,2"},{"name":"dp","ranks":"3,1"}`
	mixed := workloadFile(t, `"ranks":4,"comms":[{"name":"all","ranks":"0-3"},`+pairs+`]`,
		`{"id":1,"op":"calc","ns":20000,"stream":"c"}`,
		`{"id":2,"op":"coll","comm":"tp","func":"AllReduce","count":1048576,"type":"float16","stream":"t","after":[1]}`,
		`{"id":3,"op":"calc","ns":30000,"stream":"c","after":[2]}`,
		`{"op":"coll","comm":"dp","func":"AllReduce","count":2097152,"type":"float32","stream":"d","after":[1]}`,
		`{"op":"coll","comm":"all","func":"AllReduce","count":300000,"type":"float32","stream":"w","after":[1]}`,
		`{"op":"coll","comm":"dp","func":"ReduceScatter","count":1048576,"type":"float32","stream":"d","after":[3]}`,
		`{"op":"step"}`)
	switches := workloadFile(t, `"ranks":8,"nccl":{"NCCL_ALGO":"NVLS"},"comms":[{"name":"half","ranks":"0-3"},`+
		`{"name":"half","ranks":"4-7"},{"name":"other","ranks":"1,3,5,7"},{"name":"other","ranks":"0,2,4,6"}]`,
		`{"op":"calc","ns":20000}`,
		`{"op":"coll","comm":"half","func":"AllReduce","count":1048576,"type":"float32"}`,
		`{"op":"coll","comm":"other","func":"AllReduce","count":1000000,"type":"float32"}`,
		`{"op":"step"}`)
	messages := workloadFile(t, `"ranks":8,"comms":[{"name":"all","ranks":"0-7"},{"name":"pp","ranks":"0,4"},`+
		`{"name":"pp","ranks":"1,5"},{"name":"pp","ranks":"2,6"},{"name":"pp","ranks":"3,7"},{"name":"ep","ranks":"0-7"}]`,
		`{"op":"calc","ns":20000}`,
		`{"op":"coll","comm":"all","func":"AllReduce","count":300000,"type":"float32"}`,
		`{"rank":"4-7","op":"recv","comm":"pp","count":1000000,"type":"float32","peer":-1,"relative":true}`,
		`{"op":"calc","ns":10000}`,
		`{"rank":"0-3","op":"send","comm":"pp","count":1000000,"type":"float32","peer":1,"relative":true}`,
		`{"op":"coll","comm":"ep","func":"AllToAll","count":200000,"type":"int8"}`,
		`{"op":"step"}`)
	for _, tc := range []struct{ path, gpu, nodes string }{
		{messages, "h100-sxm", "2"}, {mixed, "a100-sxm", "1"}, {mixed, "a100-sxm", "2"}, {switches, "h100-sxm", "1"},
	} {
		for _, version := range replayVersions {
			t.Run(fmt.Sprint(tc.gpu, tc.nodes, version), func(t *testing.T) {
				r := output(t, "replay", tc.path, "--profile", "ndr400", "--set", "link.jitter=none", "--gpu", tc.gpu,
					"--set", "node_time=on", "--nodes", tc.nodes, "--nccl", version)
				if r.Forecast || r.Verdict != "VALID" || len(r.Steps) != 1 || len(r.Calls) == 0 {
					t.Fatalf("%+v", r)
				}
				near(t, "the step", r.Steps[0].Time, r.Steps[0].Expected)
				for _, c := range r.Calls {
					near(t, c.Func+" of "+c.Comm, c.Mean, c.Expected)
				}
			})
		}
	}
}

// A job on nodes that cost time needs no number of GPUs per node: each node has one. More ranks are told what to give.
func TestNodeTimeWithoutGPUsPerNode(t *testing.T) {
	t.Parallel()
	bin := program(t)
	for _, tc := range []struct {
		world, says string
		valid       bool
	}{
		{"2", "GPU time: that of h100-sxm", true},
		{"4", "4 ranks are more than the fabric's 2 nodes x 1 GPU: give --set gpus_per_node=2", false},
	} {
		out, err := ddlemu(t.Context(), t, folder(t), []string{"WORLD_SIZE=" + tc.world}, "run", "--profile", "ndr400",
			"--gpu", "h100-sxm", "--set", "node_time=on", "--nodes", "2", "--clock", "virtual", "--soft-cuda", "--", bin).CombinedOutput()
		if !strings.Contains(string(out), tc.says) || strings.Contains(string(out), "verdict: VALID") != tc.valid {
			t.Errorf("%s ranks: %v\n%s", tc.world, err, out)
		}
	}
}
