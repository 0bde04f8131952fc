// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// traced is what `ddlemu messages --json` prints.
type traced struct {
	Clock    string
	Notes    []string
	Messages []struct {
		Sender, Receiver int
		Bytes            uint64
		Sent, Received   bool
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

// The ledgers of a job have every message, and the same bytes as the links' counters.
func TestLedgersHaveEveryMessage(t *testing.T) {
	bin := compile(t, "threads")
	for _, program := range []string{"storm", "repeat"} {
		dir := filepath.Join(t.TempDir(), "t")
		args := []string{"run", "--profile", "ndr400", "--clock", "virtual", "--soft-cuda", "--trace", dir, "--", bin, program}
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
			if !m.Sent || !m.Received || m.Late != 0 || m.Due < m.Posted || m.Due < m.ReceivePosted || m.Complete < m.Due {
				t.Fatalf("%s: %+v", program, m)
			}
			link := "node" + strconv.Itoa(m.Sender) + ":node" + strconv.Itoa(m.Receiver)
			ledgers[link] = sum{ledgers[link].messages + 1, ledgers[link].bytes + m.Bytes}
		}
		for _, row := range regexp.MustCompile(`(?m)^(node\d:node\d)?\s+(\d+) <= \d+ \w+\s+(\d+)`).FindAllStringSubmatch(string(out), -1) {
			n, _ := strconv.ParseUint(row[2], 10, 64)
			bytes, _ := strconv.ParseUint(row[3], 10, 64)
			links[row[1]] = sum{links[row[1]].messages + n, links[row[1]].bytes + bytes}
		}
		for _, link := range []string{"node0:node1", "node1:node0"} {
			if ledgers[link] != links[link] || links[link].messages == 0 {
				t.Errorf("%s, %s: %+v in the ledgers, %+v counted by the link:\n%s", program, link, ledgers[link], links[link], out)
			}
		}
	}
}

// A folder is not used twice, and what is traced on the real clock says so.
func TestTraceFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "t")
	args := []string{"bench", "allreduce", "--profile", "eth10", "--ranks", "2", "--clock", "real", "--time-scale", "64", "-b", "64", "-e", "64", "-n", "2", "--trace", dir}
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
