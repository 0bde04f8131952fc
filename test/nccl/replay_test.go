// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// replayed is the output of replay --json.
type replayed struct {
	NCCL  string  `json:"nccl"`
	Clock string  `json:"clock"`
	Nodes int     `json:"nodes"`
	Time  float64 `json:"time_us"`
	Steps []struct {
		Time    float64 `json:"time_us"`
		Compute float64 `json:"compute_us"`
		Exposed float64 `json:"exposed_us"`
		Waiting float64 `json:"waiting_us"`
		Hidden  float64 `json:"hidden_us"`
		Idle    float64 `json:"idle_us"`
	} `json:"steps"`
	Calls []struct {
		Func  string  `json:"func"`
		Comm  string  `json:"comm"`
		Ranks int     `json:"ranks"`
		Size  int64   `json:"size"`
		Count int     `json:"calls"`
		Mean  float64 `json:"mean_us"`
		Wait  float64 `json:"waiting_us"`
		Max   float64 `json:"max_us"`
		Algo  string  `json:"algo"`
		Model float64 `json:"expected_us"`
	} `json:"calls"`
	Parts []struct {
		What string  `json:"what"`
		Time float64 `json:"time_us"`
		Wait float64 `json:"waiting_us"`
	} `json:"composition"`
	Checked  int64     `json:"checked"`
	Wrong    int64     `json:"wrong"`
	Notes    []string  `json:"notes"`
	Verdict  string    `json:"verdict"`
	Reasons  []string  `json:"reasons"`
	Findings []finding `json:"findings"`
}

// workloadFile writes a workload of so many ranks.
func workloadFile(t *testing.T, head string, ops ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "workload.jsonl")
	text := fmt.Sprintf(`{"format":"ddlemu.workload/1",%s}`, head) + "\n" + strings.Join(ops, "\n") + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// replay runs `ddlemu replay args --json`, and checks that all values are right and the verdict is VALID.
func replay(t *testing.T, args ...string) replayed {
	t.Helper()
	r := replayOnce(t, args...)
	if r.Verdict != "VALID" {
		t.Fatalf("%s %v", r.Verdict, r.Reasons)
	}
	return r
}

// replayOnce is replay with any verdict.
func replayOnce(t *testing.T, args ...string) replayed {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := ddlemu(ctx, t, folder(t), nil, append(append([]string{"replay"}, args...), "--json")...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ddlemu replay %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	var r replayed
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v in the output of ddlemu replay:\n%s", err, out)
	}
	if r.Wrong != 0 {
		t.Fatalf("%d wrong elements", r.Wrong)
	}
	return r
}

// near checks a time on the virtual clock, to 2 ns.
func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 0.002 {
		t.Errorf("%s: %.3f us, want %.3f us", what, got, want)
	}
}

var replayVersions = []string{"2.22", "2.29"}

// Computation and then an all-reduce take the sum of both, and the all-reduce the time that the bench measures.
func TestReplaySum(t *testing.T) {
	t.Parallel()
	path := workloadFile(t, `"ranks":2`,
		`{"op":"calc","ns":10000000}`, `{"op":"coll","func":"AllReduce","count":1048576,"type":"float32"}`,
		`{"op":"step"}`)
	for _, version := range replayVersions {
		want := bench(t, folder(t), nil, "allreduce", "--profile", "eth10", "--ranks", "2", "-b", "4M", "-e", "4M",
			"-n", "1", "-w", "1", "--nccl", version).Rows[0].TimeUS
		r := replay(t, path, "--profile", "eth10", "--nccl", version, "--steps", "3")
		if !strings.HasPrefix(r.NCCL, version) || r.Clock != "virtual" || len(r.Steps) != 3 || r.Checked != 2<<20 {
			t.Errorf("%+v", r)
		}
		for _, s := range r.Steps {
			near(t, "step", s.Time, 10000+want)
			near(t, "computation", s.Compute, 10000)
			near(t, "exposed", s.Exposed, want)
			near(t, "hidden", s.Hidden, 0)
		}
		if c := r.Calls[0]; len(r.Calls) != 1 || c.Count != 3 || c.Size != 4<<20 || c.Algo == "" {
			t.Errorf("%+v", r.Calls)
		} else {
			near(t, "all-reduce", c.Mean, want)
			near(t, "the longest all-reduce", c.Max, want)
		}
	}
}

// On two streams, computation and communication take the longer of both.
func TestReplayOverlap(t *testing.T) {
	t.Parallel()
	const coll = `{"op":"coll","func":"AllReduce","count":1048576,"type":"float32","stream":"n"}`
	alone := replay(t, workloadFile(t, `"ranks":2`, coll), "--profile", "eth10").Time
	for _, compute := range []float64{1000, 20000} {
		path := workloadFile(t, `"ranks":2`, fmt.Sprintf(`{"op":"calc","ns":%.0f,"stream":"c"}`, 1000*compute), coll)
		s := replay(t, path, "--profile", "eth10").Steps[0]
		near(t, "step", s.Time, max(compute, alone))
		near(t, "hidden", s.Hidden, min(compute, alone))
		near(t, "exposed", s.Exposed, max(compute, alone)-compute)
	}
}

// A dependency between streams, and the wait of the host, put operations one after another.
func TestReplayDependencies(t *testing.T) {
	t.Parallel()
	path := workloadFile(t, `"ranks":2`,
		`{"op":"calc","ns":1000000,"stream":"c","id":1}`,
		`{"op":"coll","func":"AllReduce","count":1048576,"type":"float32","stream":"n","after":[1],"id":2}`,
		`{"op":"calc","ns":2000000,"stream":"c","after":[2],"id":3}`,
		`{"op":"calc","ns":3000000,"stream":"d"}`,
		`{"op":"wait","after":[3]}`,
		`{"op":"calc","ns":4000000,"stream":"e"}`)
	r := replay(t, path, "--profile", "eth10")
	near(t, "step", r.Time, 7000+r.Calls[0].Mean)
	near(t, "computation", r.Steps[0].Compute, 3000+2000+4000)
}

// Tensor and data groups of 2 x 2 ranks: each communicator has its ranks, its values and its nodes.
func TestReplayGroups(t *testing.T) {
	t.Parallel()
	path := workloadFile(t,
		`"ranks":4,"comms":[{"name":"tp","ranks":"0-1"},{"name":"tp","ranks":"2-3"},{"name":"dp","ranks":"2,0"},{"name":"dp","ranks":"1,3"}]`,
		`{"op":"coll","comm":"tp","func":"AllReduce","count":1000,"type":"float16","stream":"t","id":1}`,
		`{"op":"coll","comm":"dp","func":"ReduceScatter","count":50000,"type":"bfloat16","redop":"avg","stream":"d","after":[1]}`,
		`{"op":"coll","comm":"dp","func":"Broadcast","count":3000,"type":"int64","root":1,"stream":"d"}`,
		`{"op":"coll","comm":"tp","func":"AllGather","count":2000,"type":"uint8","stream":"t"}`,
		`{"op":"step"}`)
	for _, version := range replayVersions {
		r := replay(t, path, "--profile", "eth10", "--nodes", "2", "--nccl", version, "--steps", "2")
		if r.Nodes != 2 || len(r.Calls) != 4 {
			t.Fatalf("%+v", r)
		}
		for _, c := range r.Calls {
			if c.Count != 4 || c.Ranks != 2 || c.Algo == "" || (c.Comm == "dp") != (c.Max > 20) {
				t.Errorf("%s: %+v", version, c)
			}
		}
		// An all-reduce has 1000 elements on 4 ranks, and so on.
		if want := int64(4*1000 + 4*50000 + 4*3000 + 4*2*2000); r.Checked != want {
			t.Errorf("%d elements were checked, want %d", r.Checked, want)
		}
	}
}

// Sends and receives along a pipeline, and everything that is made of them.
func TestReplayMessages(t *testing.T) {
	t.Parallel()
	path := workloadFile(t, `"ranks":4`,
		`{"rank":"0-2","op":"send","count":1000,"type":"float32","peer":1,"relative":true,"stream":"p"}`,
		`{"rank":"1-3","op":"recv","count":1000,"type":"float32","peer":-1,"relative":true,"stream":"p"}`,
		`{"op":"coll","func":"AllToAll","count":1000,"type":"float64"}`,
		`{"op":"coll","func":"Gather","root":2,"count":20000,"type":"float32"}`,
		`{"op":"coll","func":"Scatter","root":1,"count":30000,"type":"float64"}`,
		`{"op":"coll","func":"Reduce","root":3,"count":100,"type":"uint8","redop":"max"}`,
		`{"op":"group","ops":[{"op":"send","count":500,"type":"int8","peer":1,"relative":true},{"op":"recv","count":500,"type":"int8","peer":-1,"relative":true},`+
			`{"op":"send","count":70,"type":"int32","peer":-1,"relative":true},{"op":"recv","count":70,"type":"int32","peer":1,"relative":true}]}`)
	for _, version := range replayVersions {
		r := replay(t, path, "--profile", "eth10", "--nodes", "2", "--nccl", version)
		if want := int64(3*1000 + 4*4*1000 + 4*20000 + 4*30000 + 100 + 4*500 + 4*70); r.Checked != want {
			t.Errorf("%d elements were checked, want %d", r.Checked, want)
		}
		counts := map[string]int{}
		for _, c := range r.Calls {
			counts[fmt.Sprintf("%s %d", c.Func, c.Size)] = c.Count
		}
		for name, want := range map[string]int{"SendRecv 4000": 3, "SendRecv 500": 4, "SendRecv 280": 4,
			"AllToAll 32000": 1, "Gather 320000": 1, "Scatter 960000": 1} {
			if counts[name] != want {
				t.Errorf("%s: %d calls, want %d; %v", name, counts[name], want, counts)
			}
		}
	}
}

// A collective of one rank or of no elements decides nothing: NCCL copies or discards it. Such a copy of more than the
// job's smallest call did not fit into the buffers of ranks that only decide.
func TestReplayCallsOfOneRank(t *testing.T) {
	t.Parallel()
	for _, collective := range []string{"AllReduce", "AllGather", "AllToAll"} {
		path := workloadFile(t,
			`"ranks":2,"comms":[{"name":"one","ranks":"0"},{"name":"one","ranks":"1"},{"name":"world","ranks":"0-1"}]`,
			`{"op":"coll","func":"`+collective+`","comm":"one","count":100000,"type":"float32"}`,
			`{"op":"coll","func":"`+collective+`","comm":"one","count":0,"type":"float32"}`,
			`{"op":"group","ops":[{"op":"coll","func":"AllReduce","comm":"one","count":50000,"type":"float32"},{"op":"coll","func":"AllReduce","comm":"one","count":0,"type":"float32"}]}`,
			`{"rank":0,"op":"send","peer":1,"comm":"world","count":0,"type":"float32"}`,
			`{"rank":1,"op":"recv","peer":0,"comm":"world","count":0,"type":"float32"}`)
		for _, version := range replayVersions {
			on := []string{"--profile", "eth10", "--nodes", "2", "--nccl", version}
			r, model := replay(t, append([]string{path}, on...)...),
				jsonOf[replayed](t, append([]string{"expect", "--workload", path}, on...)...)
			if near(t, collective, model.Time, r.Time); r.Time > 30 || r.Time < 20 {
				t.Errorf("%s: a message of no elements took %.3f us", collective, r.Time)
			}
		}
	}
}

// A rank of a ring comes 50 ms late: both commands book that as waiting of the others, apart from the transfer of 3.5
// ms.
func TestReplayWaiting(t *testing.T) {
	t.Parallel()
	path := workloadFile(t, `"ranks":4`, `{"rank":1,"op":"calc","ns":50000000}`,
		`{"op":"group","ops":[{"op":"send","count":1000000,"type":"float32","peer":1,"relative":true},{"op":"recv","count":1000000,"type":"float32","peer":-1,"relative":true}]}`,
		`{"op":"step"}`, `{"op":"coll","func":"AllReduce","count":1000000,"type":"float32"}`, `{"op":"step"}`)
	on := []string{"--profile", "ndr400", "--bw", "10Gbps"}
	for name, r := range map[string]replayed{
		"replay": replay(t, append([]string{path}, on...)...),
		"expect": jsonOf[replayed](t, append([]string{"expect", "--workload", path}, on...)...),
	} {
		// Of the four messages, that from 2 to 3 waits, because rank 2 receives from rank 1. What rank 0 sends to rank
		// 1 goes to NCCL's buffers.
		if c := r.Calls[0]; len(r.Calls) != 2 || math.Abs(c.Wait-12500) > 1 || c.Mean-c.Wait < 3200 ||
			c.Mean-c.Wait > 4000 || r.Calls[1].Wait != 0 {
			t.Errorf("%s: %+v", name, r.Calls)
		}
		waits, steps := 0.0, 0.0
		for _, p := range r.Parts {
			if waits += p.Wait; p.What != "computation" && (p.Time-p.Wait < 3000 || p.Time-p.Wait > 9000) {
				t.Errorf("%s: %+v", name, p)
			}
		}
		for i, s := range r.Steps {
			want := []float64{50000, 0}[i]
			if steps += s.Waiting; math.Abs(s.Waiting-want) > 1 || s.Exposed-s.Waiting < 3200 ||
				s.Exposed-s.Waiting > 6000 {
				t.Errorf("%s: %+v", name, s)
			}
		}
		near(t, name+": waiting of the parts and of the steps", waits, steps)
	}
}

// Both commands say what stays within a node and takes no time.
func TestReplayWithinNodes(t *testing.T) {
	t.Parallel()
	path := workloadFile(t,
		`"ranks":4,"comms":[{"name":"tp","ranks":"0-1"},{"name":"tp","ranks":"2-3"},{"name":"dp","ranks":"0,2"},{"name":"dp","ranks":"1,3"}]`,
		`{"op":"coll","comm":"tp","func":"AllReduce","count":1000,"type":"float32"}`,
		`{"op":"coll","comm":"dp","func":"AllReduce","count":1000,"type":"float32"}`)
	const note = "within nodes: 2 calls of 8 kB in all stay on one node: this takes no time here, because NVLink and PCIe are not emulated"
	for nodes, want := range map[string]bool{"2": true, "4": false} {
		on := []string{"--profile", "eth10", "--nodes", nodes}
		r, model := replay(t, append([]string{path}, on...)...),
			jsonOf[replayed](t, append([]string{"expect", "--workload", path}, on...)...)
		for _, got := range [][]string{r.Notes, model.Notes} {
			if slices.Contains(got, note) != want {
				t.Errorf("%s nodes: %q", nodes, got)
			}
		}
	}
}

// A pipeline of messages: each stage computes when its input is there, and sends on.
func TestReplayPipeline(t *testing.T) {
	t.Parallel()
	path := workloadFile(t, `"ranks":2`,
		`{"rank":0,"op":"calc","ns":1000000,"stream":"c","id":1}`,
		`{"rank":0,"op":"send","count":1000000,"type":"float32","peer":1,"stream":"p","after":[1]}`,
		`{"rank":1,"op":"recv","count":1000000,"type":"float32","peer":0,"stream":"p","id":2}`,
		`{"rank":1,"op":"calc","ns":2000000,"stream":"c","after":[2]}`)
	r := replay(t, path, "--profile", "eth10")
	near(t, "step", r.Time, 3000+r.Calls[0].Mean)
	// 4 MB at 1.19 GB/s
	if took := r.Calls[0].Mean; took < 3300 || took > 3700 {
		t.Errorf("the message took %.1f us", took)
	}
}

// The same replay takes the same times.
func TestReplayRepeats(t *testing.T) {
	t.Parallel()
	path := workloadFile(t, `"ranks":4`,
		`{"op":"calc","ns":100000,"stream":"c"}`,
		`{"op":"coll","func":"AllReduce","count":100000,"type":"float32","stream":"n"}`,
		`{"op":"coll","func":"AllToAll","count":1000,"type":"float64","stream":"m"}`)
	first := replay(t, path, "--profile", "ndr400", "--nodes", "2", "--steps", "3")
	for range 2 {
		again := replay(t, path, "--profile", "ndr400", "--nodes", "2", "--steps", "3")
		for i := range first.Steps {
			near(t, "step", again.Steps[i].Time, first.Steps[i].Time)
		}
	}
}

// The same replay takes the same times to the nanosecond, also if the host thread often finds its streams full.
// Operations that end as soon as they begin decide how full they are.
func TestReplayRepeatsWithFullStreams(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var ops []string
	for id := range 400 {
		ops = append(ops,
			`{"op":"coll","func":"AllReduce","count":2,"type":"float32","stream":"n"}`,
			fmt.Sprintf(`{"op":"calc","ns":%d,"stream":"a"}`, random.IntN(2)*1000),
			fmt.Sprintf(`{"id":%d,"op":"calc","ns":%d,"stream":"%c"}`, id+1, random.IntN(2)*50000,
				'b'+rune(random.IntN(2))))
		if random.IntN(3) == 0 {
			ops = append(ops, fmt.Sprintf(`{"op":"calc","ns":0,"stream":"n","after":[%d]}`, id+1))
		}
	}
	path := workloadFile(t, `"ranks":2`, ops...)
	times := func() string {
		file := filepath.Join(t.TempDir(), "times.csv")
		replay(t, path, "--profile", "eth10", "--times", file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	first := times()
	for range 3 {
		if again := times(); again != first {
			t.Errorf("the times differ:%s", firstDifference(first, again))
		}
	}
}

// firstDifference returns the first line that differs, of both.
func firstDifference(a, b string) string {
	other := strings.Split(b, "\n")
	for i, line := range strings.Split(a, "\n") {
		if i >= len(other) || line != other[i] {
			return fmt.Sprintf("\n%s\n%s", line, strings.Join(other[min(i, len(other)):min(i+1, len(other))], ""))
		}
	}
	return ""
}

// A rank connects to one that needs virtual time to get there: its stream is full of calls with another rank.
func TestReplayConnectsToABusyRank(t *testing.T) {
	t.Parallel()
	ops := slices.Repeat([]string{
		`{"rank":0,"op":"send","peer":1,"count":1,"type":"int8","stream":"n"}`,
		`{"rank":1,"op":"recv","peer":0,"count":1,"type":"int8","stream":"n"}`,
	}, 300)
	ops = append(ops,
		`{"rank":0,"op":"send","peer":2,"count":1,"type":"int8","stream":"n"}`,
		`{"rank":2,"op":"recv","peer":0,"count":1,"type":"int8","stream":"n"}`)
	path := workloadFile(t, `"ranks":3`, ops...)
	for _, version := range replayVersions {
		replay(t, path, "--profile", "eth10", "--nccl", version)
	}
}

// A job whose calls do not match is refused before anything starts.
func TestReplayMismatch(t *testing.T) {
	t.Parallel()
	path := workloadFile(t, `"ranks":2`,
		`{"rank":0,"op":"coll","func":"AllReduce","count":100,"type":"float32"}`,
		`{"rank":1,"op":"coll","func":"AllReduce","count":101,"type":"float32"}`)
	out, err := ddlemu(t.Context(), t, folder(t), nil, "replay", path, "--profile", "eth10").CombinedOutput()
	var status *exec.ExitError
	if !errors.As(err, &status) || status.ExitCode() != 2 || !strings.Contains(string(out), "does not match") ||
		strings.Count(string(out), "\n") != 1 {
		t.Errorf("%v\n%s", err, out)
	}
}

// If a rank is killed, the job ends with an error that names it.
func TestReplayRankKilled(t *testing.T) {
	t.Parallel()
	path := workloadFile(t, `"ranks":2`, `{"op":"coll","func":"AllReduce","count":1000000,"type":"float32"}`,
		`{"op":"step"}`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := folder(t)
	cmd := ddlemu(ctx, t, dir, nil, "replay", path, "--profile", "eth10", "--steps", "100000")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	rank := 0
	for rank == 0 && ctx.Err() == nil {
		if ranks := childrenOf(t, cmd.Process.Pid); len(ranks) == 2 {
			rank = max(ranks[0], ranks[1]) // it was started last
		}
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(time.Second) // so that it plays
	killed := time.Now()
	if err := syscall.Kill(rank, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	if took := time.Since(killed); err == nil || took > 20*time.Second || !strings.Contains(out.String(), "rank 1 ") ||
		!strings.Contains(out.String(), "killed") {
		t.Errorf("after %v: %v\n%s", took, err, out.String())
	}
}

// On the real clock a step, divided by the time scale, takes what it takes on the virtual one, to 3 %.
func TestReplayRealClock(t *testing.T) {
	path := workloadFile(t, `"ranks":2`,
		`{"op":"calc","ns":5000000,"stream":"c","id":1}`, `{"op":"calc","ns":5000000,"stream":"c"}`,
		`{"op":"coll","func":"AllReduce","count":2097152,"type":"float32","stream":"n","after":[1]}`)
	want := replay(t, path, "--profile", "eth10").Time
	onRealClock(t, func(scale string) error {
		r := replayOnce(t, path, "--profile", "eth10", "--set", "time_scale="+scale)
		onlyTheHost(t, r.Verdict, r.Findings)
		off := 100 * (r.Time/want - 1)
		if r.Clock != "real" || r.Checked == 0 || off < -3 {
			t.Fatalf("%+.1f %% of %.1f us: %+v", off, want, r)
		}
		if off > 3 || r.Verdict != "VALID" {
			return fmt.Errorf("time scale %s: %.1f us, %+.1f %% of %.1f us, %s %v", scale, r.Time, off, want, r.Verdict,
				r.Reasons)
		}
		return nil
	})
}

// A rank that calls nothing computes on the same clock, and one that does nothing is no hindrance.
func TestReplayWithoutCalls(t *testing.T) {
	t.Parallel()
	path := workloadFile(t, `"ranks":4,"comms":[{"name":"a","ranks":"2-3"}]`,
		`{"rank":1,"op":"calc","ns":5000000000}`, `{"op":"coll","func":"AllReduce","count":1000,"type":"float32"}`)
	near(t, "the rank without calls", replay(t, path, "--profile", "eth10").Time, 5e6)
}

// A budget makes a replay play fewer steps, and it says so.
func TestReplayBudget(t *testing.T) {
	t.Parallel()
	path := workloadFile(t, `"ranks":2`, `{"op":"coll","func":"AllReduce","count":1000000,"type":"float32"}`,
		`{"op":"step"}`)
	r := replay(t, path, "--profile", "eth10", "--steps", "1000000", "--budget", "20s")
	if n := len(r.Steps); n < 1 || n >= 1000000 || len(r.Notes) == 0 ||
		r.Notes[0] != fmt.Sprintf("budget 20s: %d of 1000000 steps", n) {
		t.Errorf("%d steps, notes %v", n, r.Notes)
	}
}

// Two fabrics: the first one is as it is, flags of links change the second. A sweep says where the network stops to
// matter.
func TestReplayCompareAndSweep(t *testing.T) {
	t.Parallel()
	path := workloadFile(t, `"ranks":2`, `{"op":"calc","ns":10000000}`,
		`{"op":"coll","func":"AllReduce","count":1048576,"type":"float32"}`)
	alone := replay(t, path, "--profile", "eth10").Time
	run := func(to any, args ...string) {
		t.Helper()
		cmd := ddlemu(t.Context(), t, folder(t), nil, append([]string{"replay", path, "--json"}, args...)...)
		out, err := cmd.Output()
		if err == nil {
			err = json.Unmarshal(out, to)
		}
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	var compared struct {
		Whole struct {
			Original float64 `json:"ori_us"`
			Emulated float64 `json:"emu_us"`
			Percent  float64 `json:"diff_percent"`
		} `json:"whole"`
		Verdict string `json:"verdict"`
	}
	run(&compared, "--fabric", "eth10", "--fabric", "eth10", "--lat", "1ms")
	w := compared.Whole
	near(t, "the original", w.Original, alone)
	// An all-reduce takes a latency at least, which is 25 us on eth10.
	if compared.Verdict != "VALID" || w.Emulated < alone+1000-25 ||
		math.Abs(w.Percent-100*(w.Emulated/w.Original-1)) > 0.001 {
		t.Errorf("%+v", compared)
	}
	var swept struct {
		Points []struct {
			Value  string   `json:"value"`
			Result replayed `json:"result"`
		} `json:"points"`
		Enough  string `json:"enough"`
		Verdict string `json:"verdict"`
	}
	plot := filepath.Join(t.TempDir(), "sweep.svg")
	run(&swept, "--profile", "ndr400", "--sweep", "bw=1G..800G", "--plot", plot)
	if len(swept.Points) != 9 || swept.Verdict != "VALID" || swept.Points[1].Value != "10Gbps" ||
		swept.Enough == "1Gbps" || swept.Enough == "800Gbps" {
		t.Fatalf("%+v", swept)
	}
	near(t, "10Gbps", swept.Points[1].Result.Time, replay(t, path, "--profile", "ndr400", "--bw", "10Gbps").Time)
	for i, p := range swept.Points[1:] {
		if p.Result.Time >= swept.Points[i].Result.Time {
			t.Errorf("%s takes %.1f us, %s %.1f us", p.Value, p.Result.Time, swept.Points[i].Value,
				swept.Points[i].Result.Time)
		}
	}
	out, err := ddlemu(t.Context(), t, folder(t), nil, "replay", path, "--fabric", "eth10", "--fabric",
		"nofabric").CombinedOutput()
	if err == nil || !strings.HasPrefix(string(out), "ddlemu: --fabric nofabric: ") {
		t.Errorf("%v: %s", err, out)
	}
	if svg, err := os.ReadFile(plot); err != nil || !bytes.Contains(svg, []byte("</svg>")) {
		t.Errorf("%v", err)
	}
}

// An interrupt leaves the steps that all ranks have ended.
func TestInterruptedReplay(t *testing.T) {
	t.Parallel()
	path := workloadFile(t, `"ranks":2`, `{"op":"coll","func":"AllReduce","count":1000000,"type":"float32"}`,
		`{"op":"step"}`)
	const steps = 100000
	dir := t.TempDir()
	logs, xml := filepath.Join(dir, "tmp"), filepath.Join(dir, "junit.xml")
	if err := os.Mkdir(logs, 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := ddlemu(ctx, t, folder(t), []string{"TMPDIR=" + logs}, "replay", path, "--profile", "eth10", "--steps",
		fmt.Sprint(steps), "--junit", xml, "--json")
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		const tenth = 8 + 16*10
		b := make([]byte, tenth)
		paths, _ := filepath.Glob(filepath.Join(logs, "*", "rank1.times"))
		if len(paths) == 0 {
			continue
		}
		f, err := os.Open(paths[0])
		if err != nil {
			continue
		}
		_, err = io.ReadFull(f, b)
		if f.Close(); err == nil && binary.NativeEndian.Uint64(b[tenth-8:]) != 0 {
			break
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // the exit status says more
	var r replayed
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil || cmd.ProcessState.ExitCode() != 130 {
		t.Fatalf("exit status %d, %v in\n%s", cmd.ProcessState.ExitCode(), err, stdout.Bytes())
	}
	if n := len(r.Steps); n < 10 || n >= steps || r.Verdict != "incomplete" ||
		!strings.Contains(r.Reasons[0], fmt.Sprintf("interrupted: %d of 100000 steps", n)) {
		t.Fatalf("%d steps, %s %v", n, r.Verdict, r.Reasons)
	}
	if first := r.Steps[1].Time; first <= 0 || len(r.Calls) != 1 || math.Abs(r.Calls[0].Mean/first-1) > 0.01 {
		t.Errorf("a step takes %v us, its call %+v", first, r.Calls)
	}
	report, err := os.ReadFile(xml)
	if n := len(r.Steps); err != nil || !strings.Contains(string(report), fmt.Sprintf(`skipped="%d"`, steps-n)) ||
		!strings.Contains(string(report), `errors="1"`) {
		t.Errorf("%v: %.400s", err, report)
	}
}
