// SPDX-License-Identifier: Apache-2.0

package inputs

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ddlemu/ddlemu/shaper/workload/formats"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/nsys/nsystest"
)

// text is a bomb of one text that is repeated between two others until the input is full.
func text(name, before, one, after string) bomb {
	return bomb{name, func() []byte { return filled([]byte(before), []byte(one), []byte(after)) }}
}

// whole is a bomb that is a text as it is.
func whole(name, content string) bomb { return bomb{name, func() []byte { return []byte(content) }} }

// numbered is a bomb of records with a number each.
func numbered(name, before, one, after string) bomb {
	return bomb{name, func() []byte {
		b := []byte(before)
		for n := 1; len(b)+len(one)+32+len(after) < maxInput; n++ {
			b = append(b, strings.ReplaceAll(one, "#", fmt.Sprint(n))...)
		}
		return append(b, after...)
	}}
}

// counted is a bomb of as many records as the input has room for, of 0 to n-1: before and after may need n.
func counted(name string, before, one func(b []byte, i, n int) []byte, after string) bomb {
	return bomb{name, func() []byte {
		n := 1
		all := func() []byte {
			b := before(nil, 0, n)
			for i := 0; i < n && len(b) < maxInput; i++ {
				b = one(b, i, n)
			}
			return append(b, after...)
		}
		for step := 1 << 17; step > 0; step >>= 1 {
			if n += step; len(all()) > maxInput {
				n -= step
			}
		}
		return all()
	}}
}

// unpacksTo is a bomb of about size bytes that gzip packs.
func unpacksTo(name, before, one string, size int) bomb {
	return bomb{name, func() []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		block := []byte(strings.Repeat(one, 1+(1<<16)/len(one)))
		_, _ = z.Write([]byte(before)) // a buffer takes all
		for n := 0; n < size && b.Len() < maxInput; n += len(block) {
			_, _ = z.Write(block)
		}
		_ = z.Close()
		return b.Bytes()
	}}
}

const jsonEvent = `{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)","pid":0,"tid":7,"ts":#,"dur":1,"args":{"correlation":#,"stream":7,"device":0,"Collective name":"allreduce","In msg nelems":1,"dtype":"Float","Process Group Name":"#","Process Group Ranks":"[0, 1]","Group size":2}},`

// perNumber is a part of a counted bomb: a format whose %[1]d is the number, and %[2]d how many there are.
func perNumber(format string) func(b []byte, i, n int) []byte {
	return func(b []byte, i, n int) []byte { return fmt.Appendf(b, format+"%.[3]s", i, n, "") }
}

// halves is a bomb of which one half is records with numbers from 0 and the other half one record again and again.
func halves(name, before, numbered, again, after string) bomb {
	return bomb{name, func() []byte {
		b := []byte(before)
		for n := 0; len(b) < maxInput/2; n++ {
			b = append(b, strings.ReplaceAll(numbered, "#", fmt.Sprint(n))...)
		}
		return filled(b, []byte(again), []byte(after))
	}}
}

// workloadBombs are those of formats beside what all get.
var workloadBombs = map[formats.Kind][]bomb{
	formats.Kineto: {
		numbered("groups", `{"schemaVersion":1,"distributedInfo":{"backend":"nccl","rank":0,"world_size":2},"traceEvents":[`,
			jsonEvent, `{}]}`),
		numbered("ranks of all groups", `{"schemaVersion":1,"distributedInfo":{"backend":"nccl","rank":0,"world_size":1048576},"traceEvents":[`,
			strings.ReplaceAll(strings.ReplaceAll(jsonEvent, "[0, 1]", ""), `"Group size":2`, `"Group size":1048576`), `{}]}`),
		unpacksTo("packed", `{"schemaVersion":1,"distributedInfo":{"backend":"nccl","rank":0,"world_size":2},"traceEvents":[`,
			strings.ReplaceAll(jsonEvent, "#", "7"), 300<<20),
		unpacksTo("packed blanks", `{"schemaVersion":1,`, " ", 900<<20),
	},
	formats.FlightRec: {
		{"shared ranks", sharedRanks}, {"shared lists of ranks", sharedListsOfRanks},
		numbered("big numbers", `{"version":"2.4","entries":[`, `{"profiling_name":"nccl:all_reduce","state":"scheduled","input_sizes":[[9223372036854775807,2]],"input_dtypes":["Float"],"output_sizes":[[-1]],"output_dtypes":["Float"],"record_id":-9223372036854775808,"process_group":["#","a"],"collective_seq_id":9223372036854775807,"time_created_ns":-#},`, `{}]}`),
		numbered("entries of groups", `{"version":"2.4","entries":[`, `{"profiling_name":"nccl:all_reduce","input_sizes":[[1]],"input_dtypes":["Int"],"process_group":["#","a"],"collective_seq_id":1,"record_id":#},`, `{}]}`),
		{"wide groups that share no order", crossedRanks},
		text("values in values", `{"version":"2.4","entries":[{"frames":`, "[", ""),
		text("repeated keys", `{"version":"2.4","entries":[{`, `"frames":[],`, `"frames":[]}]}`),
		{"shared lists", sharedLists}, {"lists of one list", doubledLists}, {"shared sizes", sharedSizes},
		{"shared frames", sharedFrames}, {"shared groups", sharedGroups}, {"many keys", manyKeys},
		{"shared text", sharedText}, {"dicts in dicts", nestedDicts},
		numbered("groups", `{"version":"2.4","pg_config":{`, `"#":{"desc":"a","ranks":"[0, 1]"},`, `"0":{}},"entries":[]}`),
		numbered("wide groups", `{"version":"2.4","pg_config":{`, `"#":{"ranks":"[0, 1048575]"},`,
			`"0":{}},"entries":[]}`),
		unpacksTo("packed", `{"version":"2.4","entries":[`, `{"profiling_name":"nccl:all_reduce","state":"completed","input_sizes":[[1]],"input_dtypes":["Float"],"output_sizes":[[1]],"output_dtypes":["Float"],"retired":true,"record_id":1,"process_group":["0","default_pg"],"collective_seq_id":1},`,
			300<<20),
	},
	formats.GOAL: {
		whole("all ranks", "num_ranks 1048576\nrank 0 {\nl1: calc 1\n}\n"),
		numbered("requirements", "num_ranks 2\nrank 0 {\nl0: calc 1\n", "l#: calc 1\nl# requires l0\n", "}\nrank 1 {\n}\n"),
		numbered("chains", "num_ranks 2\nrank 0 {\nl0: calc 1\n", "l#: send 1b to 1 tag #\nl# irequires l0\n", "}\nrank 1 {\n}\n"),
		numbered("streams", "num_ranks 2\nrank 0 {\n", "l#: calc 1 cpu #\n", "}\nrank 1 {\n}\n"),
		counted("ranks that differ", perNumber("num_ranks %[2]d\n"), perNumber("rank %[1]d {\nl: calc %[1]d\n}\n"), ""),
		counted("a ring", perNumber("num_ranks %[2]d\n"), ringOfGOAL, ""),
		counted("a chain of starts", nothing, chainOfGOAL, "}\nrank 1 {\n}\n"),
		text("comments", "num_ranks 1\nrank 0 {\nl: calc 1\n} ", "/* */", ""),
		text("braces", "num_ranks 1\nrank 0 {\nl: calc 1\n", "{", ""),
		text("statements", "num_ranks 1\nrank 0 {\nl: calc 1\n", ";", "}"),
	},
	formats.AICB: {
		counted("stages", nothing, stageOfAICB, aicbColumns+"all_reduce,tp_group,2,8,a\n"),
		numbered("columns", "comm_type,comm_group,comm_group_size,msg_size,stage", ",#", "\n"),
		halves("columns that are cut", "comm_type,comm_group", ",#", ",", "\n"),
		text("rows", aicbColumns, "all_reduce,all,1048576,8,\n", ""),
		text("groups", aicbColumns, "all_reduce,dp_group,262144,8,\nall_reduce,tp_group,2,8,\nall_reduce,ep_group,2,8,\n"+
			"all_reduce,ep_dp_group,131072,8,\nall_reduce,ep_tp_group,4,8,\nall_reduce,pp_group,2,8,\n"+
			"all_reduce,embedding_group,2,8,\nall_reduce,all,1048576,8,\n", ""),
		text("head again", "", aicbColumns, "all_reduce,all,8,8,a\n"),
		whole("a wide part", "[rank0 ~ rank1048575]\n"+aicbColumns+"all_reduce,all,1048576,8,\n"),
	},
	formats.OpCSV: {
		text("one line", "op,count,root\n", "all_reduce,1048576,-1\n", ""),
		text("a long line", "op,count,root\nall_reduce,1", ",1", "\n"),
		text("a long name", "op,count,root\n", "all_reduce", ",1,1\n"),
		text("comments", "", "#\n", "all_reduce,9223372036854775807,-1\n"),
	},
	formats.SimAI: {
		{"checkpoints of nothing", func() []byte {
			b := []byte("HYBRID_TRANSFORMER model_parallel_NPU_group: 8 all_gpus: 8 checkpoint_initiates: 14000")
			for i := range 14_000 {
				b = fmt.Appendf(b, " %d", i+1)
			}
			return filled(append(b, "\n100000\n"...), []byte("a -1 0 NONE 0 0 NONE 0 0 NONE 0 0\n"), nil)
		}},
		text("keys", "HYBRID_TRANSFORMER model_parallel_NPU_group: 8 all_gpus: 8", " a: 1", "\n1\na -1 1 ALLREDUCE 8 0 NONE 0 0 NONE 0 0\n"),
		numbered("layers", "DLRM all_gpus: 8\n100000\n", "a# -1 # ALLREDUCE # # ALLTOALL # # ALLGATHER # #\n", ""),
		numbered("weights", "HYBRID_TRANSFORMER model_parallel_NPU_group: 8 all_gpus: 1048576\n100000\n",
			"a# -1 0 NONE 0 0 NONE 0 # REDUCESCATTER # 0\n", ""),
		whole("all ranks", "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 ep: 1 pp: 1048576 vpp: 1 ga: 1048576 all_gpus: 8388608\n1\nlayer -1 556000 ALLREDUCE 1 1 NONE 0 1 NONE 0 1\n"),
		whole("batches", "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 1 ep: 1 pp: 16 vpp: 1 ga: 1000000 all_gpus: 16\n1\nlayer -1 556000 ALLREDUCE 1 1 NONE 0 1 NONE 0 1\n"),
	},
	formats.NCCLLog: {
		counted("a job", nothing, callOfLog("1", "%[1]d"), ""),
		counted("a job whose ranks differ", nothing, callOfLog("%[1]d", "%[1]d"), ""),
		counted("communicators of a process", nothing, callOfLog("1", "1"), ""),
		text("cut calls", "", "h:1:1 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1\n", ""),
		text("one line", "", "h:1:1 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count 1 datatype 7 op 0 root 0 comm 0x1 [nranks=8] stream 0x3 ", ""),
		numbered("variables", "", "h:1:1 [0] NCCL INFO NCCL_A# set by environment to #\n", ""),
		numbered("splits", "h:1:1 [0] NCCL INFO comm 0x0 rank 0 nRanks 1048576 nNodes 1 localRanks 8 localRank 0 MNNVL 0\n",
			"h:1:1 [0] NCCL INFO ncclCommSplit comm 0x# rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 1 parent 0x0 splitCount 1 color # key 0 - Init COMPLETE\n", ""),
		numbered("communicators", "", "h:1:1 [0] NCCL INFO comm 0x# rank 0 nRanks 1048576 nNodes 1 localRanks 8 localRank 0 MNNVL 0\nh:1:1 [0] NCCL INFO AllReduce: opCount # sendbuff 0x1 recvbuff 0x2 count 1 datatype 7 op 0 root 0 comm 0x# [nranks=1048576] stream 0x3\n", ""),
	},
	formats.Profiler: {
		numbered("ranks", "[", `{"name":"AllReduce","cat":"COLL","ph":"b","pid":1,"ts":#,"args":{"SeqNum":1,"CommHash":1,"Rank":#,"Count":#,"Datatype":"ncclInt8"}},`, "{}]"),
		numbered("communicators", "[", `{"name":"AllReduce","cat":"COLL","ph":"b","pid":#,"ts":#,"args":{"SeqNum":1,"CommHash":#,"Rank":1048575,"Count":#,"Datatype":"ncclInt8"}},`, "{}]"),
		numbered("messages", "[", `{"name":"Send","cat":"P2P","ph":"b","pid":1,"ts":#,"args":{"CommHash":1,"Rank":0,"Peer":#,"Count":#,"Datatype":"ncclInt8"}},`, "{}]"),
		numbered("numbers", "[", `{"name":"AllReduce","cat":"COLL","ph":"b","ts":1e308,"args":{"SeqNum":9223372036854775807,"CommHash":18446744073709551615,"Rank":#,"Count":9223372036854775807,"Datatype":"ncclInt8"}},`, "{}]"),
		text("groups in groups", "[", `{"cat":"GROUP","ph":"b","ts":1},`, "{}]"),
		numbered("categories", "[", `{"cat":"C#"},`, "{}]"),
		text("words", `[{"name":"AllReduce","cat":"COLL","args":{`, `"a":nccl`, `}}]`),
		text("values in values", "", `{"a":`, ""),
		text("lists in values", `{"traceEvents":[{"args":`, "[", ""),
	},
	formats.PyTorchET: {
		numbered("wide groups", `{"schema":"1.1.1","nodes":[`, etNode("", `[],[],0,1,1048576`), "{}]}"),
		numbered("different groups", `{"schema":"1.1.1","nodes":[`, etNode("", `[],[],#,1,500000`), "{}]}"),
		numbered("groups of one name", `{"schema":"1.1.1","nodes":[`, etNode(`["a","a"],`, `[],[],0,#,2`), "{}]}"),
		numbered("groups without names", `{"schema":"1.1.1","nodes":[`, etNode("", `[],[],0,0,1048576`), "{}]}"),
		numbered("attributes", `{"schema":"1.1.1","nodes":[{"name":"record_param_comms","id":1,"attrs":[`,
			`{"name":"a#","value":#},`, `{}]}]}`),
		numbered("attributes of groups", `{"schema":"1.1.1","nodes":[`, `{"name":"record_param_comms","id":#,"attrs":[`+
			`{"name":"collective_name","value":"allreduce"},{"name":"dtype","value":"Int"},{"name":"in_msg_nelems","value":#},`+
			`{"name":"out_msg_nelems","value":#},{"name":"pg_name","value":"#"},{"name":"pg_size","value":1048576},`+
			`{"name":"global_rank_start","value":0},{"name":"global_rank_stride","value":1}]},`, `{}]}`),
		text("tensors", `{"schema":"1.1.1","nodes":[{"name":"record_param_comms","id":1,"inputs":{"values":[[`,
			`[1,1,0,4398046511104,1,"c"],`, `[1,1,0,1,1,"c"]],"allreduce"],"types":["Tensor(int)"]}}]}`),
		text("values in values", `{"schema":"1.1.1","a":`, `[`, ``),
		text("objects in nodes", `{"schema":"1.1.1","nodes":[{"inputs":`, `{"values":[`, ``),
	},
	formats.Nsys: {
		numbered("processes", `{"data":["ncclAllReduce"]}`,
			`{"Type":59,"NvtxEvent":{"Timestamp":"#","TextId":0,"GlobalTid":"#000000000","Payload":{"Json":"{\"Message size [bytes]\":#,\"No. of ranks\":1048576,\"Rank\":#,\"NCCL unique ID\":#}"}}}`, ""),
		numbered("groups", `{"data":["ncclGroupStart"]}`, `{"Type":59,"NvtxEvent":{"Timestamp":"#","TextId":0,"GlobalTid":"1"}}`, ""),
		numbered("waits", `{"data":["ncclDevKernel_AllReduce"]}`, `{"CudaEvent":{"startNs":"#0","endNs":"#1","streamId":#,"correlationId":#,"globalPid":"1","kernel":{"demangledName":1}}}`+
			`{"CudaEvent":{"startNs":"#0","endNs":"#1","streamId":#,"correlationId":#,"sync":{"syncType":"STREAM_WAIT_EVENT"}}}`, ""),
		numbered("texts", `{"data":[`, `"nccl#",`, `""]}`),
		text("values in values", `{"a":`, "[", ""),
		{"a database whose pages are shared", func() []byte {
			data, err := nsystest.SharedPages()
			if err != nil {
				panic(err)
			}
			return data
		}},
		text("rows", "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),Throughput (MBps),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name\n",
			"1,1,1,1,1,1,1,1,1,1,1,1,,,,,0,1,7,ncclKernel\n", ""),
	},
	formats.Chakra: {
		{"a long message", func() []byte {
			return append([]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, bytes.Repeat([]byte{8}, maxInput-5)...)
		}},
		{"empty messages", func() []byte { return make([]byte, maxInput) }},
		numbered("calls of all", `{"ngpus":1048576,"workload_graph":[`, `{"Id":#,"NodeType":7,"comm_type":0,"comm_size":1},`, `{}]}`),
		numbered("sends", `{"ngpus":1048576,"workload_graph":[`, `{"Id":#,"NodeType":5,"comm_dst":#,"comm_size":1},`, `{}]}`),
		numbered("a chain", `{"ngpus":8,"workload_graph":[{"Id":0},`, `{"Id":#,"NodeType":4,"runtime":1,"data_deps":[0,1,2,3,4]},`, `{}]}`),
		numbered("big numbers", `{"ngpus":1e300,"workload_graph":[`, `{"Id":-#,"NodeType":9223372036854775808,"runtime":1e300,"data_deps":[-9223372036854775808]},`, `{}]}`),
		{"nodes that stand for many", sharedDependencies},
		{"a long group", longGroup},
		text("attributes", `{"version":"1","attr":[{"name":"a"}]}{"id":1,"name":"a","type":"COMP_NODE","attr":[`, `{"name":"comm_size","int64Val":"1"},`, `{}]}`),
		text("values in values", `{"version":"1","attr":[{"name":`, "[", ""),
	},
	formats.Inspector: {
		numbered("all ranks", "", `{"header":{"id":"0x1","rank":#,"n_ranks":#0,"nnodes":1},"metadata":{"pid":#},"coll_perf":{"coll":"AllReduce","coll_sn":#,"coll_msg_size_bytes":#}}`, ""),
		counted("a job", nothing, perNumber(`{"header":{"id":"1","rank":%[1]d,"n_ranks":%[2]d},"metadata":{"pid":%[1]d},"coll_perf":{"coll":"AllReduce","coll_sn":1,"coll_msg_size_bytes":8}}`), ""),
		counted("a job whose ranks differ", nothing, perNumber(`{"header":{"id":"1","rank":%[1]d,"n_ranks":%[2]d},"metadata":{"pid":%[1]d},"coll_perf":{"coll":"AllReduce","coll_sn":%[1]d,"coll_msg_size_bytes":%[1]d}}`), ""),
		counted("a job of messages", nothing, perNumber(`{"header":{"id":"1","rank":%[1]d,"n_ranks":%[2]d},"metadata":{"pid":%[1]d},"p2p_perf":{"p2p":"Send","p2p_sn":%[1]d,"p2p_peer":0,"p2p_msg_size_bytes":%[1]d}}`), ""),
		numbered("communicators of a process", "", `{"header":{"id":"#","rank":0,"n_ranks":1},"metadata":{"pid":1},"coll_perf":{"coll":"AllReduce","coll_sn":1,"coll_msg_size_bytes":#}}`, ""),
		numbered("big numbers", "", `{"header":{"id":1,"rank":0,"n_ranks":2},"metadata":{"pid":1,"dump_timestamp_us":-9223372036854775808},"coll_perf":{"coll":"AllReduce","coll_sn":9223372036854775807,"coll_msg_size_bytes":9223372036854775807,"coll_exec_time_us":9223372036854775807}}`, ""),
		text("values in values", `{"header":`, "[", ""),
		numbered("communicators", "", `{"header":{"id":"0x#","rank":0,"n_ranks":1048576,"nnodes":1},"metadata":{"inspector_output_format_version":"v4.0","git_rev":"","rec_mechanism":"x","dump_timestamp_us":#,"hostname":"h","pid":#},"coll_perf":{"coll":"AllReduce","coll_sn":#,"coll_msg_size_bytes":1048576,"coll_exec_time_us":1,"coll_timing_source":"kernel_gpu","coll_algobw_gbs":1,"coll_busbw_gbs":1}}`+"\n", ""),
	},
}

var nativeBombs = []bomb{
	numbered("wide communicators", `{"format":"ddlemu.workload/1","ranks":1048576,"comms":[`,
		`{"name":"c#","ranks":"0-1048575"},`, `{"name":"c","ranks":"0-1"}]}`+"\n"),
	numbered("wide operations", `{"format":"ddlemu.workload/1","ranks":1048576}`+"\n",
		`{"rank":"0-1048575","op":"coll","func":"AllReduce","count":#,"type":"int8"}`+"\n", ""),
	numbered("wide odd operations", `{"format":"ddlemu.workload/1","ranks":1048576}`+"\n",
		`{"rank":"#-1048575:2","op":"calc","ns":#}`+"\n", ""),
	numbered("sends of all", `{"format":"ddlemu.workload/1","ranks":4096}`+"\n",
		`{"op":"group","ops":[{"op":"send","count":1,"type":"int8","peer":1,"relative":true},{"op":"recv","count":1,"type":"int8","peer":-1,"relative":true}]}`+"\n", ""),
	numbered("streams", `{"format":"ddlemu.workload/1","ranks":4096}`+"\n",
		`{"op":"calc","ns":1,"stream":"s#","id":#}`+"\n", ""),
	numbered("waits", `{"format":"ddlemu.workload/1","ranks":2}`+"\n",
		`{"op":"calc","ns":1,"id":#}`+"\n"+`{"op":"wait","after":[#,1]}`+"\n", ""),
	numbered("a deadlock of all", `{"format":"ddlemu.workload/1","ranks":1000}`+"\n",
		`{"op":"recv","count":#,"type":"int8","peer":1,"relative":true}`+"\n", ""),
	numbered("a wide deadlock", `{"format":"ddlemu.workload/1","ranks":1048576}`+"\n",
		`{"op":"recv","count":#,"type":"int8","peer":1,"relative":true}`+"\n", ""),
	whole("one call of all", `{"format":"ddlemu.workload/1","ranks":1048576}`+"\n"+
		`{"op":"coll","func":"AllReduce","count":1,"type":"int8"}`+"\n"),
	whole("one pair of all", `{"format":"ddlemu.workload/1","ranks":1048576}`+"\n"+
		`{"op":"group","ops":[{"op":"send","count":1,"type":"int8","peer":1,"relative":true},{"op":"recv","count":1,"type":"int8","peer":-1,"relative":true}]}`+"\n"),
	text("nested groups", `{"format":"ddlemu.workload/1","ranks":2}`+"\n", `{"op":"group","ops":[`, ""),
	halves("programs", `{"format":"ddlemu.workload/1","ranks":1048576}`+"\n", `{"rank":#,"op":"step"}`+"\n", `{"op":"step"}`+"\n", ""),
	halves("programs that wait", `{"format":"ddlemu.workload/1","ranks":65536}`+"\n", `{"rank":#,"op":"calc","ns":#}`+"\n", `{"op":"coll","func":"AllReduce","count":1,"type":"int8"}`+"\n", ""),
	halves("a long wait", `{"format":"ddlemu.workload/1","ranks":2}`+"\n", `{"op":"calc","ns":1,"id":#}`+"\n", `{"op":"wait","after":[1,2,3,4,5,6,7,8,9]}`+"\n", ""),
	text("one list", `{"format":"ddlemu.workload/1","ranks":1048576}`+"\n", `{"rank":"0-1048575:2,1-1048575:2","op":"step"}`+"\n", ""),
	numbered("strided lists", `{"format":"ddlemu.workload/1","ranks":1048576}`+"\n", `{"rank":"0-1048575:#","op":"step"}`+"\n", ""),
	numbered("keys", `{"format":"ddlemu.workload/1","ranks":2,`, `"a#":1,`, `"b":2}`),
	numbered("variables", `{"format":"ddlemu.workload/1","ranks":2,"nccl":{`, `"NCCL_A#":"1",`, `"NCCL_ALGO":"Ring"}}`+"\n"),
	whole("big numbers", `{"format":"ddlemu.workload/1","ranks":9223372036854775808}`+"\n"),
	text("a long line", `{"format":"ddlemu.workload/1","ranks":2}`+"\n"+`{"op":"calc","ns":1,"name":"`, "a", `"}`),
}

// checkBombs are workloads whose calls take long to match.
var checkBombs = []bomb{
	numbered("collectives of many ranks", `{"format":"ddlemu.workload/1","ranks":65536}`+"\n",
		`{"op":"coll","func":"AllReduce","count":#,"type":"int8"}`+"\n", ""),
	numbered("collectives of few ranks", `{"format":"ddlemu.workload/1","ranks":64}`+"\n",
		`{"op":"coll","func":"AllReduce","count":1,"type":"int8"}`+"\n", ""),
	text("a group of many ranks", `{"format":"ddlemu.workload/1","ranks":65536}`+"\n"+`{"op":"group","ops":[`,
		`{"op":"coll","func":"AllReduce","count":1,"type":"int8"},`,
		`{"op":"coll","func":"AllReduce","count":1,"type":"int8"}]}`+"\n"),
	numbered("streams that wait", `{"format":"ddlemu.workload/1","ranks":2}`+"\n",
		`{"op":"calc","ns":1,"stream":"s#"}`+"\n"+`{"op":"wait"}`+"\n", ""),
	{"streams in turn", func() []byte {
		b := []byte(`{"format":"ddlemu.workload/1","ranks":2}` + "\n")
		for n := 0; len(b) < maxInput-100; n++ {
			b = fmt.Appendf(b, `{"op":"coll","func":"AllReduce","count":1,"type":"int8","stream":"s%d"}`+"\n", n%4096)
		}
		return b
	}},
	{"communicators that wait for each other", func() []byte {
		b := []byte(`{"format":"ddlemu.workload/1","ranks":2}` + "\n")
		for n := 0; len(b) < maxInput-200; n++ {
			b = fmt.Appendf(b, `{"op":"recv","rank":0,"count":1,"type":"int8","peer":1,"stream":"s%d"}`+"\n"+
				`{"op":"recv","rank":1,"count":1,"type":"int8","peer":0,"stream":"s%[1]d"}`+"\n", n%4096)
		}
		return b
	}},
}

// detectBombs are files whose format is hard to find.
var detectBombs = []bomb{
	unpacksTo("a packed value", `{"a":"`, "a", 90<<20),
	unpacksTo("packed values", `{`, `"a":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],`, 90<<20),
	unpacksTo("packed lists", `{"a":`, "[", 90<<20),
	unpacksTo("packed blanks", ``, " ", 90<<20),
	unpacksTo("a packed line", `NCCL INFO `, "opCount 0 count 1 ", 90<<20),
	text("values in values", "", `{"a":`, ""), text("lists", "", "[", ""), text("comments", "", "#\n", "op,count,root\n"),
	text("blanks", "", "\n ", "op,count,root\n"), text("escapes", "", "\x1b[0m", " NCCL INFO "),
	whole("nothing", ""), whole("a pickle", "\x80\x02."), whole("a database", "SQLite format 3\x00"),
}

const algo = `<algo name="a" proto="Simple" nchannels="1" nchunksperloop="%d" ngpus="%d" coll="%s" inplace="0" outofplace="1" minBytes="0" maxBytes="0">`

var scheduleBombs = append([]bomb{
	numbered("wide chunks", fmt.Sprintf(algo, 1<<20, 4096, "allreduce"),
		`<gpu id="#" i_chunks="1048576" o_chunks="1048576" s_chunks="1048576"></gpu>`,
		`<gpu id="0" i_chunks="1048576" o_chunks="1048576" s_chunks="1048576"></gpu></algo>`),
	whole("one GPU", fmt.Sprintf(algo, 1<<20, 1, "custom")+
		`<gpu id="0" i_chunks="1048576" o_chunks="1048576" s_chunks="1048576"><tb id="0" send="-1" recv="-1" chan="0"><step s="0" type="cpy" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1048576" depid="-1" deps="-1" hasdep="0"/></tb></gpu></algo>`),
	{"two GPUs, many steps", manySteps},
}, xmlBombs...)

// manySteps is a schedule whose two GPUs exchange all chunks at every step.
func manySteps() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, algo, 1<<16, 2, "allreduce")
	for gpu := range 2 {
		fmt.Fprintf(&b, `<gpu id="%d" i_chunks="65536" o_chunks="65536" s_chunks="0"><tb id="0" send="%d" recv="%[2]d" chan="0">`,
			gpu, 1-gpu)
		for s := 0; b.Len() < (gpu+1)*maxInput/2-200; s += 2 {
			for i, kind := range []string{"s", "rrc"} {
				fmt.Fprintf(&b, `<step s="%d" type="%s" srcbuf="i" srcoff="0" dstbuf="i" dstoff="0" cnt="65536" depid="-1" deps="-1" hasdep="0"/>`,
					s+i, kind)
			}
		}
		b.WriteString("</tb></gpu>")
	}
	b.WriteString("</algo>")
	return b.Bytes()
}

var xmlBombs = []bomb{
	whole("entities", `<?xml version="1.0"?><!DOCTYPE algo [<!ENTITY a "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa">`+
		`<!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;">`+
		`<!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;"><!ENTITY e "&d;&d;&d;&d;&d;&d;&d;&d;">]><algo name="&e;">&e;</algo>`),
	text("nested elements", "<system>", "<pci>", ""),
	text("nested algo", "<algo>", "<gpu>", ""),
	text("nested trees", "<Algo>", "<tree>", ""),
	text("elements", "<system>", `<cpu numaid="0"/>`, "</system>"),
	numbered("attributes", "<system ", `a#="1" `, "/>"),
	numbered("PCI devices", `<system version="1"><cpu numaid="0" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">`,
		`<pci busid="0000:#:00.0" class="0x030200"><gpu dev="#" sm="90" rank="#"/></pci>`, "</cpu></system>"),
}

var yamlBombs = []bomb{
	{"aliases", func() []byte {
		var b bytes.Buffer
		b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
		for i := 1; i < 40; i++ {
			fmt.Fprintf(&b, "a%d: &a%[1]d [%s]\n", i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10))
		}
		return b.Bytes()
	}},
	{"merged aliases", func() []byte {
		var b bytes.Buffer
		b.WriteString("a0: &a0 {x: 1}\n")
		for i := 1; i < 40; i++ {
			fmt.Fprintf(&b, "a%d: &a%[1]d {<<: [%s], k%[1]d: *a%[3]d}\n", i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 10), i-1)
		}
		return b.Bytes()
	}},
	text("nested lists", "a: ", "[", ""),
	text("nested maps", "", "{a: ", ""),
	text("nested blocks", "", "- ", ""),
	numbered("keys", "", "k#: 1\n", ""),
	numbered("anchors", "", "k#: &a# [1, 2]\n", ""),
	text("one alias", "a: &a [1,2,3,4,5,6,7,8]\nb: [", "*a,", "]\n"),
	text("tabs", "a:\n", "\t", ""),
	text("a long key", "", "k", ": 1\n"),
	text("quotes", "a: \"", "\\x41", "\"\n"),
}

var fabricBombs = append([]bomb{
	whole("all nodes", "nodes: 4096\nlink: {bandwidth: 1Gbps, latency: 1us}\ngpus_per_node: 576\nnics_per_node: 64\n"),
	whole("many nodes", "nodes: 1048576\nlink: {bandwidth: 1Gbps, latency: 1us}\n"),
	whole("leaf-spine", "base: ndr400\nnodes: 4096\ntopology: {kind: leaf-spine, leaves: 4096, spines: 4096, trunk: {latency: 1us}}\n"),
	whole("fat tree", "base: ndr400\nnodes: 1024\ntopology: {kind: fat-tree, k: 16, trunk: {latency: 1us}}\n"),
	whole("torus", "base: ndr400\nnodes: 4096\ntopology: {kind: torus, dims: [16,16,16], trunk: {latency: 1us, bandwidth: 1Gbps}}\n"),
	whole("dragonfly", "base: ndr400\nnodes: 4096\ntopology: {kind: dragonfly, groups: 1024, routers: 1024, trunk: {latency: 1us}}\n"),
	numbered("overrides", "nodes: 1024\nlink: {bandwidth: 1Gbps, latency: 1us}\nlinks:\n", " - {match: '*', latency: #ns}\n", ""),
	numbered("overrides of pairs", "nodes: 1024\nlink: {bandwidth: 1Gbps, latency: 1us}\nlinks:\n", " - {match: 'node*:node*', latency: #ns}\n", ""),
	text("stars", "nodes: 1024\nlink: {bandwidth: 1Gbps, latency: 1us}\nlinks:\n - {match: '", "*n", "', latency: 1us}\n"),
	numbered("switches", "base: ndr400\nnodes: 2\ntopology:\n  kind: custom\n  attach: [{match: '*', switch: s1}]\n  switches: [", "s#, ", "s0]\n"),
	{"custom chain", func() []byte {
		var b bytes.Buffer
		b.WriteString("base: ndr400\nnodes: 2\ntopology:\n  kind: custom\n  attach: [{match: '0', switch: s0}, {match: '1', switch: s9999}]\n  switches: [")
		for i := range 10000 {
			fmt.Fprintf(&b, "s%d, ", i)
		}
		b.WriteString("]\n  links:\n")
		for i := range 9999 {
			fmt.Fprintf(&b, "   - {between: 's%d:s%d', latency: 1us}\n", i, i+1)
		}
		return b.Bytes()
	}},
	{"custom mesh", func() []byte {
		var b bytes.Buffer
		b.WriteString("base: ndr400\nnodes: 1024\ntopology:\n  kind: custom\n  attach: [{match: '*', switch: s0}]\n  switches: [")
		for i := range 150 {
			fmt.Fprintf(&b, "s%d, ", i)
		}
		b.WriteString("]\n  links:\n")
		for i := range 150 {
			for j := range i {
				fmt.Fprintf(&b, "   - {between: 's%d:s%d', latency: 1us}\n", i, j)
			}
		}
		return b.Bytes()
	}},
}, yamlBombs...)

var importBombs = []bomb{
	whole("many devices", "1048576 8 1 1 1048575 H100\n1048575\n0 1048575 2400Gbps 0.000025ms 0\n"),
	numbered("links of SimAI", "100000 8 10 10 30000 H100\n99999\n", "# 99999 2400Gbps 0.000025ms 0\n", ""),
	whole("npus", "topology: [ Ring, Switch, FullyConnected ]\nnpus_count: [ 1048576, 1048576, 1048576 ]\nbandwidth: [ 50.0, 1, 1 ]\nlatency: [ 500.0, 1, 1 ]\n"),
	whole("all connected", "topology: [ FullyConnected ]\nnpus_count: [ 1048576 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n"),
	whole("units", `{"topologies-per-dim": ["Switch","FullyConnected","Ring"], "units-count": [4096,4096,4096], "links-count": [1,1,1], "link-latency": [500,1,1], "link-bandwidth": [12.5,1,1], "router-latency": [10,1,1]}`),
	numbered("dimensions", `{"topologies-per-dim": ["Switch"], "units-count": [8`, ",#", `], "links-count": [1]}`),
	whole("tiers", "Nodes 1048576\nTiers 3\nPodsize 1048576\nTier 0\nDownlink_speed_Gbps 200\nRadix_Down 1024\nRadix_Up 1024\nDownlink_Latency_ns 1000\nTier 1\nDownlink_speed_Gbps 200\nRadix_Down 1024\nRadix_Up 1024\nDownlink_Latency_ns 1000\nTier 2\nDownlink_speed_Gbps 100\nRadix_Down 1048576\nDownlink_Latency_ns 1000\n"),
}

// pickled is a pickle of protocol 2 with a list of entries whose fields are what the memo has at place 0.
func pickled(shared []byte, entry string) []byte {
	b := []byte("\x80\x02")
	b = append(b, shared...)
	b = append(b, "q\x000"...)
	b = append(b, "}("...)
	b = append(b, key("entries")...)
	b = append(b, "]("...)
	return filled(b, []byte(entry), []byte("eu."))
}

// key is a short text in a pickle.
func key(text string) string { return "U" + string([]byte{byte(len(text))}) + text }

// entry is an entry of which a field is the shared value.
func entry(field string) string {
	return "}(" + key("profiling_name") + key("nccl:all_reduce") + key("state") + key("completed") + key("retired") + "\x88" +
		key("collective_seq_id") + "K\x01" + key(field) + "h\x00u"
}

// bigList is a list of numbers.
func bigList(bytes int, item string) []byte {
	return []byte("](" + strings.Repeat(item, bytes/len(item)) + "e")
}

func sharedLists() []byte  { return pickled(bigList(32<<10, "K\x01"), entry("input_sizes")) }
func sharedFrames() []byte { return pickled(bigList(300<<10, "}"), entry("frames")) }
func sharedGroups() []byte { return pickled(bigList(300<<10, "N"), entry("process_group")) }

// sharedSizes are entries of sizes that are a list of one long list.
func sharedSizes() []byte {
	long := bigList(200<<10, "K\x01")
	return pickled(append(append([]byte("]("), long...), "q\x01"+strings.Repeat("h\x01", 10_000)+"e"...), entry("input_sizes"))
}

// doubledLists is a list of twice a list of twice a list.
func doubledLists() []byte {
	b := []byte("]q\x00")
	for i := range 100 { // a place is one byte
		b = append(b, fmt.Sprintf("0](h%ch%[1]ceq%c", byte(i), byte(i+1))...)
	}
	return pickled(b, entry("input_sizes"))
}

// sharedText are entries whose types are a list of one long text.
func sharedText() []byte {
	long := append([]byte{'X'}, binary.LittleEndian.AppendUint32(nil, 500<<10)...)
	long = append(long, bytes.Repeat([]byte{'x'}, 500<<10)...)
	return pickled(append(append([]byte("]("), long...), "q\x01"+strings.Repeat("h\x01", 5_000)+"e"...), entry("input_dtypes"))
}

// manyKeys is a dict to which a pair is added at a time: what looks for a key at each time takes the square.
func manyKeys() []byte {
	return filled([]byte("\x80\x02}"), []byte("U\x01aK\x01s"), []byte("."))
}

// nestedDicts are dicts with one value, in which a shared one is.
func nestedDicts() []byte {
	return filled([]byte("\x80\x02}q\x000"), []byte("}(U\x01ah\x00U\x01bh\x00uq\x000"), []byte("N."))
}

// nothing adds nothing.
func nothing(b []byte, _, _ int) []byte { return b }

// ringOfGOAL is a rank that sends to the next one.
func ringOfGOAL(b []byte, i, n int) []byte {
	return fmt.Appendf(b, "rank %d {\ns: send %[1]db to %d\nr: recv %db from %[3]d\n}\n", i, (i+1)%n, (i+n-1)%n)
}

// chainOfGOAL is a task that may start when the one before it has started, and that requires another one.
func chainOfGOAL(b []byte, i, _ int) []byte {
	if i == 0 {
		return append(b, "num_ranks 2\nrank 0 {\na0: calc 1 cpu 0\n"...)
	}
	if i >= 9_900 { // a task may require 10,000
		return fmt.Appendf(b, "a%d: calc 1 cpu %d\na%[1]d irequires a9899\n", i, i%2)
	}
	return fmt.Appendf(b, "b%d: calc 1\na%[1]d: calc 1 cpu %d\na%[1]d irequires a%[3]d\na%[1]d requires b%[1]d\n", i, i%2, i-1)
}

const aicbColumns = "comm_type,comm_group,comm_group_size,msg_size,stage\n"

// stageOfAICB is the first line of a part of as many ranks as all parts may have.
func stageOfAICB(b []byte, i, n int) []byte {
	each := max(1<<20/n, 1)
	return fmt.Appendf(b, "[ pp_stage%d: [%d-%d] ]\n", i, i*each, (i+1)*each-1)
}

// etNode is a node of an execution trace of PyTorch, with a group before the name of the call and values behind it.
func etNode(group, after string) string {
	return `{"name":"record_param_comms","id":#,"inputs":{"values":[[1,1,0,8,1,"c"],1,` + group + `"allreduce",` + after +
		`],"types":["Tensor(int)"]},"outputs":{"values":[]}},`
}

// callOfLog is a line of a call in NCCL's log, on a communicator with an address of its own.
func callOfLog(count, process string) func(b []byte, i, n int) []byte {
	return perNumber("h:" + process + ":1 [0] NCCL INFO AllReduce: opCount 0 sendbuff 0x1 recvbuff 0x2 count " + count +
		" datatype 7 op 0 root 0 comm 0x%[1]x [nranks=%[2]d] stream 0x3\n")
}

// sharedDependencies are nodes of Chakra that take no time, each behind many others, and nodes behind all of them.
func sharedDependencies() []byte {
	node := func(b []byte, id, kind, micros uint64, after ...uint64) []byte {
		var one, deps []byte
		for _, d := range after {
			deps = protowire.AppendVarint(deps, d)
		}
		for field, v := range map[protowire.Number]uint64{1: id, 3: kind, 7: micros} {
			one = protowire.AppendVarint(protowire.AppendTag(one, field, protowire.VarintType), v)
		}
		one = protowire.AppendBytes(protowire.AppendTag(one, 5, protowire.BytesType), deps)
		return append(protowire.AppendVarint(b, uint64(len(one))), one...)
	}
	const tasks, empty = 1000, 200
	b, all, behind := []byte{0}, []uint64(nil), []uint64(nil)
	for id := range uint64(tasks) {
		b, all = node(b, id, 4, 1), append(all, id)
	}
	for id := range uint64(empty) {
		b, behind = node(b, tasks+id, 4, 0, all...), append(behind, tasks+id)
	}
	for id := uint64(tasks + empty); len(b) < maxInput-1000; id++ {
		b = node(b, id, 4, 1, behind...)
	}
	return b
}

// longGroup is a process group of many ranks that each node of Chakra names.
func longGroup() []byte {
	b := []byte(`{"version":"1","attr":[]}{"id":1,"name":"process_group:init","type":"METADATA_NODE","inputs":{"values":` +
		`"[{\\\"pg_name\\\":\\\"a\\\",\\\"ranks\\\":[0`)
	b = filled(b[:len(b):len(b)], []byte(",0"), bytes.Repeat([]byte{' '}, maxInput/2))[:maxInput/2]
	return filled(append(b, `]}]"}}`...), []byte(`{"type":"COMM_COLL_NODE","attr":[{"name":"comm_type","int64Val":0},`+
		`{"name":"pg_name","stringVal":"a"}]}`), nil)
}

// ranksText is a list of so many ranks as PyTorch writes it.
func ranksText(ranks int, of func(int) int) string {
	b := []byte("[")
	for i := range ranks {
		b = fmt.Appendf(b, "%d,", of(i))
	}
	return string(b[:len(b)-1]) + "]"
}

// sharedRanks are groups whose ranks are one text.
func sharedRanks() []byte {
	text := ranksText(50_000, func(i int) int { return i })
	b := binary.LittleEndian.AppendUint32([]byte("\x80\x02X"), uint32(len(text)))
	b = append(append(b, text...), "q\x000}("+key("entries")+"]"+key("pg_config")+"}("...)
	for i := 0; len(b) < maxInput-100; i++ {
		b = append(b, key(fmt.Sprint(i))+"}("+key("ranks")+"h\x00u"...)
	}
	return append(b, "uu."...)
}

// sharedListsOfRanks are groups whose ranks are one list.
func sharedListsOfRanks() []byte {
	b := []byte("\x80\x02](")
	for i := range 60_000 {
		b = append(b, 'M', byte(i), byte(i>>8))
	}
	b = append(b, "eq\x000}("+key("entries")+"]"+key("pg_config")+"}("...)
	for i := 0; len(b) < maxInput-100; i++ {
		b = append(b, key(fmt.Sprint(i))+"h\x00"...)
	}
	return append(b, "uu."...)
}

// crossedRanks are two groups of the same ranks in opposite orders.
func crossedRanks() []byte {
	const ranks = 70_000
	up, down := func(i int) int { return i }, func(i int) int { return ranks - 1 - i }
	return fmt.Appendf(nil, `{"version":"2.4","pg_config":{"0":{"ranks":%q},"1":{"ranks":%q}},"entries":[]}`,
		ranksText(ranks, up), ranksText(ranks, down))
}
