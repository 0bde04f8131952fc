// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// traced is what `ddlemu messages --json` prints.
type traced struct {
	Clock    string
	Notes    []string
	Messages []struct {
		Sender, Receiver int
		SentBy           int `json:"sent_by"`
		Bytes            uint64
		Sent, Received   bool
		Function         string
		Sequence         int
		Algorithm        string
		Communicator     string
		Channel          int
		Posted           int64 `json:"posted_ns"`
		ReceivePosted    int64 `json:"receive_posted_ns"`
		Due              int64 `json:"due_ns"`
		Complete         int64 `json:"complete_ns"`
		Late             int64 `json:"late_ns"`
	}
}

func messagesOf(t *testing.T, dir string) (got traced) {
	t.Helper()
	out, err := ddlemu(t.Context(), t, folder(t), nil, "messages", dir, "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

// The ledgers of a job have every message, and the same bytes as the links' counters, and know what each
// message is for: by NCCL's profiler, or by the software CUDA's kernels.
func TestLedgersHaveEveryMessage(t *testing.T) {
	t.Parallel()
	bin := compile(t, "threads")
	for _, tc := range [][2]string{{"storm", "2.22"}, {"storm", "2.29"}, {"repeat", "2.22"}, {"repeat", "2.29"}} {
		program := tc[0]
		dir := filepath.Join(t.TempDir(), "t")
		args := []string{"run", "--profile", "ndr400", "--clock", "virtual", "--soft-cuda", "--nccl", tc[1], "--trace",
			dir, "--", bin, program}
		out, err := ddlemu(t.Context(), t, folder(t), nil, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		got := messagesOf(t, dir)
		if got.Clock != "virtual" || len(got.Notes) != 0 {
			t.Errorf("%s: clock %s, notes %q", program, got.Clock, got.Notes)
		}
		type sum struct{ messages, bytes uint64 }
		ledgers, links := map[string]sum{}, map[string]sum{}
		for _, m := range got.Messages {
			if !m.Sent || !m.Received || m.Late != 0 || m.Due < m.Posted || m.Due < m.ReceivePosted ||
				m.Complete < m.Due {
				t.Fatalf("%s: %+v", program, m)
			}
			if m.Function == "" || m.Channel < 0 {
				t.Fatalf("%s: it is not known what this is for: %+v", program, m)
			}
			link := "node" + strconv.Itoa(m.Sender) + ":node" + strconv.Itoa(m.Receiver)
			ledgers[link] = sum{ledgers[link].messages + 1, ledgers[link].bytes + m.Bytes}
		}
		for _, row := range regexp.MustCompile(
			`(?m)^(node\d:node\d)?\s+(\d+) <= \d+ \w+\s+(\d+)`).FindAllStringSubmatch(string(out), -1) {
			n, _ := strconv.ParseUint(row[2], 10, 64)
			bytes, _ := strconv.ParseUint(row[3], 10, 64)
			links[row[1]] = sum{links[row[1]].messages + n, links[row[1]].bytes + bytes}
		}
		for _, link := range []string{"node0:node1", "node1:node0"} {
			if ledgers[link] != links[link] || links[link].messages == 0 {
				t.Errorf("%s, %s: %+v in the ledgers, %+v counted by the link:\n%s", program, link, ledgers[link],
					links[link], out)
			}
		}
	}
}

// Each message of a benchmark is one of its collective, and all of its calls are there.
func TestMessagesOfCollectives(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		collective, function, algo, version string
		calls                               int // iterations, warm-ups included, times sizes, times 2 if in place too
	}{
		{"allreduce", "AllReduce", "Ring", "2.22", 3 * 4 * 2},
		{"allreduce", "AllReduce", "Ring", "2.29", 3 * 4 * 2},
		{"allreduce", "AllReduce", "Tree", "2.29", 3 * 4 * 2},
		{"allgather", "AllGather", "PAT", "2.29", 3 * 3 * 2}, // 8 bytes are too few for 4 ranks
		{"reducescatter", "ReduceScatter", "Ring", "2.22", 3 * 3 * 2},
		{"broadcast", "Broadcast", "Ring", "2.29", 3 * 4 * 2}, // NCCL's profiler does not know them
		{"alltoall", "AllToAll", "", "2.22", 3 * 4},
		{"alltoall", "AllToAll", "", "2.29", 3 * 4},
	} {
		t.Run(strings.Join([]string{tc.collective, tc.algo, tc.version}, " "), func(t *testing.T) {
			var env []string
			if tc.algo != "" {
				env = []string{"NCCL_ALGO=" + tc.algo}
			}
			dir := filepath.Join(t.TempDir(), "t")
			bench(t, folder(t), env, tc.collective, "--profile", "ndr400", "--ranks", "4", "--nccl", tc.version, "-b",
				"8", "-e", "1M", "-f", "50", "-n", "2", "-w", "1", "--trace", dir)
			sequences, communicators := map[int]bool{}, map[string]bool{}
			for _, m := range messagesOf(t, dir).Messages {
				if m.Function == "" {
					t.Fatalf("it is not known what this is for: %+v", m)
				}
				if m.Function != tc.function {
					continue // the checks' own
				}
				sequences[m.Sequence] = true
				communicators[m.Communicator] = true
				if m.Algorithm != tc.algo {
					t.Fatalf("%+v", m)
				}
			}
			if len(sequences) < tc.calls || len(communicators) != 1 {
				t.Errorf("%d calls on %d communicators, want %d at least, on 1", len(sequences), len(communicators),
					tc.calls)
			}
		})
	}
}

// A folder is not used twice, and what is traced on the real clock says so.
func TestTraceFolder(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "t")
	args := []string{"bench", "allreduce", "--profile", "eth10", "--ranks", "2", "--clock", "real", "--set",
		"time_scale=64", "-b", "64", "-e", "64", "-n", "2", "--trace", dir}
	if out, err := ddlemu(t.Context(), t, folder(t), nil, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if got := messagesOf(t, dir); got.Clock != "real" || len(got.Messages) == 0 || len(got.Notes) != 0 {
		t.Errorf("clock %s, %d messages, notes %q", got.Clock, len(got.Messages), got.Notes)
	}
	out, err := ddlemu(t.Context(), t, folder(t), nil, args...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "has files: name a folder that does not exist or is empty") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// After kill -9 of a rank its ledger can be read, and what the ranks were waiting for is said.
func TestPendingAfterKill(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "t")
	cmd := ddlemu(t.Context(), t, folder(t), nil, "bench", "allreduce", "--profile", "eth10", "--clock", "real",
		"--set", "time_scale=16", "--ranks", "2", "-b", "16M", "-e", "16M", "-n", "500", "--trace", dir)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	for deadline := time.Now().Add(time.Minute); pid == 0 &&
		time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if paths, err := filepath.Glob(filepath.Join(dir, "rank1.*.ledger")); err == nil && len(paths) == 1 &&
			len(messagesSoFar(t, dir)) > 20 {
			pid, _ = strconv.Atoi(strings.Split(filepath.Base(paths[0]), ".")[1])
		}
	}
	if pid == 0 {
		t.Fatalf("no messages:\n%s", out.String())
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Errorf("the job succeeded:\n%s", out.String())
	}
	// It depends on the moment in which of the two directions something is pending.
	for _, want := range []string{"what the ranks were waiting for", "begun by rank 0", `\nrank (0  rank 1|1  rank 0) `} {
		if !regexp.MustCompile(want).MatchString(out.String()) {
			t.Errorf("no %q in:\n%s", want, out.String())
		}
	}
	var got struct {
		Calls       []struct{ Function string }
		Connections []struct {
			Sender, Receiver, Sends, Receives int
			State                             string
		}
	}
	text, err := ddlemu(t.Context(), t, folder(t), nil, "pending", dir, "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Calls) == 0 || got.Calls[0].Function != "AllReduce" || len(got.Connections) == 0 {
		t.Errorf("%+v", got)
	}
}

// messagesSoFar are the messages of a job that may have just begun.
func messagesSoFar(t *testing.T, dir string) []json.RawMessage {
	t.Helper()
	var got struct{ Messages []json.RawMessage }
	out, err := ddlemu(t.Context(), t, folder(t), nil, "messages", dir, "--json").Output()
	if err == nil {
		err = json.Unmarshal(out, &got)
	}
	if err != nil {
		return nil // a ledger is being made
	}
	return got.Messages
}

// A rank that does not join a collective is named.
func TestPendingNamesTheRank(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "t")
	args := []string{"run", "--profile", "ndr400", "--clock", "virtual", "--soft-cuda", "--trace", dir, "--",
		compile(t, "threads"), "abort"}
	if out, err := ddlemu(t.Context(), t, folder(t), nil, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	out, err := ddlemu(t.Context(), t, folder(t), nil, "pending", dir).CombinedOutput()
	if err != nil ||
		!regexp.MustCompile(`AllReduce #1 on communicator 0x[0-9a-f]+: begun by rank 0; not begun by rank 1`).Match(
			out) {
		t.Errorf("%v:\n%s", err, out)
	}
}

// What ranks wait for is printed while they wait.
func TestStallIsTold(t *testing.T) {
	args := []string{"run", "--profile", "eth10", "--clock", "real", "--set", "time_scale=4", "--soft-cuda", "--stall",
		"500ms", "--trace", filepath.Join(t.TempDir(), "t"), "--", compile(t, "threads"), "stall"}
	out, err := ddlemu(t.Context(), t, folder(t), []string{"STALL_US=1500000"}, args...).CombinedOutput()
	if err != nil ||
		!regexp.MustCompile(
			`(?s)no rank has posted anything for 500ms; what the ranks wait for .*AllReduce #\d+ on communicator .*rank 0  rank 1`).Match(out) {
		t.Errorf("%v:\n%s", err, out)
	}
}
