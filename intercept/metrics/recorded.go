// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"cmp"
	"io"

	dto "github.com/prometheus/client_model/go"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/why"
)

// unknown is the value of a label that NCCL does not say, as in NVIDIA's Inspector.
const unknown = "unknown"

// WriteRecorded writes the metrics of recorded jobs: how long their collectives took, as r says, in time of the
// emulated network. The names of the jobs, t.Jobs, must differ. fabric is the name of the fabric that they ran on.
func WriteRecorded(w io.Writer, t *messages.Trace, r *why.Report, fabric string) error {
	return writeFamilies(w, recordedFamilies(t, r, fabric))
}

func recordedFamilies(t *messages.Trace, r *why.Report, fabric string) []family {
	calls := make([]call, len(r.Calls))
	for i := range r.Calls {
		calls[i] = newCall(t, &r.Calls[i])
	}
	return append([]family{collectiveSeconds(calls)}, inspectorFamilies(calls, fabric)...)
}

// call is what the metrics say of a call.
type call struct {
	job               string
	name, algo, proto string // as NCCL names them; unknown if it does not
	collective        bool   // else sends and receives, or not known
	seconds           float64
	ranks             int    // of the communicator, 0 if unknown
	nodes             int    // that have ranks of the call
	bytes             uint64 // NCCL's count in bytes, of one rank
	sized             bool   // bytes is known
}

func newCall(t *messages.Trace, x *why.Explained) call {
	first := &t.Tasks[x.Tasks[0]]
	c := call{
		job: t.Jobs[first.Job], name: x.Name, collective: first.Func != "" && first.Func != "Send" &&
			first.Func != "Recv",
		seconds: seconds(x.Ns()) / float64(t.Ranks[0].TimeScale),
	}
	nodes := map[int]bool{}
	for _, i := range x.Tasks {
		task := &t.Tasks[i]
		c.algo, c.proto = cmp.Or(c.algo, task.Algo), cmp.Or(c.proto, task.Proto)
		c.ranks = max(c.ranks, task.Ranks)
		if n, ok := bytesOf(task); ok && !c.sized {
			c.bytes, c.sized = n, true
		}
		nodes[t.Nodes[[2]int{task.Job, task.Owner}]] = true
	}
	c.algo, c.proto, c.nodes = cmp.Or(c.algo, unknown), cmp.Or(c.proto, unknown), len(nodes)
	return c
}

// collectiveBounds are the buckets of collectives, in seconds: 1, 2 and 5 of each power of ten, from 1 us to 100 s.
func collectiveBounds() []float64 {
	var bounds []float64
	for us := float64(1); us < 1e8; us *= 10 {
		bounds = append(bounds, us/1e6, 2*us/1e6, 5*us/1e6)
	}
	return append(bounds, 100)
}

// collectiveSeconds is the histogram of all calls, calls of sends and receives too.
func collectiveSeconds(calls []call) family {
	f := newFamily("ddlemu_collective_seconds", "Time of a call, from its begin at the first rank to its last byte.",
		dto.MetricType_HISTOGRAM)
	type labels struct{ job, name, algo, proto string }
	var order []labels
	all := map[labels]*histogram{}
	for i := range calls {
		c := &calls[i]
		key := labels{c.job, c.name, c.algo, c.proto}
		if all[key] == nil {
			all[key] = newHistogram(collectiveBounds())
			order = append(order, key)
		}
		all[key].observe(c.seconds)
	}
	for _, key := range order {
		f.addHistogram(all[key], "trace", key.job, "collective", key.name, "algorithm", key.algo, "protocol", key.proto)
	}
	return f
}
