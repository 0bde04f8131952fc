// SPDX-License-Identifier: Apache-2.0

package bigfiles

import (
	"bufio"
	"database/sql"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// The process and the thread of the recordings of Nsight Systems, and the communicator.
const (
	nsysProcess = 281562033684480
	nsysThread  = nsysProcess + 5189
	nsysComm    = 0x84a9c2f1
)

// initPayload and callPayload are payloads of NCCL 2.26: the communicator, then ranks and rank, or bytes and operator.
func initPayload() []byte {
	data := binary.LittleEndian.AppendUint64(nil, nsysComm)
	return append(binary.LittleEndian.AppendUint32(data, 8), make([]byte, 12)...)
}

func callPayload() []byte {
	data := binary.LittleEndian.AppendUint64(nil, nsysComm)
	return append(binary.LittleEndian.AppendUint64(data, 1<<20), make([]byte, 8)...)
}

// nsysJSON has so many kernels of the computation with each call.
func nsysJSON(others int) maker {
	return func(w *bufio.Writer, size int64) {
		fmt.Fprint(w,
			`{"data":["","ncclCommInitRank","ncclAllReduce","ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)","void cutlass::Kernel2<gemm>","cudaLaunchKernelExC","cudaLaunchKernel"]}`+"\n")
		ts, correlation := 1000, 0
		nvtx := func(name int, payload []byte) int {
			n, _ := fmt.Fprintf(w,
				`{"Type":59,"NvtxEvent":{"Type":59,"Timestamp":"%d","Payload":{"BinaryData":[{"SchemaId":"16777222","Data":"%s"}]},"GlobalTid":"%d","EndTimestamp":"%d","TextId":%d,"DomainId":"1","NsTime":true}}`+"\n",
				ts, base64.StdEncoding.EncodeToString(payload), nsysThread, ts+90, name)
			return n
		}
		kernel := func(call, name, stream, after, took int) int {
			correlation++
			n, _ := fmt.Fprintf(w,
				`{"Type":48,"TraceProcessEvent":{"startNs":"%d","endNs":"%d","correlationId":%d,"globalTid":"%d","name":"%d","returnValue":0,"eventClass":0}}`+"\n",
				ts+5, ts+15, correlation, nsysThread, call)
			m, _ := fmt.Fprintf(w,
				`{"Type":79,"CudaEvent":{"startNs":"%d","endNs":"%d","correlationId":%d,"globalPid":"%d","deviceId":0,"contextId":1,"streamId":"%d","eventClass":3,"kernel":{"shortName":"%d","demangledName":"%d","gridX":16,"gridY":10,"gridZ":1,"blockX":256,"blockY":1,"blockZ":1,"registersPerThread":238}}}`+"\n",
				ts+after, ts+after+took, correlation, nsysProcess, stream, name, name)
			return n + m
		}
		nvtx(1, initPayload())
		repeat(size, func(int) (n int) {
			ts += 200
			for range others {
				ts += 40000
				n += kernel(6, 4, 7, 100, 30000)
			}
			ts += 200
			return n + nvtx(2, callPayload()) + kernel(5, 3, 20, 100, 100000)
		})
	}
}

const nsysTables = `PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT, globalTid INTEGER, textId INTEGER, domainId INTEGER, jsonText TEXT, binaryData TEXT);
CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER, contextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER, demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, gridX INTEGER, gridY INTEGER, gridZ INTEGER);
CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER);
INSERT INTO StringIds VALUES (1, 'ncclCommInitRank'), (2, 'ncclAllReduce'), (3, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL'), (4, 'gemm'), (5, 'cudaLaunchKernelExC');`

// nsysSQLite has so many kernels of the computation with each call.
func nsysSQLite(others int) maker {
	return func(w *bufio.Writer, size int64) {
		dir, err := os.MkdirTemp("", "bigfiles-")
		must(err)
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, "x.sqlite")
		db, err := sql.Open("sqlite", path)
		must(err)
		db.SetMaxOpenConns(1)
		_, err = db.Exec(nsysTables)
		must(err)
		tx, err := db.Begin()
		must(err)
		insert := func(table string, columns int) *sql.Stmt {
			s, err := tx.Prepare("INSERT INTO " + table + " VALUES (?" + strings.Repeat(", ?", columns-1) + ")")
			must(err)
			return s
		}
		ranges, kernels, launches := insert("NVTX_EVENTS", 9), insert("CUPTI_ACTIVITY_KIND_KERNEL", 12),
			insert("CUPTI_ACTIVITY_KIND_RUNTIME", 7)
		row := func(s *sql.Stmt, values ...any) {
			_, err := s.Exec(values...)
			must(err)
		}
		ts, correlation := 1000, 0
		kernel := func(name, stream, after, took int) {
			correlation++
			row(launches, ts+5, ts+15, 0, nsysThread, correlation, 5, 0)
			row(kernels, ts+after, ts+after+took, 0, 1, stream, correlation, nsysProcess, name, name, 16, 10, 1)
		}
		nvtx := func(name int, payload []byte) {
			head := binary.LittleEndian.AppendUint64(nil, 1)
			head = binary.LittleEndian.AppendUint64(head, 16777222)
			head = binary.LittleEndian.AppendUint64(head, uint64(len(payload)))
			row(ranges, ts, ts+90, 59, nil, nsysThread, name, 1, nil,
				append(append(head, make([]byte, 8)...), payload...))
		}
		nvtx(1, initPayload())
		repeat(size, func(int) int {
			ts += 200
			for range others {
				ts += 40000
				kernel(4, 7, 100, 30000)
			}
			ts += 200
			nvtx(2, callPayload())
			kernel(3, 20, 100, 100000)
			return 190 + others*81 // about what the rows take
		})
		must(tx.Commit())
		must(db.Close())
		in, err := os.Open(path)
		must(err)
		defer in.Close()
		_, err = io.Copy(w, in)
		must(err)
	}
}

// must stops the test: a file cannot be made.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// chakraJSON is as Chakra's jsonizer writes it.
func chakraJSON(w *bufio.Writer, size int64) {
	fmt.Fprint(w, "{\n  \"version\": \"0.0.4\",\n  \"attr\": []\n}")
	repeat(size, func(i int) int {
		deps := ""
		if i > 0 {
			deps = fmt.Sprintf("  \"dataDeps\": [\n    \"%d\"\n  ],\n", i)
		}
		kind, attributes := "COMP_NODE", `{"name": "num_ops", "int64Val": "12345"}`
		if i%10 == 9 {
			kind, attributes = "COMM_COLL_NODE",
				"{\n      \"name\": \"comm_type\",\n      \"int64Val\": \"0\"\n    },\n    {\n      \"name\": \"comm_size\",\n      \"int64Val\": \"1048576\"\n    }"
		}
		n, _ := fmt.Fprintf(w,
			"{\n  \"id\": \"%d\",\n  \"name\": \"layer%d_forward_computation\",\n  \"type\": \"%s\",\n%s  "+
				"\"durationMicros\": \"100\",\n  \"attr\": [\n    {\n      \"name\": \"is_cpu_op\",\n      "+
				"\"boolVal\": false\n    },\n    %s\n  ]\n}",
			i+1, i, kind, deps, attributes)
		return n
	})
}

// chakraGraph is as Chakra's feeder reads it.
func chakraGraph(w *bufio.Writer, size int64) {
	fmt.Fprint(w, `{"ngpus": 8, "workload_graph": [`)
	repeat(size, func(i int) int {
		deps, kind, comm := "", 4, ""
		if i > 0 {
			deps = fmt.Sprint(i)
			fmt.Fprint(w, ",")
		}
		if i%10 == 9 {
			kind, comm = 7, `, "comm_type": 0, "comm_size": 1048576`
		}
		n, _ := fmt.Fprintf(w,
			`{"Id": %d, "Name": "layer%d_forward_computation", "NodeType": %d, "data_deps": [%s], "runtime": 100, "is_cpu_op": false%s}`+"\n", i+1, i, kind, deps, comm)
		return n
	})
	fmt.Fprint(w, "]}")
}

// frame is a line of the program in a dump of a flight recorder.
const frame = "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"

func flightJSON(w *bufio.Writer, size int64) {
	fmt.Fprint(w,
		`{"version": "2.10", "rank": 0, "nccl_version": "2.26.2", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1, 2, 3, 4, 5, 6, 7]"}}, "entries": [`)
	repeat(size, func(i int) int {
		if i > 0 {
			fmt.Fprint(w, ", ")
		}
		n, _ := fmt.Fprintf(w,
			`{"frames": [{"name": "all_reduce", "filename": %q, "line": 2810}, {"name": "step", "filename": "/job/train.py", "line": 17}], "record_id": %d, "pg_id": 0, "process_group": ["0", "default_pg"], "collective_seq_id": %d, "p2p_seq_id": 0, "op_id": %d, "profiling_name": "nccl:all_reduce", "time_created_ns": %d, "input_sizes": [[1048576]], "input_dtypes": ["Float"], "output_sizes": [[1048576]], "output_dtypes": ["Float"], "state": "completed", "time_discovered_started_ns": null, "retired": true, "timeout_ms": 600000, "is_p2p": false}`,
			frame, i, i+1, i+1, 1795714796044647000+i*100000)
		return n
	})
	fmt.Fprint(w, "]}")
}

// flightPickle is the same as a pickle of protocol 2. As PyTorch does, it writes a text once and takes it from the
// memo then.
func flightPickle(w *bufio.Writer, size int64) {
	var b []byte
	memo := map[string]byte{}
	text := func(s string) {
		at, known := memo[s]
		if known {
			b = append(b, 'h', at)
			return
		}
		at = byte(len(memo))
		memo[s] = at
		b = append(binary.LittleEndian.AppendUint32(append(b, 'X'), uint32(len(s))), s...)
		b = append(b, 'q', at)
	}
	number := func(n int) { b = binary.LittleEndian.AppendUint64(append(b, 0x8a, 8), uint64(n)) }
	list := func(items ...func()) {
		b = append(b, ']', '(')
		for _, item := range items {
			item()
		}
		b = append(b, 'e')
	}
	str := func(s string) func() { return func() { text(s) } }
	sizes := func() { list(func() { list(func() { number(1 << 20) }) }) }
	types := func() { list(str("Float")) }
	item := func(key string, value func()) {
		text(key)
		value()
	}
	dict := func(fill func()) {
		b = append(b, '}', '(')
		fill()
		b = append(b, 'u')
	}
	code := func(name, file string, line int) func() {
		return func() {
			dict(func() { item("name", str(name)); item("filename", str(file)); item("line", func() { number(line) }) })
		}
	}
	flush := func() int {
		n, _ := w.Write(b)
		b = b[:0]
		return n
	}
	b = append(b, 0x80, 2, '}', '(')
	item("version", str("2.10"))
	item("pg_config", func() {
		dict(func() {
			item("0", func() {
				dict(func() {
					item("name", str("0"))
					item("desc", str("default_pg"))
					item("ranks", str("[0, 1, 2, 3, 4, 5, 6, 7]"))
				})
			})
		})
	})
	text("entries")
	b = append(b, ']', '(')
	repeat(size, func(i int) int {
		if i%1000 == 999 {
			b = append(b, 'e', '(')
		}
		dict(func() {
			item("frames", func() { list(code("all_reduce", frame, 2810), code("step", "/job/train.py", 17)) })
			for _, one := range []struct {
				key   string
				value int
			}{{"record_id", i}, {"pg_id", 0}, {"collective_seq_id", i + 1}, {"p2p_seq_id", 0}, {"op_id", i + 1},
				{"time_created_ns", 1795714796044647000 + i*100000}} {
				item(one.key, func() { number(one.value) })
			}
			item("process_group", func() { text("0"); text("default_pg"); b = append(b, 0x86) })
			item("profiling_name", str("nccl:all_reduce"))
			item("input_sizes", sizes)
			item("input_dtypes", types)
			item("output_sizes", sizes)
			item("output_dtypes", types)
			item("state", str("completed"))
			item("retired", func() { b = append(b, 0x88) })
			item("is_p2p", func() { b = append(b, 0x89) })
		})
		return flush()
	})
	b = append(b, 'e', 'u', '.')
	flush()
}

// inspector is the calls of one rank.
func inspector(w *bufio.Writer, size int64) {
	repeat(size, func(i int) int {
		n, _ := fmt.Fprintf(w,
			`{"header":{"id":"0x62dd32e5228518","comm_name":"unknown","rank":0,"n_ranks":8,"nnodes":1},"metadata":{"inspector_output_format_version":"v4.0","git_rev":"","rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":%d,"hostname":"vm","pid":24358},"coll_perf":{"coll":"AllReduce","coll_sn":%d,"coll_msg_size_bytes":%d,"coll_exec_time_us":382,"coll_timing_source":"kernel_gpu","coll_algobw_gbs":0.074322,"coll_busbw_gbs":0.111483}}`+"\n",
			1795714793936240+i*500, i, 4096+i%5000*4)
		return n
	})
}

// ncclProfiler is the calls of one rank, with events of the proxy.
func ncclProfiler(w *bufio.Writer, size int64) {
	fmt.Fprint(w, "[\n")
	repeat(size, func(i int) int {
		ts := 1000 + i*500
		n, _ := fmt.Fprintf(w,
			`{"name": "AllReduce", "cat": "COLL_API", "ph": "b", "id": %[1]d, "pid": 25127, "tid": 1, "ts": %[2]d.110001, "args": {"count": 60000, "datatype": "ncclFloat16", "root": 0, "GraphCaptured": 0, "Stream": "0x5599cb08fe00"}},
{"name": "AllReduce", "cat": "COLL", "ph": "b", "id": %[1]d, "pid": 25127, "tid": 1, "ts": %[2]d.610001, "args": {"SeqNum": %[1]d, "CommHash": 11647624823274377780, "Rank": 0, "Count": 60000, "Datatype": "ncclFloat16", "Algorithm": "RING", "Protocol": "LL", "nChannels": 2}},
{"name": "ScheduleSend", "cat": "PROXY", "ph": "b", "id": %[1]d, "pid": 25127, "tid": 1, "ts": %[2]d.710001, "args": {"Channel": 0, "Peer": 1, "Steps": 8, "ChunkSize": 131072}},
{"name": "ScheduleSend", "cat": "PROXY", "ph": "e", "id": %[1]d, "pid": 25127, "tid": 1, "ts": %[2]d.810001},
{"name": "AllReduce", "cat": "COLL", "ph": "e", "id": %[1]d, "pid": 25127, "tid": 1, "ts": %[2]d.910001},
{"name": "AllReduce", "cat": "COLL_API", "ph": "e", "id": %[1]d, "pid": 25127, "tid": 1, "ts": %[2]d.920001},
`, i, ts)
		return n
	})
	fmt.Fprint(w, "{}]\n")
}
