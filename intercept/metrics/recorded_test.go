// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/why"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// recordedJob is what a job with 4 ranks on 2 nodes has recorded.
type recordedJob struct {
	messages.Trace
	why.Report
}

func newRecordedJob(timeScale int64) *recordedJob {
	j := &recordedJob{}
	j.Jobs = []string{"a"}
	j.Nodes = map[[2]int]int{{0, 0}: 0, {0, 1}: 0, {0, 2}: 1, {0, 3}: 1}
	j.Trace.Ranks = []ledger.Info{{TimeScale: timeScale}}
	return j
}

// call adds a call of all ranks that takes us microseconds of the emulated network.
func (j *recordedJob) call(name string, task messages.Task, us int64) {
	c := messages.Call{Name: name}
	for rank := range 4 {
		c.Tasks = append(c.Tasks, len(j.Tasks))
		task.Owner = rank
		j.Tasks = append(j.Tasks, task)
	}
	j.Trace.Calls = append(j.Trace.Calls, c)
	j.Report.Calls = append(j.Report.Calls, why.Explained{Call: &c, End: us * 1000 * j.Trace.Ranks[0].TimeScale})
}

// parse writes the metrics and reads them as Prometheus does.
func (j *recordedJob) parse(t *testing.T) (map[string]float64, map[string]*dto.MetricFamily) {
	t.Helper()
	var b bytes.Buffer
	if err := WriteRecorded(&b, &j.Trace, &j.Report, "lab"); err != nil {
		t.Fatal(err)
	}
	return parse(t, b.String())
}

func TestCollectiveSeconds(t *testing.T) {
	const scale = 8
	j := newRecordedJob(scale)
	for _, us := range []int64{1, 2, 3, 1000, 200_000_000} {
		j.call("AllReduce", messages.Task{Func: "AllReduce", Algo: "Ring", Proto: "LL", Ranks: 4}, us)
	}
	j.call("AllReduce", messages.Task{Func: "AllReduce", Algo: "Tree", Proto: "LL", Ranks: 4}, 7)
	j.call("SendRecv", messages.Task{Func: "Send"}, 9)
	_, families := j.parse(t)
	f := families["ddlemu_collective_seconds"]
	if f == nil || len(f.Metric) != 3 {
		t.Fatalf("want 3 histograms: %v", f)
	}
	got := map[string]*dto.Histogram{}
	for _, m := range f.Metric {
		key := ""
		for _, l := range m.Label {
			key += fmt.Sprintf("%s=%s ", l.GetName(), l.GetValue())
		}
		got[key] = m.Histogram
	}
	ring := got["trace=a collective=AllReduce algorithm=Ring protocol=LL "]
	if ring.GetSampleCount() != 5 || math.Abs(ring.GetSampleSum()-200.001006) > 1e-9 {
		t.Errorf("count %d, sum %v s", ring.GetSampleCount(), ring.GetSampleSum())
	}
	for bound, want := range map[float64]uint64{1e-6: 1, 2e-6: 2, 5e-6: 3, 5e-4: 3, 1e-3: 4, 100: 4, math.Inf(1): 5} {
		found := false
		for _, b := range ring.GetBucket() {
			if b.GetUpperBound() == bound {
				found = true
				if b.GetCumulativeCount() != want {
					t.Errorf("%d calls take at most %g s, want %d", b.GetCumulativeCount(), bound, want)
				}
			}
		}
		if !found {
			t.Errorf("no bucket %g", bound)
		}
	}
	for _, key := range []string{"trace=a collective=AllReduce algorithm=Tree protocol=LL ",
		"trace=a collective=SendRecv algorithm=unknown protocol=unknown "} {
		if got[key].GetSampleCount() != 1 {
			t.Errorf("no %s: %v", key, got)
		}
	}
}

// Bus bandwidths are those of nccl-tests: the size of the larger buffer of a rank, over the time, by the factor of the
// collective. NCCL's count is that of the smaller one.
func TestInspector(t *testing.T) {
	for _, tc := range []struct {
		task            messages.Task
		size, algoProto string
		gbs             float64 // for 1000 us; 0: not known
	}{
		{messages.Task{Func: "AllReduce", Algo: "Ring", Proto: "LL128", Datatype: "float", Count: 1 << 20, Ranks: 4},
			"4-5MB", "RING_LL128", 4.194304 * 1.5},
		{messages.Task{Func: "AllGather", Algo: "PAT", Proto: "Simple", Datatype: "int8", Count: 1 << 20, Ranks: 4},
			"1-2MB", "PAT_SIMPLE", 4.194304 * 0.75},
		{messages.Task{Func: "AllGather", Algo: "NVLSTree", Proto: "Simple", Count: 1500, Ranks: 4}, "1-2KB",
			"NVLS_TREE_SIMPLE", 0.006 * 0.75},
		{messages.Task{Func: "ReduceScatter", Algo: "CollNetDirect", Proto: "Simple", Datatype: "bfloat16",
			Count: 1 << 29, Ranks: 4}, "1-2GB", "COLLNET_DIRECT_SIMPLE", 4294.967296 * 0.75},
		{messages.Task{Func: "Broadcast", Algo: "Ring", Proto: "LL", Count: 8, Ranks: 4}, "8-9B", "RING_LL", 8e-6},
		{messages.Task{Func: "Reduce", Algo: "Tree", Proto: "LL", Datatype: "fp8e4m3", Count: 1023, Ranks: 4},
			"1023-1024B", "TREE_LL", 1023e-6},
		{messages.Task{Func: "AllReduce", Datatype: "float", Count: 256, Ranks: 0}, "1-2KB", "unknown_unknown", 0},
		{messages.Task{Func: "AllReduce", Algo: "CollNetChain", Proto: "Simple", Count: 256, Ranks: 4}, "unknown",
			"COLLNET_CHAIN_SIMPLE", 0},
		{messages.Task{Func: "AllGatherV", Algo: "Ring", Proto: "LL", Ranks: 4}, "unknown", "RING_LL", 0},
	} {
		j := newRecordedJob(2)
		j.call(tc.task.Func, tc.task, 1000)
		values, families := j.parse(t)
		nranks := "4"
		if tc.task.Ranks == 0 {
			nranks = "unknown"
		}
		labels := fmt.Sprintf(
			" version=ddlemu cluster=lab slurm_job_id=a comm_name=unknown n_nodes=2 nranks=%s collective=%s message_size=%s algo_proto=%s", nranks, tc.task.Func, tc.size, tc.algoProto)
		if got := values["nccl_collective_exec_time_microseconds"+labels]; got != 1000 {
			t.Errorf("%s: %g us: %v", labels, got, values)
		}
		gbs, ok := values["nccl_bus_bandwidth_gbs"+labels]
		if ok != (tc.gbs != 0) || math.Abs(gbs-tc.gbs) > 1e-9*tc.gbs {
			t.Errorf("%s: %g GB/s (there: %t), want %g", labels, gbs, ok, tc.gbs)
		}
		if f := families["nccl_bus_bandwidth_gbs"]; f != nil && f.GetType() != dto.MetricType_GAUGE {
			t.Errorf("the type is %v", f.GetType())
		}
	}
}

// Calls with the same labels are one value: the mean of their times and the geometric mean of their bandwidths. Sends
// and receives have none.
func TestInspectorMeans(t *testing.T) {
	j := newRecordedJob(1)
	task := messages.Task{Func: "Broadcast", Algo: "Ring", Proto: "LL", Count: 1_000_000, Ranks: 4}
	j.call("Broadcast", task, 1000)
	j.call("Broadcast", task, 4000)
	j.call("AllToAll", messages.Task{Func: "Send", Count: 5, Ranks: 4}, 1)
	values, families := j.parse(t)
	labels := " version=ddlemu cluster=lab slurm_job_id=a comm_name=unknown n_nodes=2 nranks=4 collective=Broadcast message_size=976-977KB algo_proto=RING_LL"
	if got := values["nccl_collective_exec_time_microseconds"+labels]; got != 2500 {
		t.Errorf("%g us: %v", got, values)
	}
	if got := values["nccl_bus_bandwidth_gbs"+labels]; math.Abs(got-0.5) > 1e-12 {
		t.Errorf("%g GB/s: %v", got, values)
	}
	if n := len(families["nccl_collective_exec_time_microseconds"].Metric); n != 1 {
		t.Errorf("%d values, want 1", n)
	}
}
