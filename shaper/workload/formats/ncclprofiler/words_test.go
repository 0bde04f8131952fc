// SPDX-License-Identifier: Apache-2.0

package ncclprofiler

import (
	"bufio"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
)

func TestWordQuoter(t *testing.T) {
	long := strings.Repeat("x", maxWord+1)
	for in, want := range map[string]string{
		`{"datatype": ncclFloat32, "Stream": 0x4142e90}`: `{"datatype": "ncclFloat32", "Stream": "0x4142e90"}`,
		`{"Stream":(nil)}`: `{"Stream":"(nil)"}`,
		`{"a": 1, "b": -1.5e3, "c": true, "d":` + "\n null}": `{"a": 1, "b": -1.5e3, "c": true, "d":` + "\n null}",
		`{"a": "x: ncclFloat32", "b\": y": z}`:               `{"a": "x: ncclFloat32", "b\": y": "z"}`,
		`{"a": "\\", "b": c}`:                                `{"a": "\\", "b": "c"}`,
		`[hello, 0x1]`:                                       `[hello, 0x1]`,
		`{"a": ` + long + `}`:                                `{"a": ` + long + `}`,
		`{"a": nccl`:                                         `{"a": "nccl"`,
	} {
		for name, r := range map[string]io.Reader{"at once": strings.NewReader(in),
			"by bytes": iotest.OneByteReader(strings.NewReader(in))} {
			got, err := io.ReadAll(bufio.NewReader(&wordQuoter{in: r}))
			if string(got) != want || err != nil {
				t.Errorf("%s: %s, %v, want %s", name, got, err, want)
			}
		}
	}
}

// NCCL 2.28 with one process for 4 GPUs: a ring of messages, the default stream on rank 3. The layout is that of its
// ext-profiler/example/print_event.cc, as a user's trace shows it.
func TestBareWords(t *testing.T) {
	const head = `[
{"name": "Group API", "cat": "GROUP_API", "ph": "b", "id": 0, "pid": 7, "tid": 1, "ts": 1467846.533691, "args": {"groupApiId": 0, "groupDepth":2}},
{"name": "KernelLaunch", "cat": "KERNEL_LAUNCH", "ph": "b", "id": 0, "pid": 7, "tid": 1, "ts": 0.000000, "args": {"groupId": 0, "Stream": 0x262ca50}},
{"name": "KernelLaunch", "cat": "KERNEL_LAUNCH", "ph": "e", "id": 0, "pid": 7, "tid": 1, "ts": 1804044.097656},
`
	text := head
	for i, m := range []struct{ rank, send, recv, stream string }{{"0", "1", "3", "0x4142e90"},
		{"1", "2", "0", "0x4142e50"}, {"2", "3", "1", "0x420aa70"}, {"3", "0", "2", "(nil)"}} {
		for _, call := range []struct{ name, peer string }{{"Send", m.send}, {"Recv", m.recv}} {
			begin := `{"name": "` + call.name +
				`", "cat": "P2P_API", "ph": "b", "id": 0, "pid": 7, "tid": 1, "ts": 0.000000, "args": {"count": 268435456, "datatype": ncclFloat32, "GraphCaptured":0, "Stream": ` + m.stream + `}},
{"name": "` + call.name + `", "cat": "P2P", "ph": "b", "id": 0, "pid": 7, "tid": 1, "ts": ` + []string{"40", "30", "20", "10"}[i] + `.5, "args": {"CommHash": 12715772615376301750, "Rank": ` + m.rank + `, "Peer": ` + call.peer + `, "Count": 268435456, "Datatype": "ncclFloat32", "nChannels": 16}},
`
			text += begin + `{"name": "` + call.name +
				`", "cat": "P2P", "ph": "e", "id": 0, "pid": 7, "tid": 1, "ts": 99.5},
{"name": "` + call.name + `", "cat": "P2P_API", "ph": "e", "id": 0, "pid": 7, "tid": 1, "ts": 99.5},
`
		}
	}
	w, err := Read([]input.File{input.Bytes("trace_12715772615376301750_0.json", []byte(text+"{}]"))}, input.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if w.Head.Ranks != 4 || len(w.Head.Source.Notes) > 0 {
		t.Errorf("%d ranks, notes %q", w.Head.Ranks, w.Head.Source.Notes)
	}
	var sends []int
	for _, o := range w.Ops {
		for _, m := range o.Ops {
			if m.Count != 268435456 || m.Type != "float32" {
				t.Errorf("%+v", m)
			}
			if m.Kind == workload.Send {
				sends = append(sends, m.Peer)
			}
		}
	}
	slices.Sort(sends)
	if !slices.Equal(sends, []int{0, 1, 2, 3}) {
		t.Errorf("messages to %v, want one to each rank: %+v", sends, w.Ops)
	}
}
