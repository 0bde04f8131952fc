// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// A host that is late with what a node does makes a run INVALID; the reason names the rank and what was late.
func TestNodes(t *testing.T) {
	const us = 1000
	for _, tc := range []struct {
		name       string
		gpu, part  int
		bytes      uint64
		took, late int64 // ns, of each
		reason     string
		summary    string
	}{
		{name: "in time", gpu: 3, part: state.Actions, bytes: 512, took: 100 * us, late: us},
		{name: "launches", gpu: 3, part: state.Launches, took: 100 * us, late: 50 * us,
			reason: "rank 3 (node1/gpu1), launches of kernels: 100 of 100 were later than max(5 us, 5 % of their time), " +
				"at most 1 in 100 may be; the largest lateness is 50µs: this host cannot play the node in time",
			summary: "host: lateness p99 50us on rank 3 (node1/gpu1), launches of kernels, wanted 5us"},
		{name: "actions", gpu: 0, part: state.Actions, bytes: 512 << 10, took: 100 * us, late: 3 * us,
			reason: "rank 0 (node0/gpu0), actions of kernels <= 1 MiB: 100 of 100 were later than max(1 us, 2 % of their " +
				"time), at most half may be; the median lateness is 3µs: this host cannot play the node in time",
			summary: "host: lateness p50 3us on rank 0 (node0/gpu0), actions of kernels, wanted 2us"},
		{name: "NVLinks", gpu: 1, part: state.NodeMessages, bytes: 8, took: 20 * us, late: us,
			reason: "rank 1 (node0/gpu1), messages from GPUs of its node <= 4 KiB: together 5.0 % of their time late " +
				"(limit 2 %): this host cannot play the node in time",
			summary: "host: messages from GPUs of its node were 5.0 % of their time late on rank 1 (node0/gpu1), wanted 2 %"},
	} {
		in := run(200, func(int) int64 { return 0 })
		in.Nodes, in.Job.NodeStats = 2, make([]state.LinkStats, 4*state.NodeParts)
		for i := range 100 {
			posted := int64(i+1) * tc.took
			in.Job.NodeStats[tc.gpu*state.NodeParts+tc.part].CountDelivery(tc.bytes, posted, posted+tc.took,
				posted+tc.took+tc.late, 1)
		}
		v := Judge(in)
		if v.Valid != (tc.reason == "") || !strings.Contains(strings.Join(v.Reasons, "\n"), tc.reason) ||
			v.Summary != tc.summary || v.SlowHost == v.Valid {
			t.Errorf("%s: %s, slow host %v: %q %q", tc.name, v.Word, v.SlowHost, v.Summary, v.Reasons)
		}
	}
}
