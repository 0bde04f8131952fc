// SPDX-License-Identifier: Apache-2.0

package chakra

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank/perranktest"
)

// memory is files in memory.
type memory struct{ names, contents []string }

type memoryFile struct {
	bytes.Buffer
	m    *memory
	name string
}

func (f *memoryFile) Close() error {
	f.m.names, f.m.contents = append(f.m.names, f.name), append(f.m.contents, f.String())
	return nil
}

func (m *memory) create(ending string) (io.WriteCloser, error) {
	return &memoryFile{m: m, name: "x" + ending}, nil
}

// traces are the files of ranks.
func (m *memory) traces() (files []input.File) {
	for i, name := range m.names {
		if strings.HasSuffix(name, ".et") {
			files = append(files, input.Bytes(name, []byte(m.contents[i])))
		}
	}
	return files
}

// draw makes a workload with all kinds of operations.
func draw(t *rapid.T) *workload.Workload {
	n := rapid.IntRange(2, 4).Draw(t, "ranks")
	w := &workload.Workload{Head: workload.Head{Format: workload.Format, Name: "x", Ranks: n,
		Source: workload.Source{Kind: "make", Notes: []string{"a"}}}}
	if rapid.Bool().Draw(t, "comms") {
		w.Head.Comms = []workload.Comm{{Name: "all", Ranks: perrank.All(n)},
			{Name: "pair", Ranks: workload.Ranks{1, 0}}}
	}
	ids := 0
	call := func() workload.Op {
		o := workload.Op{Kind: workload.Coll, Count: rapid.Int64Range(0, 1<<30).Draw(t, "count"),
			Type: rapid.SampledFrom([]string{"float32", "bfloat16", "int8"}).Draw(t, "type")}
		if w.Head.Comms != nil {
			o.Comm = rapid.SampledFrom([]string{"all", "pair"}).Draw(t, "comm")
		}
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			o.Kind, o.Relative, o.Peer = workload.Send, true, 1
		case 1:
			o.Kind, o.Peer = workload.Recv, rapid.IntRange(0, 1).Draw(t, "peer")
		default:
			o.Func = rapid.SampledFrom(workload.Funcs()).Draw(t, "func")
			if o.Func.Rooted() {
				o.Root = 1
			}
		}
		return o
	}
	for range rapid.IntRange(0, 12).Draw(t, "ops") {
		var o workload.Op
		switch rapid.IntRange(0, 5).Draw(t, "op") {
		case 0:
			o = workload.Op{Kind: workload.Step}
		case 1:
			o = workload.Op{Kind: workload.Wait}
		case 2:
			o = workload.Op{Kind: workload.Group, Ops: []workload.Op{call(), call()}}
			o.Ops[1].Comm = o.Ops[0].Comm
			if o.Ops[0].Comm == "pair" {
				o.Ranks = workload.Ranks{0, 1}
			}
		case 3:
			o = workload.Op{Kind: workload.Calc, Nanos: rapid.Int64Range(0, 1<<40).Draw(t, "ns"), Name: "c"}
			o.MaxNanos = o.Nanos + rapid.Int64Range(0, 5).Draw(t, "more")
		default:
			o = call()
		}
		if o.Kind.HasStream() {
			o.Stream = rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "stream")
			if ids > 0 && len(o.Ranks) == 0 && o.Comm != "pair" && rapid.Bool().Draw(t, "after") {
				o.After = []int{ids}
			}
			if len(o.Ranks) == 0 && o.Comm != "pair" {
				ids++
				o.ID = ids
			}
		}
		w.Ops = append(w.Ops, o)
	}
	if err := w.Validate(); err != nil {
		t.Fatalf("%v: %+v", err, w.Ops)
	}
	return w
}

// What was written is read again, equal.
func TestWriteRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t)
		var m memory
		if err := Write(w, m.create); err != nil {
			t.Fatal(err)
		}
		got, err := Read(m.traces(), input.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(w.Head, got.Head); d != "" {
			t.Errorf("head: %s", d)
		}
		want, _ := perranktest.Split(w)
		have, err := perranktest.Split(got)
		if err != nil || cmp.Diff(want, have) != "" {
			t.Errorf("%v %s", err, cmp.Diff(want, have))
		}
	})
}

// without removes the attributes of ddlemu from a trace, as if another tool had written it.
func without(t *testing.T, file string) []byte {
	var out []byte
	for data := []byte(file); len(data) > 0; {
		message, n := protowire.ConsumeBytes(data)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		data = data[n:]
		var kept []byte
		for len(message) > 0 {
			_, _, n := protowire.ConsumeField(message)
			if n < 0 {
				t.Fatal(protowire.ParseError(n))
			}
			if !bytes.Contains(message[:n], []byte("ddlemu_")) {
				kept = append(kept, message[:n]...)
			}
			message = message[n:]
		}
		out = protowire.AppendBytes(out, kept)
	}
	return out
}

// Tools that do not know the attributes of ddlemu find the job in Chakra's own fields.
func TestOwnFieldsOfChakra(t *testing.T) {
	w := &workload.Workload{Head: workload.Head{Format: workload.Format, Ranks: 4, Comms: []workload.Comm{
		{Name: "all", Ranks: perrank.All(4)}, {Name: "tp", Ranks: workload.Ranks{0, 1}},
		{Name: "tp", Ranks: workload.Ranks{2, 3}},
	}}, Ops: []workload.Op{
		{ID: 1, Kind: workload.Calc, Stream: "c", Nanos: 5000},
		{ID: 2, Kind: workload.Calc, Stream: "c", Nanos: 7000},
		{ID: 3, Kind: workload.Coll, Stream: "n", Comm: "tp", Func: workload.ReduceScatter, Count: 8, Type: "float32",
			After: []int{1}},
		{Kind: workload.Group, Stream: "n", Ops: []workload.Op{
			{Kind: workload.Send, Comm: "all", Peer: 1, Relative: true, Count: 3, Type: "float32"},
			{Kind: workload.Recv, Comm: "all", Peer: -1, Relative: true, Count: 3, Type: "float32"},
		}},
		{Kind: workload.Step},
	}}
	var m memory
	if err := Write(w, m.create); err != nil {
		t.Fatal(err)
	}
	if last := m.contents[len(m.contents)-1]; last != `{"1":[0,1],"2":[2,3]}`+"\n" {
		t.Errorf("groups: %s", last)
	}
	var files []input.File
	for i := range 4 {
		files = append(files, input.Bytes(m.names[i], without(t, m.contents[i])))
	}
	got, err := Read(files, input.Options{})
	if err != nil {
		t.Fatal(err)
	}
	lists, err := perranktest.Split(got)
	if err != nil {
		t.Fatal(err)
	}
	rank2 := lists[2]
	if len(rank2) != 5 || rank2[0].Nanos != 5000 || !slices.Equal(rank2[1].After, []int{1}) {
		t.Errorf("computations: %+v", rank2)
	}
	if o := rank2[2]; o.Func != workload.ReduceScatter || o.Count != 8 || o.Comm != "2" ||
		!slices.Equal(o.After, []int{1}) {
		t.Errorf("collective: %+v", o)
	}
	if s, r := rank2[3], rank2[4]; s.Kind != workload.Send || s.Comm != "2>3" || r.Kind != workload.Recv ||
		r.Comm != "1>2" || r.Count != 3 ||
		!slices.Equal(r.After, []int{3}) {
		t.Errorf("messages: %+v, %+v", s, r)
	}
}

// attr is an attribute by the numbers of the schema: 7 is int32, 9 int64, 27 bool, 29 string.
func attr(name string, field protowire.Number, value uint64, text string) []byte {
	b := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
	if text != "" {
		return protowire.AppendString(protowire.AppendTag(b, 29, protowire.BytesType), text)
	}
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), value)
}

// message is a node by the numbers of the schema.
func message(id, kind, micros uint64, deps []uint64, attrs ...[]byte) []byte {
	var b []byte
	for field, v := range []uint64{1: id, 3: kind, 7: micros} {
		if v != 0 {
			b = protowire.AppendVarint(protowire.AppendTag(b, protowire.Number(field), protowire.VarintType), v)
		}
	}
	for _, d := range deps {
		b = protowire.AppendVarint(protowire.AppendTag(b, 5, protowire.VarintType), d)
	}
	// A control dependency on itself, as PyTorch's callers: it does not count.
	b = protowire.AppendVarint(protowire.AppendTag(b, 4, protowire.VarintType), id)
	for _, a := range attrs {
		b = protowire.AppendBytes(protowire.AppendTag(b, 10, protowire.BytesType), a)
	}
	return b
}

func file(messages ...[]byte) []byte {
	head := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "0.0.4")
	out := protowire.AppendBytes(nil, head)
	for _, m := range messages {
		out = protowire.AppendBytes(out, m)
	}
	return out
}

func coll(kind, size uint64) [][]byte {
	return [][]byte{attr("is_cpu_op", 27, 0, ""), attr("comm_type", 9, kind, ""), attr("comm_size", 9, size, "")}
}

func TestForeign(t *testing.T) {
	data := file(
		message(4, 7, 0, []uint64{2, 99}, coll(2, 4096)...),      // ALL_GATHER after 2, of 4096 bytes per rank
		message(1, 4, 30, nil, attr("is_cpu_op", 27, 1, "")),     // COMP on the CPU
		message(2, 1, 0, []uint64{1}),                            // METADATA after 1
		message(5, 7, 0, []uint64{4}, coll(9, 0)...),             // BARRIER
		message(6, 7, 12, nil, attr("is_cpu_op", 27, 1, "")),     // the CPU's side of a collective
		message(7, 4, 0, []uint64{5}, attr("num_ops", 9, 5, "")), // no time
	)
	if !Like(data) {
		t.Error("the file is not recognized")
	}
	w, err := Read([]input.File{input.Bytes("job.0.et", data)}, input.Options{OneForAll: true, Ranks: 4})
	if err != nil {
		t.Fatal(err)
	}
	want := []workload.Op{
		{ID: 1, Kind: workload.Calc, Stream: "cpu", Nanos: 30000},
		{ID: 2, Kind: workload.Coll, Stream: "nccl0", After: []int{1}, Comm: "world", Func: workload.AllGather,
			Count: 1024, Type: "float32"},
		{ID: 3, Kind: workload.Coll, Stream: "nccl0", After: []int{2}, Comm: "world", Func: workload.AllReduce,
			Count: 1, Type: "float32"},
		{ID: 4, Kind: workload.Calc, Stream: "cpu", Nanos: 12000},
	}
	if d := cmp.Diff(want, w.Ops); d != "" {
		t.Error(d)
	}
	if len(w.Head.Source.Notes) != 1 || !strings.Contains(w.Head.Source.Notes[0], "num_ops") {
		t.Errorf("notes: %q", w.Head.Source.Notes)
	}
}

// What is left out or guessed is counted.
func TestLeftOut(t *testing.T) {
	group := func(name string, args ...[]byte) [][]byte { return append(args, attr("pg_name", 29, 0, name)) }
	data := file(
		message(1, 7, 9, nil, attr("is_cpu_op", 27, 0, "")),       // a collective on the GPU without comm_type
		message(2, 7, 0, nil, group("unknown", coll(2, 8)...)...), // nothing lists the ranks of this group
		message(3, 7, 0, nil, coll(2, 0)...),
		message(4, 5, 0, nil, attr("comm_dst", 9, 1, "")), // a send of no bytes
		message(5, 4, 1<<60, nil),
	)
	w, err := Read([]input.File{input.Bytes("job.0.et", data)}, input.Options{OneForAll: true, Ranks: 4})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"1 node: of more than two years; two years were taken", "2 calls: of no bytes (comm_size)",
		"1 collective: the trace does not say which (comm_type); only its duration was taken",
		"1 process group: the trace does not say its ranks; all ranks were taken"}
	if d := cmp.Diff(want, w.Head.Source.Notes); d != "" {
		t.Error(d)
	}
}

// In ASTRA-sim a send ends before it is received, so that a ring may send and only then receive. With NCCL all would
// wait.
func TestReceiveAfterSend(t *testing.T) {
	var files []input.File
	for r := range uint64(2) {
		files = append(files, input.Bytes(fmt.Sprintf("x.%d.et", r), file(
			message(1, 4, 3, nil),
			message(2, 5, 0, []uint64{1}, attr("comm_dst", 7, 1-r, ""), attr("comm_size", 9, 4, "")),
			message(3, 6, 0, []uint64{2}, attr("comm_src", 7, 1-r, ""), attr("comm_size", 9, 4, "")),
			message(4, 4, 3, []uint64{2, 3}),
		)))
	}
	w, err := Read(files, input.Options{})
	if err != nil {
		t.Fatal(err)
	}
	lists, err := perranktest.Split(w)
	if err != nil {
		t.Fatal(err)
	}
	if o := lists[0][2]; o.Kind != workload.Recv || !slices.Equal(o.After, []int{1}) {
		t.Errorf("the receive is %+v, want after the computation, 1", o)
	}
	if o := lists[0][3]; !slices.Equal(o.After, []int{2, 3}) {
		t.Errorf("the computation after both is %+v", o)
	}
	if len(w.Head.Source.Notes) != 1 ||
		!strings.HasPrefix(w.Head.Source.Notes[0], "2 receives: each depends on a send") {
		t.Errorf("notes: %q", w.Head.Source.Notes)
	}
}

func TestRefused(t *testing.T) {
	good := file(message(1, 7, 0, nil, coll(0, 8)...))
	one := input.Options{OneForAll: true, Ranks: 2}
	for name, test := range map[string]struct {
		data []byte
		o    input.Options
		want string
	}{
		"cut":        {good[:len(good)-3], one, "message 2, byte 8: the file ends within a message"},
		"not chakra": {[]byte(strings.Repeat("hello world ", 40)), one, "message 1"},
		"huge message": {protowire.AppendVarint(nil, 1<<40), one,
			"a message of 1099511627776 bytes: at most 67108864 are possible"},
		"empty":       {nil, one, "the file is empty"},
		"circle":      {file(message(1, 4, 5, []uint64{2}), message(2, 4, 5, []uint64{1})), one, "circle"},
		"same id":     {file(message(1, 4, 5, nil), message(1, 4, 5, nil)), one, "two nodes have the id 1"},
		"comm_type":   {file(message(1, 7, 0, nil, coll(77, 8)...)), one, "comm_type 77 is not known"},
		"no ranks":    {good, input.Options{OneForAll: true}, "add --ranks N"},
		"not for all": {good, input.Options{Ranks: 2}, "give the traces of all"},
		"to itself": {file(message(1, 5, 0, nil, attr("comm_dst", 7, 0, ""))), one,
			"a message from rank 0 to rank 0"},
	} {
		_, err := Read([]input.File{input.Bytes("x.0.et", test.data)}, test.o)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	two := []input.File{input.Bytes("x.0.et", good), input.Bytes("x.2.et", good)}
	if _, err := Read(two, input.Options{}); err == nil || !strings.Contains(err.Error(), "none of rank 1") {
		t.Errorf("a missing rank: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(file(message(1, 7, 0, nil, coll(0, 8)...), message(2, 5, 0, []uint64{1}, attr("comm_dst", 7, 1, ""))))
	var m memory
	w := &workload.Workload{Head: workload.Head{Format: workload.Format, Ranks: 1},
		Ops: []workload.Op{{ID: 1, Kind: workload.Calc, Nanos: 3}, {Kind: workload.Step}}}
	if err := Write(w, m.create); err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(m.contents[0]))
	for _, name := range []string{"ALL_TO_ALL.0.json", "ddp.0.json", "one_metadata_node_all_types.0.json"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"workload_graph":[{"Id":1,"NodeType":7,"data_deps":[],"comm_type":0,"comm_size":8}],"ngpus":2}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		Like(data)
		LikeJSON(data)
		w, err := Read([]input.File{input.Bytes("x.0.et", data)}, input.Options{OneForAll: true, Ranks: 2})
		if err == nil && len(w.Ops) > len(data) {
			t.Errorf("%d operations of %d bytes", len(w.Ops), len(data))
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%q", err)
		}
	})
}
