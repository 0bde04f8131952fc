// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// After a job, the metrics of each link are the counters that status shows.
func TestMetricsAfterAJob(t *testing.T) {
	dir := folder(t)
	run := func(args ...string) string {
		t.Helper()
		cmd := ddlemu(t.Context(), t, dir, nil, args...)
		cmd.Stderr = nil
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("ddlemu %v: %v", args, err)
		}
		return string(out)
	}
	run("up", "--profile", "ndr400", "--nodes", "2", "--clock", "virtual", "--name", "f")
	defer run("down", "f")
	run("bench", "allreduce", "--fabric", "f", "--ranks", "2", "-b", "1M", "-e", "1M", "-n", "2", "-w", "1")
	var status struct {
		Links []struct {
			From, To        string
			Bytes, Messages uint64
		}
	}
	if err := json.Unmarshal([]byte(run("status", "--json")), &status); err != nil {
		t.Fatal(err)
	}
	text := run("metrics")
	for _, l := range status.Links {
		if l.Bytes == 0 || l.Messages == 0 {
			t.Errorf("%s:%s carried nothing: %+v", l.From, l.To, l)
		}
		for name, value := range map[string]uint64{"ddlemu_link_transmit_bytes_total": l.Bytes, "ddlemu_link_messages_total": l.Messages} {
			prefix := fmt.Sprintf("%s{fabric=\"f\",link=%q} ", name, l.From+":"+l.To)
			var got float64
			if _, rest, ok := strings.Cut(text, prefix); !ok {
				t.Errorf("no %s", prefix)
			} else if _, err := fmt.Sscan(rest, &got); err != nil || got != float64(value) {
				t.Errorf("%s%g, status says %d (%v)", prefix, got, value, err)
			}
		}
	}
	if len(status.Links) != 2 {
		t.Errorf("%d links", len(status.Links))
	}
}
