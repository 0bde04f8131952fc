// SPDX-License-Identifier: Apache-2.0

package nsys

import (
	"bytes"
	"compress/gzip"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/nsys/nsystest"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank/perranktest"
	"github.com/ddlemu/ddlemu/shaper/workload/overview"
)

func sample(name string) input.File { return input.Path(filepath.Join("testdata", name)) }

// makeDatabase makes a database of statements of SQL.
func makeDatabase(t testing.TB, statements ...string) string {
	t.Helper()
	data, err := nsystest.Database(statements...)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "job.sqlite")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// h100 are the statements of the recording of 2 H100.
func h100(t testing.TB) string {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "h100-2gpu.sql.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return "BEGIN;" + string(text) + "COMMIT"
}

// The job that was recorded in replay-*.json.gz, three times, the first time without the messages.
const replayed = `{"format":"ddlemu.workload/1","ranks":4,"comms":[{"name":"world","ranks":"0-3"},{"name":"tp","ranks":"0-1"},{"name":"tp","ranks":"2-3"}]}
{"op":"coll","comm":"world","func":"Broadcast","count":1000,"type":"float32","root":2}
{"op":"calc","ns":3000000,"id":1}
{"op":"coll","comm":"tp","func":"AllReduce","count":262144,"type":"float32","after":[1],"stream":"n"}
{"op":"coll","comm":"world","func":"AllGather","count":4096,"type":"bfloat16","stream":"n"}
{"op":"coll","comm":"world","func":"ReduceScatter","count":2048,"type":"float32","redop":"max","stream":"n"}
{"op":"coll","comm":"tp","func":"Reduce","count":100,"type":"float64","root":1,"stream":"n"}
{"op":"group","stream":"n","ops":[{"op":"send","comm":"world","relative":true,"peer":1,"count":512,"type":"int8"},{"op":"recv","comm":"world","relative":true,"peer":-1,"count":512,"type":"int8"}]}
{"op":"coll","comm":"world","func":"AllToAll","count":128,"type":"float32","stream":"n"}
{"op":"step"}
`

// What NCCL 2.29 was called for is read from what Nsight Systems recorded: functions, sizes, roots, operators, peers
// and communicators.
func TestReplayedJob(t *testing.T) {
	w, err := Read([]input.File{sample("replay-nccl2.29.json.gz")}, input.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ix, err := w.Index()
	if err != nil {
		t.Fatal(err)
	}
	job, err := workload.Read("job", strings.NewReader(replayed))
	if err != nil {
		t.Fatal(err)
	}
	want, err := job.Index()
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string]uint64{}
	for _, c := range overview.Totals(ix) {
		if c.Bytes.Least != c.Bytes.Most || c.Ranks != 4 {
			t.Errorf("%s: %+v: the ranks differ", c.Func, c)
		}
		recorded[c.Func] = uint64(c.Bytes.Most)
	}
	for _, c := range overview.Totals(want) {
		name, bytes := c.Func, 3*uint64(c.Bytes.Most)
		switch c.Func {
		case "AllToAll": // NCCL 2.29 was called for its messages of 512 bytes
			continue
		case "send", "recv":
			bytes = 2*512 + 3*4*512
		}
		if recorded[name] != bytes {
			t.Errorf("%s: %d bytes per rank, want %d", name, recorded[name], bytes)
		}
	}
	lists, err := perranktest.Split(w)
	if err != nil {
		t.Fatal(err)
	}
	var calls []workload.Op
	for _, o := range lists[3] {
		if o.Kind != workload.Calc {
			calls = append(calls, o)
		}
	}
	// As in the recording, the first calls of the communicator of all ranks come first: it connects.
	broadcast, gather, scatter, reduce := calls[0], calls[1], calls[2], calls[5]
	if broadcast.Root != 2 || broadcast.Count != 1000 || gather.Count != 2048 || scatter.RedOp != "max" ||
		scatter.Count != 2048 {
		t.Errorf("%+v, %+v, %+v", broadcast, gather, scatter)
	}
	if group := calls[3]; group.Kind != workload.Group || len(group.Ops) != 8 || group.Ops[2].Peer != 1 ||
		group.Ops[2].Kind != workload.Send {
		t.Errorf("group: %+v", group)
	}
	own, _ := ix.CommOf(reduce.Comm, 3)
	if reduce.Func != workload.Reduce || reduce.Root != 1 || own == nil || own.Ranks.String() != "2-3" ||
		len(ix.Comms) != 3 {
		t.Errorf("%+v on %v", reduce, ix.Comms)
	}
}

// NCCL before 2.25 does not say the communicator.
func TestWithoutIDsOfCommunicators(t *testing.T) {
	w, err := Read([]input.File{sample("bench-nccl2.22.json.gz")}, input.Options{Type: "bfloat16"})
	if err != nil {
		t.Fatal(err)
	}
	if o := firstCall(w); w.Head.Ranks != 2 || o.Comm != workload.World || o.Func != workload.AllReduce ||
		o.Count != 1<<19 || o.Type != "bfloat16" {
		t.Errorf("%d ranks, %+v", w.Head.Ranks, o)
	}
	if missing := strings.Join(w.Head.Source.Missing, "\n"); !strings.Contains(missing,
		"on which communicator a call is") {
		t.Error(missing)
	}
	_, err = Read([]input.File{sample("replay-nccl2.22.json.gz")}, input.Options{})
	if err == nil || !strings.Contains(err.Error(), "NCCL before 2.25 does not say on which communicator a call is") {
		t.Errorf("communicators of different sizes: %v", err)
	}
}

func firstCall(w *workload.Workload) workload.Op {
	for _, o := range w.Ops {
		if o.Kind != workload.Calc {
			return o
		}
	}
	return workload.Op{}
}

// Kernels are those of the calls that launched them, and the computation waits for a call on its own stream.
func TestKernels(t *testing.T) {
	w, err := Read([]input.File{input.Path(makeDatabase(t, h100(t)))}, input.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	lists, err := perranktest.Split(w)
	if err != nil || len(lists) != 2 {
		t.Fatal(len(lists), err)
	}
	// Kernels of NCCL ran on rank 0 at 127.005 to 127.759 ms and at 137.578, those of the model began after the first.
	rank0 := lists[0]
	if len(rank0) != 9 || rank0[0].Kind != workload.Group || len(rank0[0].Ops) != 4 ||
		rank0[0].Ops[2].Count != 196608 || rank0[0].Ops[2].Peer != 1 {
		t.Fatalf("%+v", rank0)
	}
	if c := rank0[1]; c.Kind != workload.Calc || len(c.After) != 1 || c.After[0] != 1 ||
		c.Nanos != 137_578_291-127_758_742 {
		t.Errorf("the computation between the first two calls: %+v", c)
	}
	if c := lists[1][0]; c.Name != "starts later" || c.Nanos != 126_940_209-126_336_614+135 {
		t.Errorf("rank 1 starts %+v", c)
	}
	notes := strings.Join(w.Head.Source.Notes, "\n")
	if !strings.Contains(notes, "4 calls: left out, the recording ends before it ran") {
		t.Error(notes)
	}
}

// One of two processes stands for both, unless it sends and receives; a trace without NVTX or without payloads is
// refused with what it has; and so are reports.
func TestRefused(t *testing.T) {
	whole := h100(t)
	bare := makeDatabase(t, whole, "UPDATE NVTX_EVENTS SET binaryData = NULL")
	kernels := makeDatabase(t, whole, "DELETE FROM NVTX_EVENTS")
	broken := makeDatabase(t, whole, "UPDATE NVTX_EVENTS SET binaryData = X'0102' WHERE binaryData IS NOT NULL")
	alone := makeDatabase(t, whole, "DELETE FROM NVTX_EVENTS WHERE globalTid = 281477409407121",
		"DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE globalPid = 281477409406976")
	view := makeDatabase(t,
		"CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS start FROM n")
	other := makeDatabase(t, "CREATE TABLE x(y)")
	data, err := os.ReadFile(bare)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(t.TempDir(), "cut.sqlite")
	if err := os.WriteFile(cut, data[:len(data)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		file input.File
		o    input.Options
		want string
	}{
		"without payloads": {input.Path(bare), input.Options{},
			"calls of NCCL (Recv 22, Send 22) without sizes: export them with `nsys export --type sqlite --include-blobs=true"},
		"2023.4.4": {sample("bench-2023.4.4.sqlite.gz"), input.Options{},
			"calls of NCCL (AllReduce 28) without sizes"},
		"without NVTX": {input.Path(kernels), input.Options{},
			"kernels of NCCL (SendRecv 10) and none of its ranges, so no sizes: record with `nsys profile -t cuda,nvtx`"},
		"broken payloads": {input.Path(broken), input.Options{}, "the sizes of none are understood (46 payloads)"},
		"one rank": {input.Path(alone), input.Options{OneForAll: true},
			"the ranks of a job with sends and receives do not do the same"},
		"not for all": {input.Path(alone), input.Options{}, "the job had 2 ranks, and the recordings are of 1"},
		"three ranks": {input.Path(makeDatabase(t, whole)), input.Options{Ranks: 3},
			"the job had 3 ranks, and the recordings are of 2"},
		"a view":           {input.Path(view), input.Options{}, "this is no export of Nsight Systems"},
		"another database": {input.Path(other), input.Options{}, "this is no export of Nsight Systems"},
		"cut":              {input.Path(cut), input.Options{}, "the file is cut or damaged"},
		"no database": {input.Bytes("x", []byte(sqliteMagic+strings.Repeat("x", 4096))), input.Options{},
			"the file is cut or damaged"},
		"cut JSON": {input.Bytes("x", []byte(`{"data":["ncclAllReduce"]}`+"\n"+`{"Type":59,"NvtxEvent":{"Ty`)),
			input.Options{}, "it was cut"},
		"empty JSON": {input.Bytes("x", []byte(`{"data":["a"]}`)), input.Options{},
			"no call and no kernel of NCCL"},
		"trace report": {sample("cuda_gpu_trace.csv"), input.Options{},
			"has kernels of NCCL (AllReduce 1, SendRecv 1) and no sizes"},
		"sum report": {sample("cuda_gpu_kern_sum.csv"), input.Options{},
			"has kernels of NCCL (AllReduce 1000, ReduceScatter 12) and no sizes"},
		"report of 2021": {sample("gpukernsum-2021.csv"), input.Options{},
			"has kernels of NCCL (AllGather 3) and no sizes"},
		"another report": {
			input.Bytes("x.csv", []byte("Time (%),Total Time (ns),Num Calls,Name\n1,2,3,cudaMalloc\n")),
			input.Options{}, "without kernels of NCCL"},
	} {
		_, err := Read([]input.File{test.file}, test.o)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// Files of one rank each are a job: the ranks are those of the communicator of all.
func TestFilePerRank(t *testing.T) {
	whole := h100(t)
	only := func(thread, process string) input.File {
		return input.Path(makeDatabase(t, whole, "DELETE FROM NVTX_EVENTS WHERE globalTid <> "+thread,
			"DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE globalPid <> "+process))
	}
	first, second := only("281477392629904", "281477392629760"), only("281477409407121", "281477409406976")
	w, err := Read([]input.File{second, first}, input.Options{})
	if err != nil {
		t.Fatal(err)
	}
	lists, err := perranktest.Split(w)
	if err != nil || lists[0][0].Kind != workload.Group || lists[1][0].Kind != workload.Group {
		t.Errorf("no rank starts later, because two files have no clock in common: %v %+v", err, lists)
	}
	if missing := strings.Join(w.Head.Source.Missing, "\n"); !strings.Contains(missing,
		"by how much a rank of one file begins later") {
		t.Error(missing)
	}
	if _, err := Read([]input.File{first, first}, input.Options{}); err == nil ||
		!strings.Contains(err.Error(), "two processes are rank 0") {
		t.Errorf("the same file twice: %v", err)
	}
}

// The JSON has kernels, launches and waits too. The call of one rank stands for both; the computation after the wait
// waits for it, and what ran beside it does not.
func TestJSONWithKernels(t *testing.T) {
	text := `{"data":["ncclAllReduce","ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)","cuLaunchKernelEx","gemm","ncclCommInitRankConfig"]}
{"Type":59,"NvtxEvent":{"Type":59,"Timestamp":"10","EndTimestamp":"20","TextId":4,"GlobalTid":"292568055813839","DomainId":"1","Payload":{"BinaryData":[{"SchemaId":"16777227","Data":"CwAAAAAAAAACAAAAAQAAAAEAAAAAAAAA"}]}}}
{"Type":59,"NvtxEvent":{"Type":59,"Timestamp":"100000","EndTimestamp":"110000","TextId":0,"GlobalTid":"292568055813839","DomainId":"1","Payload":{"BinaryData":[{"SchemaId":"16777221","Data":"CwAAAAAAAAAAABAAAAAAAAIAAAAAAAAA"}]}}}
{"Type":59,"NvtxEvent":{"Type":59,"Timestamp":"300000","EndTimestamp":"310000","TextId":0,"GlobalTid":"292568055813839","DomainId":"1","Payload":{"BinaryData":[{"SchemaId":"16777221","Data":"CwAAAAAAAAAAABAAAAAAAAIAAAAAAAAA"}]}}}
{"Type":48,"TraceProcessEvent":{"startNs":"105000","endNs":"106000","correlationId":7,"eventClass":1,"name":"2","globalTid":"292568055813839"}}
{"Type":48,"TraceProcessEvent":{"startNs":"305000","endNs":"306000","correlationId":17,"eventClass":1,"name":"2","globalTid":"292568055813839"}}
{"Type":79,"CudaEvent":{"startNs":"120000","endNs":"180000","correlationId":7,"streamId":"20","globalPid":"292568055152640","kernel":{"demangledName":"1","shortName":"1"}}}
{"Type":79,"CudaEvent":{"startNs":"125000","endNs":"150000","correlationId":8,"streamId":"7","globalPid":"292568055152640","kernel":{"demangledName":"3","shortName":"3"}}}
{"Type":106,"CudaEvent":{"startNs":"115000","endNs":"115100","correlationId":9,"streamId":"7","globalPid":"292568055152640","sync":{"syncType":"SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT"}}}
{"Type":79,"CudaEvent":{"startNs":"190000","endNs":"290000","correlationId":10,"streamId":"7","globalPid":"292568055152640","kernel":{"demangledName":"3","shortName":"3"}}}
{"Type":79,"CudaEvent":{"startNs":"320000","endNs":"330000","correlationId":17,"streamId":"20","globalPid":"292568055152640","kernel":{"demangledName":"1","shortName":"1"}}}
{"Type":79,"CudaEvent":{"startNs":"400000","endNs":"410000","correlationId":99,"streamId":"20","globalPid":"292568055152640","kernel":{"demangledName":"1","shortName":"1"}}}
{"Type":79,"CudaEvent":{"startNs":[]}}
`
	w, err := Read([]input.File{input.Bytes("x.json", []byte(text))}, input.Options{OneForAll: true})
	if err != nil {
		t.Fatal(err)
	}
	call := workload.Op{Kind: workload.Coll, Stream: "nccl0", Comm: "comm0", Func: workload.AllReduce, Count: 1 << 18,
		Type: "float32", RedOp: "max"}
	first, second := call, call
	first.ID, second.ID, second.After = 1, 4, []int{3}
	want := []workload.Op{
		first,
		// until 150000, beside the call
		{ID: 2, Kind: workload.Calc, Stream: perrank.ComputeStream, Nanos: 30_000},
		{ID: 3, Kind: workload.Calc, Stream: perrank.ComputeStream, Nanos: 140_000, After: []int{1}}, // from 180000
		second,
	}
	if d := cmp.Diff(want, w.Ops); d != "" || w.Head.Ranks != 2 {
		t.Errorf("%d ranks: %s", w.Head.Ranks, d)
	}
	notes := strings.Join(w.Head.Source.Notes, "\n")
	if !strings.Contains(notes, "1 kernel of NCCL: left out, no call has launched it") ||
		!strings.Contains(notes, "1 event: not understood") {
		t.Error(notes)
	}
}

// Payloads that are exported as JSON are read too.
func TestIsKernel(t *testing.T) {
	for name, want := range map[string]string{
		"ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)":                 "AllReduce",
		"ncclDevKernel_SendRecv(ncclDevKernelArgs)":                            "SendRecv",
		"ncclSymDevKernel_AllGather_LL(ncclSymDevArgs)":                        "AllGather",
		"ncclSymkDevKernel_AllReduce_RSxLD_AGxST_sum_f32(ncclSymkDevWorkArgs)": "AllReduce",
		"void cutlass::Kernel(int)":                                            "", "ncclAllReduce": "",
	} {
		if is := isKernel(name); is != (want != "") || is && kernelKind(name) != want {
			t.Errorf("%s: %v, %q", name, is, kernelKind(name))
		}
	}
}

func TestReadText(t *testing.T) {
	p, ok := readText(
		`{"NCCL communicator ID":"10,862,765,398,172,683,776","Message size [bytes]":4096,"Reduction operation":"Max","x":[1]}`)
	if !ok || p.values[fieldComm] != 10862765398172683776 || p.values[fieldBytes] != 4096 || p.values[fieldOp] != 2 ||
		p.has[fieldPeer] {
		t.Errorf("%+v, %v", p, ok)
	}
	for _, text := range []string{"", "{", `{"x":1}`, `{"Message size [bytes]":"many"}`} {
		if p, ok := readText(text); ok {
			t.Errorf("%s: %+v", text, p)
		}
	}
}

// A damaged file is refused with one line, or read as far as it is valid.
func TestDamagedFiles(t *testing.T) {
	var files [][]byte
	for _, f := range []input.File{sample("bench-nccl2.22.json.gz"), sample("bench-2023.4.4.sqlite.gz"),
		input.Path(makeDatabase(t, h100(t)))} {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, data)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		data := bytes.Clone(files[i%len(files)])
		for range 1 + random.IntN(20) {
			data[random.IntN(len(data))] = byte(random.IntN(256))
		}
		if random.IntN(4) == 0 {
			data = data[:random.IntN(len(data))]
		}
		w, err := Read([]input.File{input.Bytes("x", data)}, input.Options{OneForAll: true, Ranks: 2})
		if err == nil {
			err = w.Validate()
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%d: %q", i, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"bench-nccl2.22.json.gz", "bench-2023.4.4.sqlite.gz", "cuda_gpu_trace.csv"} {
		r, err := sample(name).Open()
		if err != nil {
			f.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add(
		[]byte(
			`{"data":["ncclSend"]}{"Type":59,"NvtxEvent":{"Timestamp":"5","TextId":0,"GlobalTid":"281477392629904","Payload":{"BinaryData":[{"SchemaId":"16777225","Data":"AAIAAAAAAAABAAAAAAAAAA=="}]}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		Like(data)
		Foreign(data)
		w, err := Read([]input.File{input.Bytes("x", data)}, input.Options{OneForAll: true, Ranks: 2})
		if err == nil {
			err = w.Validate()
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q", err)
		}
	})
}
