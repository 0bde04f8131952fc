// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
)

// Times of all_reduce on 2 nodes of 8 H100 with 8 ports of 400 Gb/s (NVIDIA/nccl-tests issue 290), with the time of the
// bytes that must cross: the cluster moves what 2 of its NICs carry.
var issue290 = []JudgedTime{
	{Size: 134217728, TimeUS: 1575.6, BoundUS: 340.3}, {Size: 268435456, TimeUS: 3027.9, BoundUS: 680.59},
	{Size: 536870912, TimeUS: 6983.7, BoundUS: 1361.18}, {Size: 1073741824, TimeUS: 13435, BoundUS: 2722.36},
	{Size: 2147483648, TimeUS: 26301, BoundUS: 5444.73}, {Size: 4294967296, TimeUS: 52043, BoundUS: 10889.46},
}

func TestJudgeNetwork(t *testing.T) {
	ndr := ports{Number: 8, Line: 400e9, Payload: 8 * 49.3e9}
	for _, tc := range []struct {
		name  string
		ports ports
		log   testslog.Net
		scale float64 // of the times
		spoil func([]JudgedTime)
		want  []string // none: no line
	}{
		{name: "no lines of NCCL", ports: ndr, want: []string{"carry 82 GB/s, 21 % of what 8 ports of 400 Gb/s",
			"as much as 2 of 8 NICs, or ports of 100 Gb/s", "measure with NCCL_DEBUG=INFO"}},
		{name: "NICs", ports: ndr, log: testslog.Net{Name: "IB", NICs: 2, Ends: 64, Direct: 64},
			want: []string{"by NCCL's lines it used 2 of 8 NICs"}},
		{name: "no GPUDirect", ports: ndr, log: testslog.Net{Name: "IB", NICs: 8, Ends: 64},
			want: []string{"by NCCL's lines it used no GPUDirect RDMA"}},
		{name: "sockets", ports: ndr, log: testslog.Net{Name: "Socket", NICs: 1, Ends: 64}, scale: 8,
			want: []string{"carry 10 GB/s", "1 of 8 NICs", "used sockets (NET/Socket) instead of RDMA", "; 1 of 8 NICs"}},
		{name: "all in use", ports: ndr, log: testslog.Net{Name: "IB", NICs: 8, Ends: 64, Direct: 64},
			want: []string{"used all NICs, with GPUDirect: look at the rate"}},
		{name: "one port", ports: ports{Number: 1, Line: 400e9, Payload: 8 * 49.3e9},
			want: []string{"21 % of what 1 port of 400 Gb/s can carry: as much as ports of 100 Gb/s;"}},
		{name: "not like fewer", ports: ndr, scale: 0.27, want: []string{"carry 302 GB/s, 77 % of what 8 ports",
			"as much as 7 of 8 NICs;"}},
		{name: "one size is as expected", ports: ndr, spoil: func(j []JudgedTime) { j[5].Word = testslog.AsExpected }},
		{name: "sizes do not agree", ports: ndr, spoil: func(j []JudgedTime) { j[5].TimeUS *= 2 }},
		{name: "few sizes", ports: ndr, spoil: func(j []JudgedTime) {
			for i := range j[:4] {
				j[i].Word = testslog.NotJudged
			}
		}},
		{name: "no bytes must cross", ports: ndr, spoil: func(j []JudgedTime) {
			for i := range j {
				j[i].BoundUS = 0
			}
		}},
	} {
		r, log := &Report{}, &tables.Table{Log: testslog.Test{System: testslog.System{Net: tc.log}}}
		for _, j := range issue290 {
			if j.Word = testslog.Slower; tc.scale > 0 {
				j.TimeUS *= tc.scale
			}
			r.Log = append(r.Log, j)
		}
		if tc.spoil != nil {
			tc.spoil(r.Log)
		}
		r.judgeNetwork(tc.ports, log)
		text := strings.Join(r.Summary, "\n")
		if len(tc.want) == 0 && text != "" {
			t.Errorf("%s: %s", tc.name, text)
		}
		for _, want := range tc.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q, want %q", tc.name, text, want)
			}
		}
	}
}
