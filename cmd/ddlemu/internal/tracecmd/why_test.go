// SPDX-License-Identifier: Apache-2.0

package tracecmd

import (
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/why"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// A note names what else a rank may have waited for, if nodes take time, and the command that says for how long.
func TestNodeNotes(t *testing.T) {
	const begin = "`ddlemu expect "
	for _, tc := range []struct {
		name  string
		tasks []messages.Task // of calls, the longest first
		nccl  int
		want  string
	}{
		{"one", []messages.Task{{Func: "AllReduce", Datatype: "float", Count: 1 << 18, Ranks: 4}}, 22203,
			"all_reduce -F t/fabric.yaml --ranks 4 -b 1048576 -e 1048576 --why`"},
		{"half", []messages.Task{{Func: "ReduceScatter", Datatype: "half", Count: 100, Ranks: 4}}, 22203,
			"reduce_scatter -F t/fabric.yaml --ranks 4 -b 800 -e 800 -d half --why`"},
		{"bytes", []messages.Task{{Func: "AllGather", Datatype: "int8", Count: 100, Ranks: 4}}, 22907,
			"all_gather -F t/fabric.yaml --ranks 4 -b 400 -e 400 --nccl 2.29 --why`"},
		{"not of all ranks", []messages.Task{{Func: "AllReduce", Datatype: "float", Count: 7, Ranks: 2},
			{Func: "Broadcast", Datatype: "float", Count: 2, Ranks: 4}}, 0,
			"broadcast -F t/fabric.yaml --ranks 4 -b 8 -e 8 --why`"},
		{"no collective", []messages.Task{{Func: "SendRecv", Datatype: "float", Count: 7, Ranks: 4},
			{Func: "AllReduce", Datatype: "fp8e4m3", Count: 7, Ranks: 4}}, 0,
			"COLLECTIVE -F t/fabric.yaml --ranks 4 --why`"},
	} {
		tr := &messages.Trace{Ranks: []ledger.Info{{World: 4, NCCL: tc.nccl}}, Tasks: tc.tasks}
		r := &why.Report{}
		for i := range tc.tasks {
			c := why.Explained{Call: &messages.Call{Tasks: []int{i}, Begun: 0}}
			r.Calls = append(r.Calls, c)
		}
		c := &configs.Fabric{TimedNodes: true}
		notes := nodeNotes("t/fabric.yaml", c, tr, r)
		if len(notes) != 1 || !strings.HasSuffix(notes[0], begin+tc.want) {
			t.Errorf("%s: %q, want %s%s", tc.name, notes, begin, tc.want)
		}
		if len(nodeNotes("", c, tr, &why.Report{})) > 0 {
			t.Error("a job without calls has a note")
		}
		if c.TimedNodes, c.NodeTime = false, true; len(nodeNotes("", c, tr, r)) > 0 {
			t.Error("nodes that took no time have a note")
		}
	}
}
