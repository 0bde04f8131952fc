// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/nccl/variables"
	"github.com/ddlemu/ddlemu/test/built"
)

// The list of NCCL's variables has every name in the text of each library, and no other.
func TestListOfVariables(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`\bNCCL_[A-Z0-9_]*[A-Z0-9]`)
	for _, version := range variables.Versions {
		release := version[:strings.LastIndex(version, ".")]
		library, err := os.ReadFile(built.Path(t, "softcuda", "lib", "nccl-"+release, "libnccl.so.2"))
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, n := range name.FindAll(library, -1) {
			found[string(n)] = true
		}
		if len(found) < 100 {
			t.Fatalf("NCCL %s: %d names", version, len(found))
		}
		for _, v := range variables.List() {
			if in := slices.Contains(v.In, version); in != found[v.Name] {
				t.Errorf("NCCL %s, %s: in the list %v, in the library %v", version, v.Name, in, found[v.Name])
			}
			delete(found, v.Name)
		}
		for n := range found {
			t.Errorf("NCCL %s: %s is not in the list: say in shaper/nccl/variables/nccl.tsv what it does", version, n)
		}
	}
}

// Each variable of ddlemu that a source file reads is known.
func TestListOfOwnVariables(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`"(DDLEMU_[A-Z0-9_]*[A-Z0-9])["=]`)
	read := 0
	for _, folder := range []string{"cmd", "configs", "cuda", "intercept", "nccl-plugin", "shaper"} {
		err := filepath.WalkDir(filepath.Join("..", "..", folder), func(path string, d fs.DirEntry, err error) error {
			ends := []string{".go", ".c", ".cc", ".h", ".py"}
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") ||
				!slices.Contains(ends, filepath.Ext(path)) || strings.Contains(path, "testdata") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, m := range name.FindAllSubmatch(text, -1) {
				read++
				for _, note := range variables.Notes(variables.Situation{Soft: true, Timeless: true, Kernel: true},
					[]variables.Setting{{Name: string(m[1]), Value: "1"}}) {
					t.Errorf("%s: %s", path, note)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if read < 20 {
		t.Errorf("%d variables found", read)
	}
}

// hosts is a fabric whose hosts take time for each message, so that the number of messages matters.
func hosts(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "step.yaml")
	text := "base: ndr400\nname: step\nnodes: 2\nlink: {latency: 2us, jitter: none}\nhost: {per_message: 10us}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Variables that change messages change the expected times in the same way.
func TestExpectedTimesFollowVariables(t *testing.T) {
	t.Parallel()
	file := hosts(t)
	plain := map[string]result{} // without variables, of each collective and version
	for _, tc := range []struct {
		env, coll string
		least     float64 // change of the time of some row, as a fraction: the variable does something
	}{
		{"NCCL_BUFFSIZE=1048576", "allreduce", 0.01},
		{"NCCL_LL_BUFFSIZE=65536", "allreduce", 0.01},
		{"NCCL_P2P_NET_CHUNKSIZE=0x8000", "sendrecv", 0.5},
		{"NCCL_CHUNK_SIZE=65536", "sendrecv", 0.5},
		{"NCCL_CHUNK_SIZE=20000", "alltoall", 0.5},
		{"NCCL_ALLOC_P2P_NET_LL_BUFFERS=1", "sendrecv", 0.001},
		{"NCCL_ALLOC_P2P_NET_LL_BUFFERS=1;NCCL_P2P_LL_THRESHOLD=1048576;NCCL_CHUNK_SIZE=65536", "alltoall", 0.5},
		{"NCCL_THREAD_THRESHOLDS=1 1 1 1 1 1", "allreduce", 0.01},
		{"NCCL_MAX_NCHANNELS=1", "allreduce", 0.01},
		{"NCCL_MIN_CTAS=8", "allreduce", 0.01},
		{"NCCL_NTHREADS=64", "allreduce", 0.01},
		{"NCCL_PROTO=LL128", "allreduce", 0.01},
	} {
		for _, version := range []string{"2.22", "2.29"} {
			t.Run(tc.env+" "+version, func(t *testing.T) {
				dir := folder(t)
				args := []string{tc.coll, "-F", file, "--ranks", "2", "--nccl", version, "-b", "8K", "-e", "8M", "-f",
					"4", "-n", "3", "-w", "1"}
				without, known := plain[tc.coll+version]
				if !known {
					without = bench(t, dir, nil, args...)
					plain[tc.coll+version] = without
				}
				with := bench(t, dir, strings.Split(tc.env, ";"), args...)
				nearModel(t, with, 1)
				most := 0.0
				for i, row := range with.Rows {
					most = max(most, row.TimeUS/without.Rows[i].TimeUS-1, without.Rows[i].TimeUS/row.TimeUS-1)
				}
				if most < tc.least {
					t.Errorf("the times changed by %.2f %% at most, want %.2f %%: %+v", 100*most, 100*tc.least,
						with.Rows)
				}
				if with.Verdict != "VALID" ||
					slices.ContainsFunc(with.Header.Notes,
						func(n string) bool { return strings.Contains(n, "NCCL_") }) {
					t.Errorf("%s, notes %q", with.Verdict, with.Header.Notes)
				}
			})
		}
	}
}

// Where the model does not know what a variable does, a row has no expected time, and a reason that names the variable.
func TestNoExpectedTimeNamesTheVariable(t *testing.T) {
	t.Parallel()
	for env, name := range map[string]string{
		"NCCL_CHUNK_SIZE=1048576":   "NCCL_CHUNK_SIZE=1048576 makes messages of 1048576 bytes, and NCCL's buffers hold 131072",
		"NCCL_NET_SHARED_BUFFERS=0": "NCCL_NET_SHARED_BUFFERS=0: the model does not know",
		"NCCL_WORK_ARGS_BYTES=64":   "NCCL_WORK_ARGS_BYTES=64: the model does not know",
	} {
		out, err := ddlemu(t.Context(), t, folder(t), []string{env}, "expect", "sendrecv", "--profile", "ndr400",
			"--ranks", "2", "-b", "64M", "-e", "64M", "--json").Output()
		if err != nil {
			t.Fatalf("%s: %v:\n%s", env, err, out)
		}
		var e struct {
			Rows []struct {
				ExpectedUS *float64 `json:"expected_us"`
				Problem    string   `json:"problem"`
			} `json:"rows"`
		}
		if err := json.Unmarshal(out, &e); err != nil {
			t.Fatal(err)
		}
		if len(e.Rows) != 1 || e.Rows[0].ExpectedUS != nil || !strings.Contains(e.Rows[0].Problem, name) {
			t.Errorf("%s:\n%s", env, out)
		}
	}
}

// If NCCL fails, the error names the variables that it was given.
func TestFailureNamesTheVariables(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for env, want := range map[string]string{
		"NCCL_CHUNK_SIZE=1048576 NCCL_IB_HCA=mlx5_0": "of 1048576 bytes is longer than the receive of 131072 bytes posted for it: NCCL was given NCCL_CHUNK_SIZE=1048576: try without",
		"NCCL_P2P_PXN_LEVEL=1":                       "segmentation fault: NCCL was given NCCL_P2P_PXN_LEVEL=1: try without",
	} {
		out, err := ddlemu(ctx, t, folder(t), strings.Fields(env), "bench", "sendrecv", "--profile", "ndr400",
			"--ranks", "2", "-b", "64M", "-e", "64M", "-n", "1", "-w", "1").CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v:\n%s", env, err, out)
		}
	}
	// A number that NCCL takes for another one has a line before NCCL crashes.
	out, _ := ddlemu(ctx, t, folder(t), []string{"NCCL_BUFFSIZE=4M"}, "run", "--profile", "ndr400", "--clock",
		"virtual", "--soft-cuda", "--", "true").CombinedOutput()
	if want := "NCCL_BUFFSIZE=4M is not what it seems: NCCL reads this as 4: give a number"; !strings.Contains(
		string(out), want) {
		t.Errorf("%s", out)
	}
}

// The plugin writes the lines to NCCL's log too, for jobs without `ddlemu run`.
func TestUnusedVariablesInNCCLsLog(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2.22", "2.29"} {
		logs := t.TempDir()
		bench(t, folder(t), []string{"NCCL_IB_QPS_PER_CONNECTION=4", "NCCL_PAT_ENABLE=1"}, "allreduce", "--profile",
			"ndr400", "--ranks", "2", "-b", "8", "-e", "8", "-n", "1", "--nccl", version, "--log-dir", logs)
		log, err := os.ReadFile(filepath.Join(logs, "rank1.log"))
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"NET/goemu : NCCL_IB_QPS_PER_CONNECTION=4 has no effect here: it is for NCCL's NET/IB"}
		if version == "2.22" {
			want = append(want, "NET/goemu : NCCL_PAT_ENABLE=1 has no effect here: NCCL 2.22.3 does not have it")
		}
		for _, text := range want {
			if bytes.Count(log, []byte(text)) != 1 {
				t.Errorf("NCCL %s: want once %q in\n%s", version, text, log)
			}
		}
		if n := bytes.Count(log, []byte("has no effect here")); n != len(want) {
			t.Errorf("NCCL %s: %d lines, want %d:\n%s", version, n, len(want), log)
		}
	}
}

// Every command has a line for each variable without effect.
func TestUnusedVariables(t *testing.T) {
	t.Parallel()
	env := []string{"NCCL_IB_QPS_PER_CONNECTION=4", "NCCL_NSOCKS_PERTHREAD=2", "NCCL_SOCKET_NTHREADS=2",
		"NCCL_CHUNKSIZE=4096", "DDLEMU_LATENCY=1s"}
	want := []string{
		"NCCL_IB_QPS_PER_CONNECTION=4 has no effect here: it is for NCCL's NET/IB",
		"NCCL_NSOCKS_PERTHREAD=2 has no effect here: it is for NCCL's NET/Socket",
		"NCCL_SOCKET_NTHREADS=2 has no effect here: it is for NCCL's NET/Socket",
		"did you mean NCCL_CHUNK_SIZE?",
		"did you mean DDLEMU_LAT?",
	}
	const workload = "../../docs/examples/workloads/resnet50-ddp-2xa100.jsonl"
	on := []string{"--profile", "ndr400", "--nodes", "2"}
	rows := append([]string{"--ranks", "2", "-b", "8", "-e", "8"}, on...)
	for _, args := range [][]string{
		append([]string{"bench", "allreduce", "-n", "1"}, rows...),
		append([]string{"bench", "allreduce", "-n", "1", "--csv"}, rows...),
		append([]string{"bench", "allreduce", "-n", "1", "--json"}, rows...),
		append([]string{"expect", "allreduce"}, rows...),
		append([]string{"expect", "allreduce", "--json"}, rows...),
		append([]string{"run", "--soft-cuda", "--clock", "virtual"}, append(on, "--", "true")...),
		append([]string{"expect", "--workload", workload}, on...),
		append([]string{"replay", workload}, on...),
		append([]string{"replay", workload, "--json"}, on...),
		append([]string{"replay", workload, "--sweep", "lat=1us,2us"}, on...),
		{"validate", "../../configs/tables/t4_1gpu_2node_efa.csv", "--profile", "t4-efa", "--model", "-e", "64K"},
		append([]string{"schedule", "compare", "ring", "nccl", "--coll", "all_reduce", "--gpus", "2", "-b", "1K", "-e",
			"4K"}, on...),
		append([]string{"schedule", "run", "ring", "--coll", "all_reduce", "--gpus", "2", "--via", "p2p", "-b", "1K",
			"-e", "4K"}, on...),
		append([]string{"record", "-o", filepath.Join(t.TempDir(), "out.jsonl"), "--soft-cuda", "--clock", "virtual"},
			append(on, "--", "true")...),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, _ := ddlemu(ctx, t, folder(t), env, args...).CombinedOutput() // without a rank, record fails
		for _, text := range want {
			if n := bytes.Count(out, []byte(text)); n != 1 {
				t.Errorf("%s says %d times: %s\n%s", strings.Join(args, " "), n, text, out)
			}
		}
	}
}

// A variable that switches on cuMem, which the software CUDA does not have, is refused in the rank itself too: a
// launcher may set it there, or NCCL take it from a file that `ddlemu run` does not know. NCCL would call functions that
// are not there.
func TestCuMemIsRefused(t *testing.T) {
	t.Parallel()
	bin := program(t)
	conf := filepath.Join(t.TempDir(), "nccl.conf")
	if err := os.WriteFile(conf, []byte("NCCL_DEBUG=WARN\nNCCL_CUMEM_ENABLE=1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for version, tc := range map[string]struct{ variable, where string }{
		"2.22": {"NCCL_CUMEM_ENABLE=1", ""},
		"2.29": {"NCCL_CONF_FILE=" + conf, " in " + conf},
	} {
		out, err := ddlemu(t.Context(), t, folder(t), nil, "run", "--profile", "eth10", "--clock", "virtual",
			"--soft-cuda", "--nccl", version, "--", "env", tc.variable, bin).CombinedOutput()
		if text := string(out); err != nil || !strings.Contains(text, "all right") || !strings.Contains(text,
			"ddlemu software CUDA: NCCL_CUMEM_ENABLE=1"+tc.where+" has no effect: there is no cuMem here\n") {
			t.Errorf("NCCL %s: %v:\n%s", version, err, text)
		}
	}
}
