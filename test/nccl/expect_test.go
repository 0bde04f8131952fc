// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/configs"
)

type expectation struct {
	Rows []struct {
		Size        int64
		Algo, Proto string
		ExpectedUS  *float64 `json:"expected_us"`
		BoundUS     float64  `json:"bound_us"`
		Busiest     struct {
			Kind, Name string
			Share      float64
		} `json:"busiest_hop"`
		Seeds struct {
			TimesUS []float64 `json:"times_us"`
		}
	}
	Log []struct {
		Line      int
		Size      int64
		InPlace   bool
		Judgement string
	}
	Fabric struct {
		Text string
		Link configs.LinkJSON
	} `json:"fabric_in_force"`
}

func expect(t *testing.T, args ...string) expectation {
	t.Helper()
	return expectIn(t.Context(), t, nil, args...)
}

// expectIn is expect with additional environment.
func expectIn(ctx context.Context, t *testing.T, env []string, args ...string) (e expectation) {
	t.Helper()
	cmd := ddlemu(ctx, t, folder(t), env, append([]string{"expect", "allreduce", "--json"}, args...)...)
	var stderr bytes.Buffer // after half a minute it says there what it does
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &e)
	}
	if err != nil {
		t.Fatalf("%v:\n%s%s", err, out, stderr.String())
	}
	return e
}

// Two nodes in a rack and one in another: by the seed, the paths of the two NICs' flows between the racks share a link
// or do not, which takes twice as long. The run with a seed takes its time.
func TestSeedsOfPaths(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "racks.yaml")
	text := "base: ndr400\nnodes: 3\ngpus_per_node: 2\nnics_per_node: 2\nnvlinks_per_gpu: 18\nlink: {jitter: none}\n" +
		"topology: {kind: leaf-spine, leaves: 2, spines: 2, trunk: {latency: 300ns, bandwidth: 400Gbps}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-F", file, "--ranks", "6", "-b", "16M", "-e", "16M", "-n", "3"}
	seeds := expect(t, append(args, "--seeds", "8")...).Rows[0].Seeds.TimesUS
	if len(seeds) != 8 {
		t.Fatalf("%v: want the times of 8 seeds", seeds)
	}
	fast, slow := slices.Min(seeds), slices.Max(seeds)
	if slow < 1.8*fast || slow > 2.1*fast {
		t.Errorf("%v: want some that take twice as long as others", seeds)
	}
	for i, us := range seeds {
		if us == slow || us == fast {
			one := *expect(t, append(args, "--set", "seed="+fmt.Sprint(i+1))...).Rows[0].ExpectedUS
			if one != us {
				t.Errorf("--set seed=%d takes %.2f us, and %.2f among several", i+1, one, us)
			}
		}
		if i > 2 {
			break // a few are enough
		}
	}
}

// Real NCCL decides. Sizes that it does not run have expected times too.
func TestExpect(t *testing.T) {
	t.Parallel()
	e := expect(t, "--profile", "ndr400", "--ranks", "2", "-b", "8", "-e", "8G", "-f", "1024")
	if len(e.Rows) != 4 {
		t.Fatalf("%d rows, want 4: %+v", len(e.Rows), e)
	}
	for _, r := range e.Rows {
		if r.ExpectedUS == nil || *r.ExpectedUS < r.BoundUS || r.Algo == "" || r.Proto == "" {
			t.Errorf("%+v", r)
		}
	}
	last := e.Rows[3]
	if *last.ExpectedUS > 1.01*last.BoundUS {
		t.Errorf("8 GiB take %.0f us, the bytes alone %.0f", *last.ExpectedUS, last.BoundUS)
	}
	if hop := last.Busiest; hop.Kind != "NIC" || hop.Name != "node0 tx" || hop.Share < 0.99 || hop.Share > 1 {
		t.Errorf("the busiest hop of 8 GiB is %+v", hop)
	}
}

// Without a run expect has the time that bench measures on the clock that it chooses, to the ns. Flows that meet take
// turns in another order on the real clock, and have another time.
func TestExpectIsWhatBenchMeasures(t *testing.T) {
	t.Parallel()
	args := []string{"alltoall", "--profile", "ndr400", "--set", "link.jitter=0", "--ranks", "4", "-n", "4", "-b", "4M", "-e",
		"4M", "--json"}
	out, err := ddlemu(t.Context(), t, folder(t), nil, append([]string{"expect"}, args...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	var e expectation
	if err := json.Unmarshal(out, &e); err != nil {
		t.Fatal(err)
	}
	r := bench(t, folder(t), nil, append(args, "-w", "1")...)
	if len(e.Rows) != 1 || len(r.Rows) != 1 || e.Rows[0].ExpectedUS == nil ||
		*e.Rows[0].ExpectedUS != r.Rows[0].TimeUS {
		t.Errorf("expect says %+v, bench %+v", e.Rows, r.Rows)
	}
}

// A log with one time that is impossible on the network and one that is too slow.
func TestExpectJudgesALog(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	text := `#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
     1048576        262144     float     sum      -1     9200    0.11    0.11      0     9300    0.11    0.11      0
     2097152        524288     float     sum      -1     9000    0.23    0.23      0    17900    0.11    0.11      0
     4194304       1048576     float     sum      -1    36000    0.11    0.11      0    60000    0.07    0.07      0
`
	if err := os.WriteFile(log, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e := expect(t, "--profile", "eth1", "--ranks", "2", "--log", log)
	flagged := map[string]int{}
	for _, l := range e.Log {
		switch {
		case l.Judgement == "impossible" && l.Line == 3 && !l.InPlace, l.Judgement == "slower" && l.Line == 4 &&
			l.InPlace:
			flagged[l.Judgement]++
		case l.Judgement != "as expected":
			t.Errorf("%+v", l)
		}
	}
	if len(e.Log) != 6 || len(flagged) != 2 {
		t.Errorf("%d times judged, of them %v", len(e.Log), flagged)
	}
	cmd := ddlemu(t.Context(), t, folder(t), nil, "expect", "allreduce", "--profile", "eth1", "--ranks", "2", "--log",
		log, "--strict")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "2 of 6 times not as expected") {
		t.Errorf("--strict: %v: %s", err, out)
	}
}

// A log with the tables of two collectives, as `ddlemu run` prints what ranks write: both are judged, each as what it
// is. The times are those of the network with 5 us more.
func TestExpectJudgesAllTables(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	const text = `# Rank  0 Group  0 Pid  1 on a device  0 [0x31] A40
# Rank  1 Group  0 Pid  2 on b device  0 [0x31] A40
# size count type redop root time algbw busbw #wrong time algbw busbw #wrong
262144 65536 float sum -1 258.0 1.02 1.02 0 258.0 1.02 1.02 N/A
16777216 4194304 float sum -1 14300 1.17 1.17 0 14300 1.17 1.17 N/A
# Rank  0 Group  0 Pid  1 on a device  0 [0x31] A40
# Rank  1 Group  0 Pid  2 on b device  0 [0x31] A40
# size count type redop root time algbw busbw #wrong time algbw busbw #wrong
16777216 2097152 float sum -1 7200 2.33 1.17 0 7200 2.33 1.17 0
`
	if err := os.WriteFile(log, []byte("node0 | "+strings.ReplaceAll(strings.TrimSpace(text), "\n", "\nnode0 | ")+"\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	out, err := ddlemu(t.Context(), t, folder(t), nil, "expect", "reduce_scatter", "--profile", "eth10", "--log", log,
		"--all", "--strict", "--json").Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var all []struct {
		Collective string
		Log        []struct{ Line int }
	}
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := fmt.Sprint(all); got != "[{sendrecv [{4} {4} {5} {5}]} {reduce_scatter [{9} {9}]}]" {
		t.Errorf("%s", got)
	}
}

// The root of a broadcast runs ahead of the others, so the mean is below the bound, which is for the last rank.
// nccl-tests' time is as expected.
func TestExpectBroadcast(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	args := []string{"broadcast", "--profile", "eth10", "--ranks", "2", "-b", "1M", "-e", "1M", "-n", "20", "--json"}
	var e struct {
		Rows []struct {
			ExpectedUS float64 `json:"expected_us"`
			LastUS     float64 `json:"last_rank_us"`
			BoundUS    float64 `json:"bound_us"`
		} `json:"rows"`
	}
	out, err := ddlemu(t.Context(), t, dir, nil, append([]string{"expect"}, args...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &e); err != nil || len(e.Rows) != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	row := e.Rows[0]
	if row.LastUS < row.BoundUS || row.ExpectedUS > 0.7*row.LastUS {
		t.Errorf("%+v", row)
	}
	r := bench(t, dir, nil, args[:len(args)-1]...)
	exact(t, r)
	for _, m := range r.Rows {
		near(t, "the bench", m.TimeUS, row.ExpectedUS)
	}
}

// On a fabric that is up, NCCL decides by its present parameters, as on a new fabric with these parameters.
func TestExpectOnAShapedFabric(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	do := func(args ...string) []byte {
		t.Helper()
		out, err := ddlemu(t.Context(), t, dir, nil, args...).Output()
		if err != nil {
			t.Fatalf("ddlemu %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return out
	}
	// as expect would choose for a new one
	do("up", "--profile", "ndr400", "--nodes", "2", "--name", "lab", "--clock", "virtual")
	defer do("down", "lab")
	do("shape", "--fabric", "lab", "--bw", "100Mbps", "--lat", "5ms")
	rows := []string{"expect", "allreduce", "--ranks", "2", "-b", "512K", "-e", "512K", "--json"}
	var up, made expectation
	for e, fabric := range map[*expectation][]string{&up: {"--fabric", "lab"},
		&made: {"--profile", "ndr400", "--bw", "100Mbps", "--lat", "5ms"}} {
		if err := json.Unmarshal(do(append(rows, fabric...)...), e); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(made, up); d != "" || len(up.Rows) != 1 || up.Rows[0].ExpectedUS == nil {
		t.Errorf("on the fabric that is up %+v: %s", up, d)
	}
	if up.Rows[0].Proto != "Simple" {
		t.Errorf("NCCL decides as at 400 Gb/s: %+v", up.Rows)
	}
}

// The fabric does not delay the runs for NCCL's decisions. Otherwise this test would take minutes.
func TestExpectWaitsForNothing(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"links":    "link:\n  bandwidth: 1Mbps\n  latency: 5s\n",
		"trunk":    "topology:\n  kind: leaf-spine\n  leaves: 2\n  spines: 1\n  trunk:\n    bandwidth: 1Mbps\n    latency: 5s\n",
		"endpoint": "endpoint:\n  overhead: 5s\n  gap: 5s\n",
		"host":     "host:\n  per_message: 5s\n",
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			file := filepath.Join(t.TempDir(), "fabric.yaml")
			if err := os.WriteFile(file, []byte("base: eth10\nnodes: 2\n"+text), 0o600); err != nil {
				t.Fatal(err)
			}
			if e := expectIn(ctx, t, nil, "--file", file, "--ranks", "2", "-b", "4M", "-e", "4M", "-n",
				"1"); len(e.Rows) != 1 || e.Rows[0].Algo == "" {
				t.Errorf("%+v", e)
			}
		})
	}
}

// A log of 2 nodes with 8 GPUs each is read within the memory of a small machine, because no rank's buffers are used.
// Its one dip is named, and nothing else. testdata/h100-2x8-dip.txt says how its times were made.
func TestExpectReadsALogOf16Ranks(t *testing.T) {
	t.Parallel()
	cmd := ddlemu(t.Context(), t, folder(t), nil, "expect", "allreduce", "--profile", "ndr400", "--ranks", "16",
		"--nodes", "2",
		"--set", "gpus_per_node=8", "--set", "nics_per_node=8", "--set", "nvlinks_per_gpu=18", "--set=node_time=false", "--log",
		"testdata/h100-2x8-dip.txt", "--json")
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- cmd.Wait() }()
	var err error
	most := 0
	for running := true; running; {
		select {
		case err = <-done:
			running = false
		case <-time.After(500 * time.Millisecond):
			most = max(most, familyMemory(cmd.Process.Pid))
		}
	}
	var e expectation
	if err != nil || json.Unmarshal(out.Bytes(), &e) != nil || len(e.Log) != 62 {
		t.Fatalf("%v: %s", err, out.Bytes())
	}
	for _, l := range e.Log {
		dip := l.Size == 1<<30 && l.InPlace
		if dip != (l.Judgement == "dip") || !dip && l.Judgement != "as expected" &&
			l.Judgement != "faster: probably NVLS/tree" {
			t.Errorf("%+v", l)
		}
	}
	if mib := most >> 10; mib < 100 || mib > 4<<10 {
		t.Errorf("%d MiB were used, want at most 4 GiB", mib)
	}
}

// familyMemory is the memory of a process and its children in KiB; what several of them map counts once.
func familyMemory(pid int) int {
	pids := []string{fmt.Sprint(pid)}
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range all {
		text, _ := os.ReadFile(file)
		_, rest, _ := strings.Cut(string(text), ") ") // pid (name) state ppid
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == pids[0] {
			pids = append(pids, filepath.Base(filepath.Dir(file)))
		}
	}
	sum := 0
	for _, p := range pids {
		text, _ := os.ReadFile(filepath.Join("/proc", p, "smaps_rollup"))
		if _, rest, found := strings.Cut(string(text), "\nPss:"); found {
			var kib int
			_, _ = fmt.Sscan(rest, &kib)
			sum += kib
		}
	}
	return sum
}

// A job on one GPU of each node has GPU 0 of each. NCCL chooses by that number among the NICs that are equally near,
// so all ranks use the same rail, and none of the few links between the rails.
func TestGPUsOfANodeAreNumberedFromZero(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "rails.yaml")
	text := "base: roce100\nnodes: 4\ngpus_per_node: 1\nnics_per_node: 8\nnvlinks_per_gpu: 12\nlink: {jitter: none}\nnode: {gpus: 8, pci_switches: 4}\n" +
		"topology: {kind: rail, spines: 1, oversubscription: 4:1, trunk: {latency: 500ns}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"2.22", "2.29"} {
		row := expect(t, "-F", file, "--ranks", "4", "-b", "16M", "-e", "16M", "--nccl", version).Rows[0]
		// The bound is the bytes over 8 NICs. A ring of 4 ranks moves 3/2 of them, over the 2 NICs beside GPU 0: 6
		// times that.
		if row.ExpectedUS == nil || *row.ExpectedUS > 6.3*row.BoundUS {
			t.Errorf("NCCL %s: %+v: want a ring on two rails", version, row)
		}
	}
}
