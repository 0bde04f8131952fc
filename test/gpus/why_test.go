// SPDX-License-Identifier: Apache-2.0

package gpus

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/test/world"
)

// h100s are 2 nodes of 8 H100 whose times nothing random changes.
func h100s() []string {
	return strings.Fields("--profile ndr400 --set link.jitter=0 --gpu h100-sxm --set node_time=on --nodes 2 --nccl 2.29")
}

type partsReport struct {
	Rows []struct {
		Size  int64   `json:"size"`
		Last  float64 `json:"last_rank_us"`
		Parts struct {
			Calls int   `json:"calls"`
			NS    int64 `json:"ns"`
			Parts []struct {
				Part string `json:"part"`
				NS   int64  `json:"ns"`
			} `json:"parts"`
		} `json:"parts"`
	} `json:"rows"`
}

// The parts of calls between and within nodes sum to their time.
func TestWhy(t *testing.T) {
	w := world.New(t)
	args := slices.Concat([]string{"expect", "allreduce", "--ranks", "16", "-d", "half", "-b", "1K", "-e", "4M", "-f", "64",
		"-n", "5", "--why"}, h100s())
	var report partsReport
	if out := w.Run(append(args, "--json")...); json.Unmarshal([]byte(out), &report) != nil || len(report.Rows) != 3 {
		t.Fatal(out)
	}
	for _, r := range report.Rows {
		sum, names := int64(0), []string{}
		for _, p := range r.Parts.Parts {
			sum += p.NS
			names = append(names, p.Part)
		}
		if sum != r.Parts.NS || r.Parts.Calls != 5 || math.Abs(float64(sum)/5e3-r.Last) > 1e-3 {
			t.Errorf("%d bytes: the parts of %d calls are %d ns, in all %d; a call takes %v us", r.Size, r.Parts.Calls, sum,
				r.Parts.NS, r.Last)
		}
		for _, want := range []string{"call", "launch", "NVLink latency", "proxy", "NIC", "network bytes", "network latency"} {
			if !slices.Contains(names, want) {
				t.Errorf("%d bytes: no %s in %v", r.Size, want, names)
			}
		}
	}
	if out := w.Run(args...); !strings.Contains(out, "where the time until the last rank is done goes") ||
		strings.Contains(out, "PCIe") {
		t.Error(out)
	}
}

// A workload of one call takes as long as the call.
func TestWorkloadWithNodeTime(t *testing.T) {
	w := world.New(t)
	file := filepath.Join(t.TempDir(), "one.jsonl")
	if err := os.WriteFile(file, []byte(`{"format":"ddlemu.workload/1","ranks":16}
{"op":"coll","func":"AllReduce","count":524288,"type":"float16"}
`), 0o600); err != nil {
		t.Fatal(err)
	}
	out := w.Run(slices.Concat([]string{"expect", "--workload", file, "--json"}, h100s())...)
	var job struct {
		Time float64 `json:"time_us"`
	}
	if err := json.Unmarshal([]byte(out), &job); err != nil {
		t.Fatal(err)
	}
	var call partsReport
	if out := w.Run(slices.Concat([]string{"expect", "allreduce", "--ranks", "16", "-d", "half", "-b", "1M", "-e", "1M", "-n", "1",
		"--json"}, h100s())...); json.Unmarshal([]byte(out), &call) != nil || len(call.Rows) != 1 {
		t.Fatal(out)
	}
	if job.Time != call.Rows[0].Last || job.Time < 50 {
		t.Errorf("the workload takes %v us, the call %v", job.Time, call.Rows[0].Last)
	}
	if strings.Contains(out, "takes no time here") {
		t.Error(out)
	}
}
