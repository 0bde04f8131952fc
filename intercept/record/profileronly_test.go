// SPDX-License-Identifier: Apache-2.0

package record

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// Of a job that was only recorded, calls are ready when their kernels begin. Ranks of two hosts have two clocks.
func TestAlone(t *testing.T) {
	tr := &messages.Trace{Jobs: []string{"job"},
		Ranks: []ledger.Info{{Rank: 0, World: 2, NCCL: 22602}, {Rank: 1, Node: 1, World: 2, NCCL: 22602}}}
	for rank, clock := range []int64{0, 7000000} {
		// planned, begun, ended
		for _, x := range [][3]int64{{1000, 1100, 50000}, {1050, 50400, 80000}, {70000, 300000, 310000}} {
			k := task(rank, "AllReduce", 8, clock+x[0], -1)
			k.KernelBegun, k.KernelEnded = clock+x[1], clock+x[2]
			tr.Tasks = append(tr.Tasks, k)
		}
	}
	got := lines(t, tr, Options{})
	want := []string{
		`{"rank":"0-1","id":1,"op":"coll","stream":"c0","comm":"c0","func":"AllReduce","count":8,"type":"float32"}`,
		`{"rank":"0-1","id":2,"op":"calc","stream":"host","max_ns":49300}`,
		`{"rank":"0-1","id":3,"op":"coll","stream":"c0","after":[2],"comm":"c0","func":"AllReduce","count":8,"type":"float32"}`,
		`{"rank":"0-1","id":4,"op":"calc","stream":"host","after":[1,3],"ns":220000,"max_ns":298900}`,
		`{"rank":"0-1","id":5,"op":"coll","stream":"c0","after":[4],"comm":"c0","func":"AllReduce","count":8,"type":"float32"}`,
	}
	if strings.Join(got[1:], "\n") != strings.Join(want, "\n") {
		t.Errorf("%s\nwant\n%s", strings.Join(got[1:], "\n"), strings.Join(want, "\n"))
	}
	for _, text := range []string{"when 2 calls were ready", "when the ranks of 2 hosts began"} {
		if !strings.Contains(got[0], text) {
			t.Errorf("the head is %s, want %q", got[0], text)
		}
	}
	if strings.Contains(got[0], "broadcasts") || strings.Contains(got[0], "of 6 calls began") {
		t.Errorf("the head is %s", got[0])
	}
}
