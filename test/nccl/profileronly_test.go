// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/test/built"
)

// A job is recorded on its own network: the plugin is NCCL's profiler only, and changes nothing of what NCCL does. The
// sleeps of the ranks are the computations of the workload.
func TestRecordOnItsOwnNetwork(t *testing.T) {
	t.Parallel()
	bin := program(t)
	for name, tc := range map[string]struct {
		env []string
		via string
	}{
		"two hosts": {[]string{"NCCL_NET=Socket", "NCCL_SOCKET_IFNAME=lo", "NCCL_HOSTID=host%s"}, "via NET/Socket"},
		// By default, NCCL uses P2P between GPUs of one host bridge with some processors, and shared memory with
		// Intel's.
		"one host, P2P":           {[]string{"NCCL_P2P_LEVEL=SYS"}, "via P2P"},
		"one host, shared memory": {[]string{"NCCL_P2P_LEVEL=PXB"}, "via SHM"},
	} {
		dir := t.TempDir()
		trace, file := filepath.Join(dir, "trace"), filepath.Join(dir, "job.jsonl")
		var ranks []*exec.Cmd
		var outputs [2]strings.Builder
		for i, rank := range []string{"0", "1"} {
			cmd := exec.CommandContext(t.Context(), bin)
			cmd.Env = append(built.Environ(), "RANK="+rank, "WORLD_SIZE=2", "ID_FILE="+filepath.Join(dir, "id"),
				"SLEEP_MS=50", "LATE_MS=30", "COUNT=100000",
				"DDLEMU_RECORD="+trace, "NCCL_PROFILER_PLUGIN="+built.Path(t, "lib", "libgoemu.so"), "NCCL_DEBUG=INFO",
				"LD_LIBRARY_PATH="+built.Path(t, "softcuda", "lib", "nccl-2.29")+":"+built.Path(t, "softcuda", "lib"))
			for _, v := range tc.env {
				cmd.Env = append(cmd.Env, strings.ReplaceAll(v, "%s", rank))
			}
			cmd.Stdout, cmd.Stderr = &outputs[i], &outputs[i]
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ranks = append(ranks, cmd)
		}
		for i, cmd := range ranks {
			if err := cmd.Wait(); err != nil || !strings.Contains(outputs[i].String(), tc.via) ||
				strings.Contains(outputs[i].String(), "ddlemu-node") {
				t.Fatalf("%s: %v, want %q in\n%s", name, err, tc.via, outputs[i].String())
			}
		}
		if out, err := ddlemu(t.Context(), t, folder(t), nil, "record", "-o", file, "--from",
			trace).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		checkSleeps(t, name, file)
	}
}

// checkSleeps checks that each rank reduces three times, and computes for as long as it slept between.
func checkSleeps(t *testing.T, name, file string) {
	t.Helper()
	w, err := workload.ReadFile(file)
	if err != nil {
		text, _ := os.ReadFile(file)
		t.Fatalf("%s: %v\n%s", name, err, text)
	}
	calls, calcs := [2]int{}, [2]int{}
	for _, op := range w.Ops {
		for _, rank := range op.Ranks {
			switch {
			case op.Kind == workload.Coll && op.Func == workload.AllReduce && op.Count == 100000:
				calls[rank]++
			case op.Kind == workload.Calc && calls[rank] > 0:
				calcs[rank]++
				if least := int64(50+30*rank) * 1e6; op.Nanos < least {
					t.Errorf("%s: rank %d computes for %d ns between two calls, it slept for %d", name, rank, op.Nanos,
						least)
				}
			}
		}
	}
	if calls != [2]int{3, 3} || calcs != [2]int{2, 2} {
		t.Errorf("%s: %v calls, %v computations", name, calls, calcs)
	}
}
