// SPDX-License-Identifier: Apache-2.0

package inputs

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/ddlemu/ddlemu/shaper/workload/formats"
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
		numbered("requirements", "num_ranks 2\nrank 0 {\n", "l#: calc 1\nl# requires l1\n", "}\nrank 1 {\n}\n"),
		numbered("chains", "num_ranks 2\nrank 0 {\nl0: calc 1\n", "l#: send 1b to 1 tag #\nl# irequires l0\n", "}\nrank 1 {\n}\n"),
		numbered("streams", "num_ranks 2\nrank 0 {\n", "l#: calc 1 cpu #\n", "}\nrank 1 {\n}\n"),
		numbered("ranks", "num_ranks 40000\n", "rank # {\nl1: calc 1\n}\n", ""),
	},
	formats.OpCSV: {text("one line", "op,count,root\n", "all_reduce,1048576,-1\n", "")},
	formats.SimAI: {
		whole("all ranks", "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 ep: 1 pp: 1048576 vpp: 1 ga: 1048576 all_gpus: 8388608\n1\nlayer -1 556000 ALLREDUCE 1 1 NONE 0 1 NONE 0 1\n"),
		whole("batches", "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 1 ep: 1 pp: 16 vpp: 1 ga: 1000000 all_gpus: 16\n1\nlayer -1 556000 ALLREDUCE 1 1 NONE 0 1 NONE 0 1\n"),
	},
	formats.NCCLLog: {
		numbered("communicators", "", "h:1:1 [0] NCCL INFO comm 0x# rank 0 nRanks 1048576 nNodes 1 localRanks 8 localRank 0 MNNVL 0\nh:1:1 [0] NCCL INFO AllReduce: opCount # sendbuff 0x1 recvbuff 0x2 count 1 datatype 7 op 0 root 0 comm 0x# [nranks=1048576] stream 0x3\n", ""),
	},
	formats.Nsys: {
		text("rows", "Start (ns),Duration (ns),CorrId,GrdX,GrdY,GrdZ,BlkX,BlkY,BlkZ,Reg/Trd,StcSMem (MB),DymSMem (MB),Bytes (MB),Throughput (MBps),SrcMemKd,DstMemKd,Device,Ctx,Strm,Name\n",
			"1,1,1,1,1,1,1,1,1,1,1,1,,,,,0,1,7,ncclKernel\n", ""),
	},
	formats.Chakra: {
		{"a long message", func() []byte {
			return append([]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, bytes.Repeat([]byte{8}, maxInput-5)...)
		}},
		{"empty messages", func() []byte { return make([]byte, maxInput) }},
	},
	formats.Inspector: {
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
