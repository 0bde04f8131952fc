// SPDX-License-Identifier: Apache-2.0

// Package bigfiles makes files of any size in the formats that `ddlemu workload convert` reads, and tests that it reads
// them in bounded memory.
package bigfiles

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// maker writes a file of at least so many bytes, which is what unpacked ones have.
type maker func(w *bufio.Writer, size int64)

// Formats are the names of the formats.
func Formats() []string { return slices.Sorted(maps.Keys(makers)) }

// Make writes a file of a format of at least size bytes, counted before it is packed.
func Make(format string, out io.Writer, size int64) error {
	if makers[format] == nil {
		return fmt.Errorf("%q is no format: there are %v", format, Formats())
	}
	var packed *gzip.Writer
	if format == "kineto.gz" {
		packed = gzip.NewWriter(out)
		out = packed
	}
	w := bufio.NewWriterSize(out, 1<<16)
	makers[format](w, size)
	if err := w.Flush(); err != nil {
		return err
	}
	if packed != nil {
		return packed.Close()
	}
	return nil
}

// makers are the formats. The dense ones have nothing but calls.
var makers = map[string]maker{
	"kineto": kineto(20), "kineto.gz": kineto(20), "kineto-dense": kineto(0),
	"pytorchet": executionTrace(50), "pytorchet-dense": executionTrace(0),
	"chakra": chakra, "goal": goal, "simai": simai, "aicb": aicb, "opcsv": opcsv, "nccllog": ncclLog,
	"nsys.json": nsysJSON(20), "nsys-dense.json": nsysJSON(0), "nsys.sqlite": nsysSQLite(20),
	"nsys-dense.sqlite": nsysSQLite(0),
	"chakra.json":       chakraJSON, "chakra-graph.json": chakraGraph, "flightrec.json": flightJSON,
	"flightrec.pickle": flightPickle,
	"inspector":        inspector, "ncclprofiler": ncclProfiler,
}

// repeat calls write with 0, 1, 2, ... until it has written so many bytes together.
func repeat(size int64, write func(i int) int) {
	for i, n := 0, int64(0); n < size; i++ {
		n += int64(write(i))
	}
}

// kineto has so many operators with a kernel for each call. A step has 1000 calls.
func kineto(others int) maker {
	return func(w *bufio.Writer, size int64) {
		fmt.Fprint(w,
			`{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"NVIDIA H100"}],"distributedInfo":{"backend":"nccl","rank":0,"world_size":8},"traceEvents":[`)
		ts, id := 1000, 0
		event := func(cat, name string, tid, start, dur int, args string) int {
			id++
			n, _ := fmt.Fprintf(w,
				`{"ph":"X","cat":%q,"name":%q,"pid":1,"tid":%d,"ts":%d.123,"dur":%d.5,"args":{"External id":%d,"Record function id":0,"Ev Idx":%d,%s}},`+"\n",
				cat, name, tid, start, dur, id, id, args)
			return n
		}
		repeat(size, func(i int) (n int) {
			if i%1000 == 0 {
				n += event("user_annotation", fmt.Sprintf("ProfilerStep#%d", i/1000), 1, ts, (200+others*30)*1000-10,
					`"Input Dims":[]`)
			}
			for range others {
				n += event("cpu_op", "aten::mm", 1, ts, 20,
					`"Sequence number":17,"Fwd thread id":0,"Input Dims":[[4096,4096],[4096,4096]],"Input type":["c10::BFloat16","c10::BFloat16"]`)
				n += event("cuda_runtime", "cudaLaunchKernel", 1, ts+5, 3,
					fmt.Sprintf(`"cbid":211,"correlation":%d`, id+1))
				n += event("kernel",
					"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x256_32x3_tn_align8>(cutlass_80_tensorop::Params)", 7, ts+15, 10,
					fmt.Sprintf(
						`"queued":0,"device":0,"context":1,"stream":7,"correlation":%d,"registers per thread":238,"shared memory":81920,"blocks per SM":1.2,"grid":[16,10,1],"block":[256,1,1]`, id))
				ts += 30
			}
			call := `"Collective name":"allreduce","dtype":"BFloat16","In msg nelems":4194304,"Out msg nelems":4194304,"Group size":8,"In split size":"[]","Out split size":"[]","Process Group Name":"0","Process Group Description":"default_pg","Process Group Ranks":"[0, 1, 2, 3, 4, 5, 6, 7]"`
			n += event("cpu_op", "record_param_comms", 1, ts, 60, call)
			n += event("cuda_runtime", "cudaLaunchKernelExC", 1, ts+20, 5,
				fmt.Sprintf(`"cbid":430,"correlation":%d`, id+1))
			n += event("kernel", "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20,
				ts+50, 100, fmt.Sprintf(`"device":0,"stream":20,"correlation":%d,%s`, id, call))
			n += event("cuda_runtime", "cudaStreamWaitEvent", 1, ts+180, 2,
				fmt.Sprintf(`"cbid":147,"correlation":%d`, id+1))
			ts += 200
			return n
		})
		fmt.Fprint(w, `{"ph":"M","name":"process_name"}]}`)
	}
}

// executionTrace has so many operators with each call.
func executionTrace(others int) maker {
	return func(w *bufio.Writer, size int64) {
		fmt.Fprint(w, `{"schema":"1.1.1-chakra.0.0.4","pid":1,"time":"2026","start_ts":1,"nodes":[`)
		id := 1
		repeat(size, func(i int) (n int) {
			for range others {
				id++
				k, _ := fmt.Fprintf(w,
					`{"id":%d,"name":"aten::mm","ctrl_deps":2,"inputs":{"values":[[%d,2,0,16777216,2,"cuda:0"],[7,8,0,16777216,2,"cuda:0"]],"shapes":[[4096,4096],[4096,4096]],"types":["Tensor(c10::BFloat16)","Tensor(c10::BFloat16)"]},"outputs":{"values":[[9,10,0,16777216,2,"cuda:0"]],"shapes":[[4096,4096]],"types":["Tensor(c10::BFloat16)"]},"attrs":[{"name":"rf_id","type":"uint64","value":%d},{"name":"fw_parent","type":"uint64","value":0},{"name":"seq_id","type":"int64","value":-1},{"name":"scope","type":"uint64","value":0},{"name":"tid","type":"uint64","value":1},{"name":"op_schema","type":"string","value":"aten::mm(Tensor self, Tensor mat2) -> Tensor"}]},`+"\n", id, id, id)
				n += k
			}
			id++
			k, _ := fmt.Fprintf(w,
				`{"id":%d,"name":"record_param_comms","ctrl_deps":2,"inputs":{"values":[[7,8,0,4194304,2,"cuda:0"],33,["0","default_pg"],0,"allreduce",[],[],0,1,8],"shapes":[[4194304],[],[],[],[],[],[],[],[],[]],"types":["Tensor(c10::BFloat16)","Int"]},"outputs":{"values":[[7,8,0,4194304,2,"cuda:0"]]},"attrs":[{"name":"rf_id","type":"uint64","value":%d},{"name":"collective_name","type":"string","value":"allreduce"},{"name":"dtype","type":"string","value":"BFloat16"},{"name":"in_msg_nelems","type":"uint64","value":4194304},{"name":"out_msg_nelems","type":"uint64","value":4194304},{"name":"in_split_size","type":"string","value":"[]"},{"name":"out_split_size","type":"string","value":"[]"},{"name":"global_rank_start","type":"uint64","value":0},{"name":"global_rank_stride","type":"uint64","value":1},{"name":"pg_name","type":"string","value":"0"},{"name":"pg_desc","type":"string","value":"default_pg"},{"name":"pg_size","type":"uint64","value":8}]},`+"\n", id, id)
			return n + k
		})
		fmt.Fprint(w, `{"id":1,"name":"[pytorch|profiler|execution_trace|process]"}],"finish_ts":2}`)
	}
}

// chakra is a chain of computations, each tenth of which is a collective.
func chakra(w *bufio.Writer, size int64) {
	write := func(message []byte) int {
		data := append(protowire.AppendVarint(nil, uint64(len(message))), message...)
		n, _ := w.Write(data)
		return n
	}
	text := func(b []byte, number protowire.Number, s string) []byte {
		return protowire.AppendString(protowire.AppendTag(b, number, protowire.BytesType), s)
	}
	varint := func(b []byte, number protowire.Number, v int) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, number, protowire.VarintType), uint64(v))
	}
	attribute := func(b []byte, name string, number protowire.Number, v int) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, 10, protowire.BytesType),
			varint(text(nil, 1, name), number, v))
	}
	write(text(nil, 1, "0.0.4"))
	repeat(size, func(i int) int {
		b := text(varint(nil, 1, i+1), 2, fmt.Sprintf("layer%d_forward_computation", i))
		if i > 0 {
			b = varint(b, 5, i)
		}
		if i%10 == 9 {
			b = attribute(attribute(varint(b, 3, 7), "comm_type", 9, 0), "comm_size", 9, 1<<20)
		} else {
			b = attribute(varint(varint(b, 3, 4), 7, 100), "num_ops", 9, 12345)
		}
		return write(attribute(b, "is_cpu_op", 27, 0))
	})
}

// goal is a ring of 8 ranks: each computes, sends and receives in turn.
func goal(w *bufio.Writer, size int64) {
	const ranks = 8
	fmt.Fprintf(w, "num_ranks %d\n", ranks)
	for r := range ranks {
		fmt.Fprintf(w, "rank %d {\n", r)
		repeat(size/ranks, func(i int) int {
			n, _ := fmt.Fprintf(w,
				"l%d: calc 1000 cpu 0\nl%d: send 1048576b to %d tag 3 cpu 0 nic 0\nl%d: recv 1048576b from %d tag 3 "+
					"cpu 0 nic 0\n",
				3*i, 3*i+1, (r+1)%ranks, 3*i+2, (r+ranks-1)%ranks)
			k, _ := fmt.Fprintf(w, "l%d requires l%d\n", 3*i+1, 3*i)
			if i > 0 {
				m, _ := fmt.Fprintf(w, "l%d requires l%d\n", 3*i, 3*i-1)
				k += m
			}
			return n + k
		})
		fmt.Fprint(w, "}\n")
	}
}

func simai(w *bufio.Writer, size int64) {
	const line = "layer%d\t-1\t1000\tALLREDUCE\t1048576\t1000\tALLREDUCE\t1048576\t1000\tALLREDUCE\t1048576\t100\n"
	fmt.Fprintf(w, "HYBRID_TRANSFORMER model_parallel_NPU_group: 2 ep: 1 pp: 1 vpp: 1 ga: 1 all_gpus: 8\n%d\n",
		size/int64(len(line)+5)+1)
	repeat(size, func(i int) int {
		n, _ := fmt.Fprintf(w, line, i)
		return n
	})
}

func aicb(w *bufio.Writer, size int64) {
	fmt.Fprint(w,
		"comm_type,comm_group,comm_group_size,msg_size,stage,dst,src,additional,_elapsed_time,algbw,busbw,count\n")
	repeat(size, func(i int) int {
		n, _ := fmt.Fprintf(w,
			"CommType.all_reduce,CommGroup.tp_group,2,16777216,forward.MegatronRowLinear%d,None,None,None,0.134,None,None,1\n"+
				"CommType.computation,None,None,(1),forward.MegatronRowLinear%d,None,None,None,0.4,None,None,1\n", i, i)
		k, _ := fmt.Fprint(w,
			"CommType.all_reduce,CommGroup.dp_group,4,16777216,backward,None,None,None,0.134,None,None,1\n")
		return n + k
	})
}

func opcsv(w *bufio.Writer, size int64) {
	repeat(size, func(i int) int {
		n, _ := fmt.Fprintf(w, "allreduce,%d,-1\n", 1000+i%5000)
		return n
	})
}

func ncclLog(w *bufio.Writer, size int64) {
	for r := range 2 {
		fmt.Fprintf(w,
			"host:%d:%d [%d] NCCL INFO ncclCommInitRank comm 0xa%d0 rank %d nranks 2 cudaDev %d nvmlDev %d busId "+
				"%d000 commId 0x54fe - Init COMPLETE\n", 100+r, 100+r, r, r, r, r, r, r+1)
	}
	repeat(size, func(i int) (n int) {
		for r := range 2 {
			k, _ := fmt.Fprintf(w,
				"host:%d:%d [%d] NCCL INFO AllReduce: opCount %x sendbuff 0x7f5e28000000 recvbuff 0x7f5e28000000 "+
					"count 1048576 datatype 7 op 0 root 0 comm 0xa%d0 [nranks=2] stream 0x5582bd2b1cf0\n",
				100+r, 100+r, r, i, r)
			n += k
		}
		return n
	})
}
