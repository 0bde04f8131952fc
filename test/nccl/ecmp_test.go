// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/intercept/messages"
	recorded "github.com/ddlemu/ddlemu/intercept/replay"
)

// perFlow writes a fabric of two leaves and three spines on which each flow takes a spine of its own.
func perFlow(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "spines.yaml")
	text := "base: roce100\nnodes: 4\ngpus_per_node: 2\nnics_per_node: 2\nnvlinks_per_gpu: 12\nlink: {jitter: none}\n" +
		"topology: {kind: leaf-spine, leaves: 2, spines: 3, ecmp: flow, trunk: {latency: 1us}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Where each flow has a path of its own, the model knows which one NCCL's connections take: real NCCL takes the
// model's time for each seed, and the seeds differ. With PAT ranks connect in another order than by channels. With PXN
// two ranks send through one process, whose order at one instant the model does not know exactly.
func TestPathsOfFlows(t *testing.T) {
	t.Parallel()
	file := perFlow(t)
	for _, tc := range []struct {
		collective, version string
		env                 []string
		percent             float64
	}{
		{"alltoall", "2.22", []string{"NCCL_PXN_DISABLE=1"}, 0.001},
		{"alltoall", "2.29", []string{"NCCL_PXN_DISABLE=1"}, 0.001},
		{"alltoall", "2.29", []string{"NCCL_P2P_PXN_LEVEL=2"}, 1.5}, {"allgather", "2.29", nil, 0.001},
	} {
		t.Run(fmt.Sprint(tc.collective, " ", tc.version, tc.env), func(t *testing.T) {
			times := map[float64]bool{}
			for _, seed := range []string{"1", "2", "3"} {
				r := bench(t, folder(t), tc.env, tc.collective, "-F", file, "--ranks", "8", "--nccl", tc.version,
					"--set", "seed="+seed, "-b", "128K", "-e", "128K", "-n", "2", "-w", "1")
				nearModel(t, r, tc.percent)
				times[r.Rows[0].TimeUS] = true
			}
			if len(times) < 2 {
				t.Errorf("all seeds take the same time: %v", times)
			}
		})
	}
}

// A recording that is played again takes the paths of the run: each message arrives when it did.
func TestRecordedPathsOfFlows(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "t")
	bench(t, folder(t), nil, "alltoall", "-F", perFlow(t), "--ranks", "8", "-b", "2M", "-e", "2M", "-n", "2", "-w", "1",
		"--trace", dir)
	trace, err := messages.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	fabric, err := recorded.LoadFabric(dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	flows := recorded.Prepare(trace)
	again, err := recorded.AsPosted(fabric, trace, flows)
	if err != nil {
		t.Fatal(err)
	}
	off := 0
	for i := range trace.Messages {
		if again.Times[i].Due != trace.Messages[i].Due {
			off++
		}
	}
	if off > 0 || len(trace.Messages) == 0 {
		t.Errorf("%d of %d messages arrive at another time", off, len(trace.Messages))
	}
}

// The same for a job with several communicators, for whose connections a rank listens in one order.
func TestPathsOfFlowsOfSeveralCommunicators(t *testing.T) {
	t.Parallel()
	file := perFlow(t)
	job := workloadFile(t,
		`"name":"x","ranks":8,"comms":[{"name":"tp","ranks":"0-7"},{"name":"dp0","ranks":"0,2,4,6"},{"name":"dp1","ranks":"1,3,5,7"}]`,
		`{"rank":"0,2,4,6","op":"coll","comm":"dp0","func":"AllReduce","count":2049000,"type":"float32","stream":"n"}`,
		`{"rank":"1,3,5,7","op":"coll","comm":"dp1","func":"AllReduce","count":2049000,"type":"float32","stream":"n"}`,
		`{"op":"coll","comm":"tp","func":"AllToAll","count":20490,"type":"float32","stream":"n"}`, `{"op":"wait"}`,
		`{"op":"step"}`)
	for _, version := range []string{"2.22", "2.29"} {
		for _, c := range replay(t, job, "-f", file, "--nccl", version, "--set", "seed=2").Calls {
			if math.Abs(c.Mean-c.Model) > 1e-3 {
				t.Errorf("NCCL %s, %s on %s: %.3f us, the model's are %.3f", version, c.Func, c.Comm, c.Mean, c.Model)
			}
		}
	}
}

// The links between switches count what flows with paths of their own send over them: a message between the leaves
// crosses two.
func TestLinksBetweenSwitchesCountFlows(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	run := func(args ...string) []byte {
		out, err := ddlemu(t.Context(), t, dir, nil, args...).Output()
		if err != nil {
			t.Fatalf("ddlemu %q: %v", args, err)
		}
		return out
	}
	run("up", "-f", perFlow(t), "--name", "flows", "--clock", "virtual")
	defer run("down", "--fabric", "flows")
	run("bench", "alltoall", "--fabric", "flows", "-b", "128K", "-e", "128K", "-n", "2", "-w", "1")
	var status struct {
		Links []struct {
			From, To string
			Trunk    bool
			Messages uint64
		}
	}
	if err := json.Unmarshal(run("status", "--fabric", "flows", "--json"), &status); err != nil {
		t.Fatal(err)
	}
	leaf := func(nic string) bool { return strings.HasPrefix(nic, "node0") || strings.HasPrefix(nic, "node1") }
	var between, carried uint64
	used := 0
	for _, l := range status.Links {
		switch {
		case l.Trunk:
			carried += l.Messages
			if l.Messages > 0 {
				used++
			}
		case leaf(l.From) != leaf(l.To):
			between += l.Messages
		}
	}
	if between == 0 || carried != 2*between || used < 6 {
		t.Errorf("%d messages between the leaves, %d on %d links between switches: want twice as many, on several",
			between, carried, used)
	}
}
