// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/nsys/nsystest"
)

// each is one, n times, with the numbers from 0 on for %[1]d and those before them for %[2]d.
func each(n int, one string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, one+"%.[3]s", i, i-1, "")
	}
	return b.String()
}

// content is the content of a made file.
func content(data []byte, err error) string {
	if err != nil {
		panic(err)
	}
	return string(data)
}

// What a reader makes of a file is bounded by the size of the file. Each of these files is small and asks for much; the
// package test/inputs measures larger ones.
func TestMadeOfAFile(t *testing.T) {
	const columns = "comm_type,comm_group,comm_group_size,msg_size,stage\n"
	etNode := func(ranks string) string {
		return `{"name":"record_param_comms","id":%[1]d,"inputs":{"values":[[1,1,0,8,1,"c"],1,"allreduce",[],[],` + ranks +
			`],"types":["Tensor(int)"]},"outputs":{"values":[]}},`
	}
	for name, test := range map[string]struct {
		kind Kind
		text string
		want string // the end of the error, or a part of it; "" if the file is read
	}{
		"GOAL: ranks that differ": {GOAL, "num_ranks 4000\n" + each(4000, "rank %[1]d {\nl: calc %[1]d\n}\n"), ""},
		"GOAL: a chain of starts": {GOAL, "num_ranks 1\nrank 0 {\na-1: calc 1\n" + each(2400,
			"b%[1]d: calc 1\na%[1]d: calc 1 cpu %[1]d\na%[1]d irequires a%[2]d\na%[1]d requires b%[1]d\n") + "}\n",
			"the file has only"},
		"GOAL: comments":              {GOAL, "num_ranks 1\nrank 0 {\nl: calc 1\n} " + strings.Repeat("/* */", 20_000), ""},
		"AICB: columns":               {AICB, "comm_type,comm_group" + each(1000, ",%[1]d"), "1002 columns: at most 100 are possible"},
		"AICB: stages":                {AICB, each(2000, "[ pp_stage%[1]d: [%[1]d] ]\n") + columns + "all_reduce,pp_group,2000,8,a\n", ""},
		"AICB: the name of each call": {AICB, columns + each(4900, "reduce,all,8,8,a\n"), ""},
		"AICB: groups of two of a million ranks": {AICB, columns + "all_reduce,dp_group,262144,8,a\n" +
			"all_reduce,tp_group,2,8,a\nall_reduce,ep_group,2,8,a\nall_reduce,pp_group,2,8,a\n", "more than 8388608 ranks"},
		"SimAI: checkpoints of nothing": {SimAI, "HYBRID_TRANSFORMER model_parallel_NPU_group: 8 all_gpus: 8 " +
			"checkpoint_initiates: 100" + each(100, " 1%02[1]d") + "\n200\n" + each(200, "a -1 0 NONE 0 0 NONE 0 0 NONE 0 0\n"),
			"more than 5000 calls"},
		"SimAI: updates beyond 63 bits": {SimAI, "HYBRID_TRANSFORMER model_parallel_NPU_group: 8 all_gpus: 8\n256\n" +
			each(256, "a -1 0 ALLREDUCE 8 0 NONE 0 0 NONE 0 72057594037927936\n"), "ns 72057594037927937: must be 0 to"},
		"SimAI: a time of 63 bits": {SimAI, "DATA all_gpus: 8\n1\na -1 9223372036854775807 NONE 0 0 NONE 0 0 NONE 0 0\n",
			"a number of at most"},
		"Chakra: nodes that stand for many": {Chakra, `{"ngpus":1,"workload_graph":[` +
			each(300, `{"Id":%[1]d,"NodeType":4,"runtime":1},`) +
			each(100, `{"Id":1%03[1]d,"NodeType":4,"data_deps":[`+strings.TrimSuffix(each(300, "%[1]d,"), ",")+`]},`) +
			each(300, `{"Id":2%03[1]d,"NodeType":4,"runtime":1,"data_deps":[`+strings.TrimSuffix(each(100, "1%03[1]d,"), ",")+`]},`) +
			`{"Id":9999}]}`, "the file has only"},
		"execution trace: groups of one list": {PyTorchET, `{"schema":"1.1.1","nodes":[` +
			each(200, etNode("0,1,131072")) + `{}]}`, ""},
		"execution trace: groups of many lists": {PyTorchET, `{"schema":"1.1.1","nodes":[` +
			each(100, etNode("%[1]d,1,131072")) + `{}]}`, "more than 8388608 ranks together: give the files of fewer groups"},
		"Inspector: ranks that differ": {Inspector, each(200, `{"header":{"id":"1","rank":%[1]d,"n_ranks":200},"metadata":`+
			`{"pid":%[1]d},"coll_perf":{"coll":"AllReduce","coll_sn":%[1]d,"coll_msg_size_bytes":8}}`), "more than 25000 records"},
		"Nsight Systems: rows that share pages":   {Nsys, content(nsystest.SharedPages()), "table NVTX_EVENTS has more than"},
		"Nsight Systems: tables that share pages": {Nsys, content(nsystest.SharedSchema()), "or is there twice)"},
		"a format behind many keys": {"", "{" + each(2000, `"a%[1]d":1,`) + `"traceEvents":[]}`,
			"the format is not known"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Read([]input.File{input.Bytes("x", []byte(test.text))}, test.kind,
			input.Options{OneForAll: true, MaxOps: 5000})
		runtime.ReadMemStats(&after)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %.300v, want %q", name, err, test.want)
		}
		if made := (after.TotalAlloc - before.TotalAlloc) >> 20; test.want == "" && made > 100 {
			t.Errorf("%s: %d MB were made of %d KB", name, made, len(test.text)>>10)
		}
	}
}
