// SPDX-License-Identifier: Apache-2.0

package chakra

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

// readPattern reads the files of testdata whose names match.
func readPattern(t *testing.T, pattern string) (*workload.Workload, error) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %v, %v", pattern, names, err)
	}
	return Read(input.Paths(names), input.Options{Ranks: len(names) * 2, OneForAll: true})
}

// What the jsonizer made of a trace is read as the trace.
func TestJSONIsReadAsItsTrace(t *testing.T) {
	for _, name := range []string{"ALL_TO_ALL.?", "REDUCE_SCATTER.?", "one_metadata_node_all_types.0"} {
		want, err := readPattern(t, name+".et")
		if err != nil {
			t.Fatal(err)
		}
		got, err := readPattern(t, name+".json")
		if err != nil {
			t.Fatal(err)
		}
		want.Head.Source.File, got.Head.Source.File = "", ""
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	w, err := readPattern(t, "ALL_TO_ALL.?.json")
	if err != nil {
		t.Fatal(err)
	}
	if o := w.Ops[0]; len(w.Ops) != 1 || w.Head.Ranks != 2 || o.Func != workload.AllToAll || o.Count != 8192 ||
		o.Type != "float32" {
		t.Errorf("65536 bytes in 2 parts are %+v", w.Ops)
	}
	for _, name := range []string{"ALL_TO_ALL.0", "one_metadata_node_all_types.0", "ddp.0"} {
		text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
		if err != nil || !LikeJSON(text) {
			t.Errorf("%s.json is not recognized: %v", name, err)
		}
		trace, err := os.ReadFile(filepath.Join("testdata", name+".et"))
		if err != nil || LikeJSON(trace) {
			t.Errorf("%s.et is taken for JSON: %v", name, err)
		}
	}
}

// The jsonizer keeps the attributes of ddlemu.
func TestJSONOfOwnTrace(t *testing.T) {
	trace, err := readTrace(input.Path(filepath.Join("testdata", "ddp.0.et")), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := readTrace(input.Path(filepath.Join("testdata", "ddp.0.json")), 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	trace.file, text.file = "", ""
	if d := cmp.Diff(trace, text, cmp.AllowUnexported(node{}, *trace)); d != "" || trace.head[attrHead] == "" {
		t.Errorf("head %q: %s", trace.head, d)
	}
}

// A trace in binary whose first message has 123 bytes begins as JSON does.
func TestBinaryThatBeginsWithBrace(t *testing.T) {
	head := append([]byte{0x0a, 121}, strings.Repeat("v", 121)...)
	data := append([]byte{123}, head...)
	data = append(data, file(message(1, 7, 0, nil, coll(0, 8)...))[len(file()):]...)
	w, err := Read([]input.File{input.Bytes("x.0.et", data)}, input.Options{OneForAll: true, Ranks: 2})
	if err != nil || len(w.Ops) != 1 || LikeJSON(data) || !Like(data) {
		t.Errorf("%+v, %v", w, err)
	}
}

// The names of the schema (preserving_proto_field_name) and numbers of enumerations are read too.
func TestJSONWithTheSchemasNames(t *testing.T) {
	text := `{"version":"0.0.4","attr":[]}
{"id":7,"type":4,"duration_micros":"3"}
{"id":8,"type":"COMM_COLL_NODE","data_deps":["7"],"attr":[{"name":"comm_type","int64_val":"2"},{"name":"comm_size","uint64_val":64},
 {"name":"pg_name","string_val":"tp"},{"name":"involved_dim","bool_list":{"values":[true,false]}},{"name":"is_cpu_op","bool_val":false}]}
{"id":9,"type":42}`
	w, err := Read([]input.File{input.Bytes("x.0.json", []byte(text))}, input.Options{OneForAll: true, Ranks: 4})
	if err != nil {
		t.Fatal(err)
	}
	want := []workload.Op{
		{ID: 1, Kind: workload.Calc, Stream: streamGPU, Nanos: 3000},
		{ID: 2, Kind: workload.Coll, Stream: streamComm, After: []int{1}, Comm: workload.World,
			Func: workload.AllGather, Count: 16, Type: "float32"},
	}
	if d := cmp.Diff(want, w.Ops); d != "" {
		t.Error(d)
	}
	notes := strings.Join(w.Head.Source.Notes, "\n")
	for _, note := range []string{"involved_dim", "1 node: left out, of a type that is not known", "1 process group"} {
		if !strings.Contains(notes, note) {
			t.Errorf("no note with %q: %s", note, notes)
		}
	}
}

// The keys are those of Chakra's feeder (src/feeder/json_node.cpp), the values those of its test data.
func TestWorkloadGraph(t *testing.T) {
	text := `{"workload_graph":[
{"Id":216,"Name":"aten::mm","NodeType":4,"ctrlDeps":[3],"data_deps":[],"runtime":318,"is_cpu_op":true},
{"Id":435,"Name":"ncclKernel_Broadcast","NodeType":7,"data_deps":[216],"runtime":28,"is_cpu_op":false},
{"Id":436,"Name":"c10d::allreduce_","NodeType":7,"data_deps":[216],"is_cpu_op":false,"comm_type":0,"comm_size":8196},
{"Id":437,"Name":"send","NodeType":5,"data_deps":[436],"is_cpu_op":false,"comm_dst":1,"comm_size":4}
],"workload_name":"x","ngpus":8}`
	w, err := Read([]input.File{input.Bytes("x.0.json", []byte(text))}, input.Options{OneForAll: true})
	if err != nil {
		t.Fatal(err)
	}
	want := []workload.Op{
		{ID: 1, Kind: workload.Calc, Name: "aten::mm", Stream: streamCPU, Nanos: 318000},
		{ID: 2, Kind: workload.Calc, Name: "ncclKernel_Broadcast", Stream: streamGPU, After: []int{1}, Nanos: 28000},
		{ID: 3, Kind: workload.Coll, Stream: streamComm, After: []int{1}, Comm: workload.World,
			Func: workload.AllReduce, Count: 2049, Type: "float32"},
		{ID: 4, Kind: workload.Send, Stream: "0>1", After: []int{3}, Comm: "0>1", Peer: 1, Count: 1, Type: "float32"},
	}
	if d := cmp.Diff(want, w.Ops); d != "" || w.Head.Ranks != 8 {
		t.Errorf("%d ranks: %s", w.Head.Ranks, d)
	}
}

// The whole of a workload_graph may be larger than a record: its nodes are read one by one.
func TestLargeWorkloadGraph(t *testing.T) {
	one := `{"Id":%,"NodeType":4,"data_deps":[],"runtime":1,"Name":"` + strings.Repeat("x", 1<<20) + `"}`
	var text strings.Builder
	text.WriteString(`{"workload_graph":[`)
	for i := range 20 {
		if i > 0 {
			text.WriteByte(',')
		}
		text.WriteString(strings.Replace(one, "%", strconv.Itoa(i), 1))
	}
	text.WriteString("]}")
	w, err := Read([]input.File{input.Bytes("x.json", []byte(text.String()))}, input.Options{})
	if err != nil || len(w.Ops) != 20 {
		t.Errorf("%.200v", err)
	}
}

func TestRefusedJSON(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"cut": {`{"version":"1"}{"id":"1","type":"COMP_NODE","durati`,
			"x.0.json: byte 15: the file ends in the middle: it was cut"},
		"only a head": {`{"version":"1","attr":[]`, "it was cut"},
		"type":        {`{"version":"1"}{"id":"1","type":"COMPUTE"}`, `node 1: "COMPUTE" is no type of a node`},
		"number":      {`{"version":"1"}{"id":"one","type":"COMP_NODE"}`, `"one" is no number`},
		"two": {`{"version":"1"}{"id":"1","type":"COMP_NODE"}{"id":"1","type":"COMP_NODE"}`,
			"two nodes have the id 1"},
		"bomb": {`{"version":"1"}{"name":"` + strings.Repeat("x", 40<<20), "a record is longer than 16 MiB"},
	} {
		_, err := Read([]input.File{input.Bytes("x.0.json", []byte(test.text))},
			input.Options{OneForAll: true, Ranks: 2})
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %.200v, want %q", name, err, test.want)
		}
	}
}

// Values of every type of number are understood: a sint64 is not read as another number.
func TestNumbersOfAttributes(t *testing.T) {
	for field, value := range map[uint64]uint64{7: 64, 9: 64, 13: 64, 17: 128, 15: 128} {
		n, err := parseNode(message(1, 7, 0, nil, attr("comm_size", protowire.Number(field), value, "")))
		if err != nil || n.numbers[commSize] != 64 {
			t.Errorf("field %d: %d, %v", field, n.numbers[commSize], err)
		}
	}
}
