// SPDX-License-Identifier: Apache-2.0

package nccl

import (
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/ddlemu/ddlemu/shaper/engine/clock"
)

// samples are metrics as Prometheus reads them.
type samples map[string]*dto.MetricFamily

func samplesOf(t *testing.T, text string) samples {
	t.Helper()
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return families
}

// with are the metrics of this name that have a label with this value.
func (s samples) with(name, label, value string) []*dto.Metric {
	var found []*dto.Metric
	for _, m := range s[name].GetMetric() {
		for _, l := range m.Label {
			if l.GetName() == label && l.GetValue() == value {
				found = append(found, m)
			}
		}
	}
	return found
}

// statusJSON is what `ddlemu status --json` prints.
type statusJSON struct {
	Links []struct {
		From, To        string
		Bytes, Messages uint64
	}
	Jobs         []struct{ Messages uint64 }
	UpNs         int64 `json:"up_ns"`
	VirtualClock struct {
		Now int64 `json:"now_ns"`
	} `json:"virtual_clock"`
}

// After a job, the metrics of each link are the counters that status shows, and each message has its lateness.
func TestMetricsAfterAJob(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		clock, timeScale string
		scale            float64
	}{{"virtual", "1", 1}, {"real", "2", 2}} {
		t.Run(tc.clock, func(t *testing.T) {
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
			status := func() (s statusJSON) {
				t.Helper()
				if err := json.Unmarshal([]byte(run("status", "--json")), &s); err != nil {
					t.Fatal(err)
				}
				return s
			}
			run("up", "--profile", "ndr400", "--nodes", "2", "--clock", tc.clock, "--set", "time_scale="+tc.timeScale,
				"--name", "f", "--no-measure")
			defer run("down", "f")
			run("bench", "allreduce", "--fabric", "f", "--ranks", "2", "-b", "1M", "-e", "1M", "-n", "2", "-w", "1")
			before := status()
			all := samplesOf(t, run("metrics"))
			after := status()
			if len(before.Links) != 2 || len(before.Jobs) != 1 {
				t.Fatalf("%d links, %d jobs", len(before.Links), len(before.Jobs))
			}
			all.checkLinks(t, &before)
			all.checkLateness(t, before.Jobs[0].Messages, tc.clock == "virtual")
			from, to := float64(before.UpNs), float64(after.UpNs)
			if tc.clock == "virtual" {
				from, to = float64(before.VirtualClock.Now-clock.Start), float64(after.VirtualClock.Now-clock.Start)
			}
			seconds := all.with("ddlemu_fabric_clock_seconds_total", "fabric", "f")
			if len(seconds) != 1 {
				t.Fatalf("the clock is at %v", seconds)
			}
			if ns := seconds[0].GetCounter().GetValue() * 1e9 * tc.scale; ns < from-1000 || ns > to+1000 {
				t.Errorf("the clock is at %v ns, status says %v to %v", ns, from, to)
			}
		})
	}
}

// checkLinks compares the counters of links with those that status shows.
func (s samples) checkLinks(t *testing.T, status *statusJSON) {
	t.Helper()
	for _, l := range status.Links {
		if l.Bytes == 0 || l.Messages == 0 {
			t.Errorf("%s:%s carried nothing: %+v", l.From, l.To, l)
		}
		for name, value := range map[string]uint64{"ddlemu_link_transmit_bytes_total": l.Bytes,
			"ddlemu_link_messages_total": l.Messages} {
			got := s.with(name, "link", l.From+":"+l.To)
			if len(got) != 1 || got[0].GetCounter().GetValue() != float64(value) {
				t.Errorf("%s of %s:%s is %v, status says %d", name, l.From, l.To, got, value)
			}
		}
	}
}

// checkLateness compares the lateness of the only job with its messages. On a virtual clock no message is late.
func (s samples) checkLateness(t *testing.T, messages uint64, exact bool) {
	t.Helper()
	counted, late := s.with("ddlemu_job_messages_total", "fabric", "f"), s.with("ddlemu_message_late_seconds", "fabric",
		"f")
	if len(counted) != 1 || len(late) != 1 {
		t.Fatalf("messages %v, lateness %v", counted, late)
	}
	h := late[0].GetHistogram()
	if n := h.GetSampleCount(); n != messages || float64(n) != counted[0].GetCounter().GetValue() {
		t.Errorf("%d messages have a lateness, status says %d, metrics %v", n, messages, counted[0])
	}
	first, last := h.Bucket[0], h.Bucket[len(h.Bucket)-1]
	if first.GetUpperBound() != 0 || !math.IsInf(last.GetUpperBound(), 1) || last.GetCumulativeCount() != messages {
		t.Errorf("the buckets go from %v to %v", first, last)
	}
	if exact && (first.GetCumulativeCount() != messages || h.GetSampleSum() != 0) {
		t.Errorf("messages were late on a virtual clock: %v", h)
	}
	if !exact && h.GetSampleSum() <= 0 {
		t.Errorf("no message was late on a real clock: %v", h)
	}
}

// The metrics of a recorded job are what `ddlemu why` says: so many calls, which took so long together.
func TestMetricsOfARecordedJob(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		collective, nccl string
		inspector        bool
	}{{"allreduce", "2.22", true}, {"allgather", "2.29", true}, {"broadcast", "2.29", true},
		{"alltoall", "2.29", false}} {
		t.Run(tc.collective+" "+tc.nccl, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "t")
			r := bench(t, folder(t), nil, tc.collective, "--profile", "ndr400", "--ranks", "4", "--nccl", tc.nccl, "-b",
				"1K", "-e", "4M", "-f", "64", "-n", "2", "-w", "1", "--trace", dir)
			out, err := ddlemu(t.Context(), t, folder(t), nil, "metrics", dir).Output()
			if err != nil {
				t.Fatal(err)
			}
			all := samplesOf(t, string(out))
			calls, seconds := map[string]uint64{}, map[string]float64{}
			for _, c := range whyOf(t, dir).Calls {
				calls[c.Function]++
				seconds[c.Function] += float64(c.Time) / 1e9
			}
			for function, n := range calls {
				got, sum := uint64(0), 0.0
				for _, m := range all.with("ddlemu_collective_seconds", "collective", function) {
					got, sum = got+m.GetHistogram().GetSampleCount(), sum+m.GetHistogram().GetSampleSum()
				}
				if got != n || math.Abs(sum-seconds[function]) > 1e-9*sum {
					t.Errorf("%s: metrics say %d calls in %v s, why says %d in %v s", function, got, sum, n,
						seconds[function])
				}
			}
			sizes := 0
			if tc.inspector {
				sizes = len(r.Rows) / 2 // out of place and in place
			}
			for _, name := range []string{"nccl_bus_bandwidth_gbs", "nccl_collective_exec_time_microseconds"} {
				if got := len(all.with(name, "slurm_job_id", "t")); got != sizes || len(calls) == 0 {
					t.Errorf("%d values of %s for %d sizes of %v:\n%s", got, name, sizes, calls, out)
				}
			}
		})
	}
}
