// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

const twoRanks = `{"format":"ddlemu.workload/1","ranks":2}` + "\n"

func TestRead(t *testing.T) {
	const text = `{"format":"ddlemu.workload/1","name":"x","ranks":4,"comms":[{"name":"tp","ranks":"0-1"},{"name":"tp","ranks":"2-3"},{"name":"dp","ranks":"0-2:2"}],"lines":5}
{"op":"calc","id":1,"ns":1000,"stream":"c"}
{"op":"coll","comm":"tp","func":"AllReduce","count":8,"type":"float32","stream":"n","after":[1]}
{"rank":"0,2","op":"group","ops":[{"op":"send","comm":"dp","count":1,"type":"int8","peer":1,"relative":true},{"op":"recv","comm":"dp","count":1,"type":"int8","peer":-1,"relative":true}]}
{"rank":3,"op":"wait"}
{"op":"step"}`
	w, err := Read("x", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	ix, err := w.Index()
	if err != nil {
		t.Fatal(err)
	}
	if p, ok := ix.Place("tp", 3); !ok || p != (Place{Rank: 3, Comm: 1, At: 1}) {
		t.Errorf("rank 3 in tp: %+v, %v", p, ok)
	}
	if _, ok := ix.Place("dp", 1); ok {
		t.Error("rank 1 is in dp")
	}
	for rank, want := range map[int]string{0: "[0 1 2 4]", 1: "[0 1 4]", 2: "[0 1 2 4]", 3: "[0 1 3 4]"} {
		var got []int
		for i, o := range ix.OfRank(rank) {
			if o != &w.Ops[i] {
				t.Errorf("operation %d of rank %d is another one", i, rank)
			}
			got = append(got, i)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("rank %d: operations %v, want %s", rank, got, want)
		}
	}
	if len(ix.Programs) != 3 || ix.Programs[0].Ranks.String() != "0,2" {
		t.Errorf("programs: %+v", ix.Programs)
	}
	p := ix.Program(0)
	if got, want := p.After(&p.Calls[1]), []Done{{0, 1}}; !cmp.Equal(got, want) || p.Streams[0] != "c" {
		t.Errorf("the all-reduce waits for %v, want %v; streams %v", got, want, p.Streams)
	}
}

// Each mistake is named with its line.
func TestReadMistakes(t *testing.T) {
	const comms = `{"format":"ddlemu.workload/1","ranks":4,"comms":[{"name":"a","ranks":"0-1"},{"name":"b","ranks":"0-3"}]}` + "\n"
	coll := func(more string) string {
		return `{"op":"coll","func":"AllReduce","count":1,"type":"int8"` + more + "}\n"
	}
	for _, test := range []struct{ text, want string }{
		{"", "f:1: the file is empty"},
		{"{}\n", `f:1: format "": this program reads ddlemu.workload/1`},
		{"id,op\n", `f:1: this is no head of a workload`},
		{`{"traceEvents":[`, `f:1: this is no head of a workload`},
		{`{"format":"ddlemu.workload/1","ranks":0}`, "f:1: ranks 0: must be 1 to"},
		{`{"format":"ddlemu.workload/1","ranks":2,"rank":3}`, `f:1: "rank" is no field: did you mean ranks`},
		{`{"format":"ddlemu.workload/1","ranks":2,"comms":[{"name":"a","ranks":"0-2"}]}`,
			"f:1: communicator a: rank 2: the workload has ranks 0 to 1"},
		{`{"format":"ddlemu.workload/1","ranks":2,"comms":[{"name":"a","ranks":"0,0"}]}`,
			"f:1: communicator a: rank 0 is there twice"},
		{`{"format":"ddlemu.workload/1","ranks":2,"comms":[{"name":"a","ranks":"0-1"},{"name":"a","ranks":"1"}]}`,
			"f:1: rank 1 is in two communicators with the name a"},
		{`{"format":"ddlemu.workload/1","ranks":2,"comms":[{"name":"a"}]}`, "f:1: communicator a has no ranks"},
		{`{"format":"ddlemu.workload/1","ranks":2,"nccl":{"NCCL_ALG":"Ring"}}`,
			"f:1: nccl: NCCL_ALG is none of the variables that a workload can have: NCCL_ALGO, NCCL_PROTO, "},
		{`{"format":"ddlemu.workload/1","ranks":2,"nccl":{"NCCL_TOPO_FILE":"/etc/x"}}`,
			"f:1: nccl: NCCL_TOPO_FILE is none of"},
		{`{"format":"ddlemu.workload/1","ranks":2,"nccl":{"NCCL_ALGO":"Ring\n"}}`,
			`f:1: nccl: NCCL_ALGO="Ring\n": must be 1 to 256 printable`},
		{`{"format":"ddlemu.workload/1","ranks":2,"nccl":{"NCCL_ALGO":""}}`, `f:1: nccl: NCCL_ALGO="": must be`},
		{`{"format":"ddlemu.workload/1","ranks":2,"nccl":{"NCCL_ALGO":"Rign"}}`,
			`f:1: nccl: NCCL_ALGO=Rign: "Rign" is no value: did you mean Ring`},
		{twoRanks + `{"op":"calc"`, "f:2: the file ends within this line: it is cut"},
		{twoRanks + "{\"op\":\"calc\"\n", "f:2: the JSON object does not end in this line"},
		{twoRanks + `{"op":"calc"} {"op":"calc"}`, "f:2: there is more than one JSON object"},
		{twoRanks + "\n" + `{"op":"calc"}`, "f:2: the line is empty"},
		{`{"format":"ddlemu.workload/1","ranks":2,"lines":2}` + "\n{\"op\":\"step\"}\n",
			"f:2: the file ends after 1 operations and its head promises 2"},
		{`{"format":"ddlemu.workload/1","ranks":2,"lines":0}` + "\n{\"op\":\"step\"}\n",
			"f:2: the head promises 0 operations"},
		{twoRanks + `{"op":"calc","nanos":3}`, `f:2: "nanos" is no field: there are id, op, `},
		{twoRanks + `{"op":"calc","steam":"a"}`, `f:2: "steam" is no field: did you mean stream?`},
		{`{"format":"ddlemu.workload/1","ranks":2,"source":{"hardwear":"x"}}`,
			`f:1: "hardwear" is no field: did you mean hardware?`},
		{twoRanks + `{"op":"group","ops":[{"op":"send","quantity":1}]}`,
			`f:2: "quantity" is no field: there are id, op, `},
		{twoRanks + `{"op":"calc","ns":"3"}`, "f:2: ns: it is a JSON string, and must be of the type int64"},
		{twoRanks + `{"op":"calc","rank":"0-2"}`, "f:2: rank 2: the workload has ranks 0 to 1"},
		{twoRanks + `{"op":"calc","rank":""}`, `f:2: ranks ""`},
		{twoRanks + `{"op":"clac"}`, `f:2: "clac" is no op: did you mean calc?`},
		{twoRanks + `{}`, "f:2: op is missing"},
		{twoRanks + `{"op":"calc","ns":-1}`, "f:2: ns -1: must be 0 to"},
		{twoRanks + `{"op":"calc","ns":2,"max_ns":1}`, "f:2: max_ns 1: must be ns, 2, or more"},
		{twoRanks + `{"op":"calc","count":2}`, "f:2: calc has no count: remove it"},
		{twoRanks + `{"op":"step","id":2}`, "f:2: step has no id: remove it"},
		{twoRanks + coll(`,"redop":"mul"`), `f:2: "mul" is no redop`},
		{twoRanks + coll(`,"root":1`), "f:2: AllReduce has no root"},
		{twoRanks + coll(`,"peer":1`), "f:2: coll has no peer"},
		{twoRanks + coll(`,"comm":"dp"`), `f:2: "dp" is no communicator: there are world`},
		{comms + coll(``), "f:2: comm is missing: there are 2"},
		{comms + coll(`,"comm":"a","rank":"0-2"`), "f:2: rank 2 is not in communicator a"},
		{comms + `{"op":"coll","func":"Broadcast","count":1,"type":"int8","comm":"a","root":2}`,
			"f:2: root 2: the communicator has ranks 0 to 1"},
		{twoRanks + `{"op":"coll","func":"Allreduce","count":1,"type":"int8"}`,
			`f:2: "Allreduce" is no func: did you mean AllReduce or Reduce?`},
		{twoRanks + `{"op":"coll","func":"AllReduce","count":1}`, "f:2: type is missing"},
		{twoRanks + `{"op":"coll","func":"AllReduce","count":1,"type":"float"}`,
			`f:2: "float" is no type: did you mean bfloat16 or float16 or float32?`},
		{twoRanks + `{"op":"coll","func":"AllReduce","count":-1,"type":"int8"}`, "f:2: count -1: must be 0 to"},
		{twoRanks + `{"op":"coll","func":"AllReduce","count":4398046511105,"type":"int8"}`,
			"f:2: count 4398046511105: must be 0 to"},
		{twoRanks + `{"op":"send","count":1,"type":"int8","peer":2}`, "f:2: peer 2: the communicator has ranks 0 to 1"},
		{twoRanks + `{"op":"send","count":1,"type":"int8","peer":-2,"relative":true}`,
			"f:2: peer -2: the communicator has 2 ranks"},
		{twoRanks + `{"op":"group"}`, "f:2: group has no ops"},
		{twoRanks + `{"op":"group","ops":[{"op":"calc"}]}`, `f:2: operation 1 of the group: "calc" in a group`},
		{twoRanks + `{"op":"group","ops":[{"op":"send","count":1,"type":"int8","rank":1}]}`,
			"f:2: operation 1 of the group: rank, id, stream and after"},
		{twoRanks + `{"op":"calc","after":[7]}`, "f:2: after 7: rank 0 has no earlier operation with this id"},
		{twoRanks + `{"op":"calc","id":7,"rank":0}` + "\n" + `{"op":"calc","after":[7]}`,
			"f:3: after 7: rank 1 has no earlier operation with this id"},
		{twoRanks + `{"op":"calc","id":7}` + "\n" + `{"op":"calc","id":7,"rank":1}`,
			"f:3: id 7: rank 1 has an earlier operation with this id"},
	} {
		_, err := Read("f", strings.NewReader(test.text))
		var line *LineError
		if err == nil || !errors.As(err, &line) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s\n got: %v\nwant: %s", test.text, err, test.want)
		}
	}
}

// endless is a file of more bytes than any memory has.
type endless struct{ text string }

func (e *endless) Read(p []byte) (int, error) {
	for n := 0; ; {
		k := copy(p[n:], e.text)
		if n += k; n == len(p) || k == 0 {
			return n, nil
		}
	}
}

// Files that try to use up the memory are refused long before.
func TestNCCLValues(t *testing.T) {
	for text, valid := range map[string]bool{
		"NCCL_ALGO=Ring": true, "NCCL_ALGO=ring,Tree": true, "NCCL_ALGO=^CollnetDirect,nvls": true,
		"NCCL_ALGO=PAT": true,
		"NCCL_ALGO=ring;allreduce:^tree;Broadcast:ring": true, "NCCL_ALGO=allgather:pat": true,
		"NCCL_PROTO=^LL128": true, "NCCL_PROTO=simple": true,
		"NCCL_ALGO=Rign": false, "NCCL_ALGO=^": false, "NCCL_ALGO=Ring,,Tree": false, "NCCL_ALGO=Simple": false,
		"NCCL_PROTO=Ring":         false,
		"NCCL_ALGO=alltoall:Ring": false, "NCCL_PROTO=Simple;allreduce:": false, "NCCL_BUFFSIZE=4194304": true,
	} {
		var h Head
		if err := h.SetNCCL(text); (err == nil) != valid {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestReadHostile(t *testing.T) {
	const big = `{"format":"ddlemu.workload/1","ranks":1048576}` + "\n"
	var lists, comms strings.Builder
	var same strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&same, `,{"name":"c%d","ranks":"0-1048575"}`, i)
		fmt.Fprintf(&lists, `{"op":"calc","rank":"%d-1048575"}`+"\n", i)
		fmt.Fprintf(&comms, `,{"name":"c%d","ranks":"%d-1048575"}`, i, i)
	}
	for name, test := range map[string]struct {
		in   io.Reader
		want string
	}{
		"a long line":      {&endless{"x"}, "f:1: the line is longer than 4194304 bytes"},
		"a long operation": {io.MultiReader(strings.NewReader(big), &endless{"x"}), "f:2: the line is longer"},
		"lists of ranks": {io.MultiReader(strings.NewReader(big), strings.NewReader(lists.String())),
			"the different lists of ranks have more than"},
		"communicators": {strings.NewReader(`{"format":"ddlemu.workload/1","ranks":1048576,"comms":[` +
			comms.String()[1:] + `]}`), "f:1: communicator c8: the different lists"},
		"equal lists": {strings.NewReader(`{"format":"ddlemu.workload/1","ranks":1048576,"comms":[` +
			same.String()[1:] + `]}`), "f:1: communicator c8: the communicators have more than"},
		"list in a group": {
			strings.NewReader(big + `{"op":"group","ops":[` + strings.Repeat(`{"op":"send","rank":"0-1048575"},`,
				100_000) + `{}]}`), "f:2: operation 1 of the group"},
		"nested groups": {
			strings.NewReader(big + strings.Repeat(`{"op":"group","ops":[`, 9000) + strings.Repeat("]}", 9000)),
			"f:2: invalid character '{' exceeded max depth"},
		"ranks of no end": {strings.NewReader(big + `{"op":"calc","rank":"` + strings.Repeat("0-1048575,", 1000) +
			`0"}`), "more than 1048576"},
		"very many ranks": {strings.NewReader(`{"format":"ddlemu.workload/1","ranks":1048577}`),
			"f:1: ranks 1048577: must be 1 to 1048576"},
		"programs, in sum":  {strings.NewReader(manyPrograms()), "the programs of the ranks have more than"},
		"streams of a rank": {strings.NewReader(manyStreams()), "rank 0 has more than 4096 streams"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Read("f", test.in)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), test.want) || len(err.Error()) > 300 {
			t.Errorf("%s: got %.300v, want %s", name, err, test.want)
		}
		if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 2000 {
			t.Errorf("%s: allocated %d MiB", name, used)
		}
	}
}

// manyPrograms has a program for each of its ranks.
func manyPrograms() string {
	var b strings.Builder
	b.WriteString(`{"format":"ddlemu.workload/1","ranks":20000}` + "\n")
	for r := range 20_000 {
		fmt.Fprintf(&b, `{"op":"calc","rank":%d}`+"\n", r)
	}
	b.WriteString(strings.Repeat(`{"op":"step"}`+"\n", 4000))
	return b.String()
}

func manyStreams() string {
	var b strings.Builder
	b.WriteString(twoRanks)
	for s := range 5000 {
		fmt.Fprintf(&b, `{"op":"calc","stream":"%d"}`+"\n", s)
	}
	return b.String()
}

// What was written is read again, equal.
func TestWriteRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorkload(t)
		var file bytes.Buffer
		if err := w.Write(&file); err != nil {
			t.Fatal(err)
		}
		got, err := Read("f", bytes.NewReader(file.Bytes()))
		if err != nil {
			t.Fatalf("%v\n%s", err, file.Bytes())
		}
		if d := cmp.Diff(w, got, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
		// A cut file is noticed wherever it is cut, except before its last line feed.
		cut := rapid.IntRange(0, file.Len()-2).Draw(t, "cut")
		if _, err := Read("f", bytes.NewReader(file.Bytes()[:cut])); err == nil {
			t.Fatalf("cut after %d of %d bytes, and nothing was noticed", cut, file.Len())
		}
	})
}

// drawWorkload draws one that is valid; calls of different ranks need not match.
func drawWorkload(t *rapid.T) *Workload {
	w := &Workload{Head: Head{Format: Format, Name: rapid.StringMatching(`[a-z<>&"é]{0,5}`).Draw(t, "name"), Ranks: 4}}
	if rapid.Bool().Draw(t, "comms") {
		w.Head.Comms = []Comm{{"a", Ranks{0, 1}}, {"a", Ranks{3, 2}}, {"b", Ranks{0, 1, 2, 3}}}
	}
	w.Head.NCCL = rapid.MapOfN(rapid.SampledFrom(NCCLVariables()[2:]), rapid.StringMatching(`[!-~]{1,9}`), 0, 2).Draw(t,
		"nccl")
	w.Head.Source.Missing = rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,3}`), 0, 2).Draw(t, "missing")
	comm := func() string {
		if w.Head.Comms == nil {
			return rapid.SampledFrom([]string{"", World}).Draw(t, "comm")
		}
		return rapid.SampledFrom([]string{"a", "b"}).Draw(t, "comm")
	}
	call := func() Op {
		o := Op{Comm: comm(), Count: rapid.Int64Range(0, 1<<39).Draw(t, "count"),
			Type: rapid.SampledFrom([]string{"float32", "int8"}).Draw(t, "type")}
		switch o.Kind = rapid.SampledFrom([]Kind{Coll, Send, Recv}).Draw(t, "kind"); {
		case o.Kind != Coll:
			o.Relative = rapid.Bool().Draw(t, "relative")
			o.Peer = rapid.IntRange(0, 1).Draw(t, "peer")
			return o
		default:
			o.Func = rapid.SampledFrom(Funcs()).Draw(t, "func")
		}
		if o.Func.Rooted() {
			o.Root = rapid.IntRange(0, 1).Draw(t, "root")
		}
		if o.Func.Reduces() {
			o.RedOp = rapid.SampledFrom([]string{"", "sum", "avg"}).Draw(t, "redop")
		}
		return o
	}
	for id := range rapid.IntRange(0, 9).Draw(t, "ops") {
		var o Op
		switch kind := rapid.SampledFrom([]Kind{Calc, Coll, Group, Wait, Step}).Draw(t, "op"); kind {
		case Calc:
			o = Op{Kind: kind, Nanos: rapid.Int64Range(0, 9).Draw(t, "ns"),
				Name: rapid.StringMatching(`[a-z]{0,3}`).Draw(t, "layer")}
		case Coll:
			o = call()
		case Group:
			o = Op{Kind: kind}
			for range rapid.IntRange(1, 3).Draw(t, "parts") {
				o.Ops = append(o.Ops, call())
			}
		default:
			o = Op{Kind: kind}
		}
		o.Ranks = rapid.SampledFrom([]Ranks{nil, {0, 1, 2, 3}}).Draw(t, "ranks")
		if o.Kind.HasStream() {
			o.Stream = rapid.SampledFrom([]string{"", "c", "n"}).Draw(t, "stream")
			o.ID = id + 1
		}
		if o.Kind != Step {
			for i := range w.Ops {
				if w.Ops[i].ID > 0 && rapid.IntRange(0, 3).Draw(t, "after") == 0 {
					o.After = append(o.After, w.Ops[i].ID)
				}
			}
		}
		w.Ops = append(w.Ops, o)
	}
	return w
}

// No file crashes the reader, and what it accepts can be written and read again.
func FuzzRead(f *testing.F) {
	f.Add([]byte(twoRanks))
	f.Add([]byte(twoRanks + `{"op":"coll","func":"AllReduce","count":1,"type":"int8","id":1}` + "\n" +
		`{"op":"wait","after":[1]}`))
	f.Add([]byte(`{"format":"ddlemu.workload/1","ranks":4,"comms":[{"name":"a","ranks":"0-2:2"}],"lines":1}` + "\n" +
		`{"rank":"0-2:2","op":"group","ops":[{"op":"send","count":1,"type":"int8","peer":1}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := Read("f", bytes.NewReader(data))
		if err != nil {
			var line *LineError
			if !errors.As(err, &line) {
				t.Fatalf("an error without a line: %v", err)
			}
			return
		}
		var file bytes.Buffer
		if err := w.Write(&file); err != nil {
			t.Fatal(err)
		}
		again, err := Read("f", &file)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(w, again, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	})
}
