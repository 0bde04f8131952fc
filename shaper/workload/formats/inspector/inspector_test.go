// SPDX-License-Identifier: Apache-2.0

package inspector

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/overview"
)

func bytesOf(t *testing.T, w *workload.Workload) map[string]float64 {
	t.Helper()
	ix, err := w.Index()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, c := range overview.Totals(ix) {
		if c.Bytes.Least != c.Bytes.Most {
			t.Errorf("%s: %v", c.Func, c.Bytes)
		}
		out[c.Func] = float64(c.Bytes.Most)
	}
	return out
}

// The files are of the Inspectors of three versions of NCCL: see testdata/README.md.
func TestRecorded(t *testing.T) {
	collectives := map[string]float64{"AllReduce": 2*400000 + 120000, "AllGather": 2 * 4 * 120000,
		"ReduceScatter": 2 * 4 * 40000, "Reduce": 160000}
	for _, test := range []struct {
		dir      string
		small    float64 // bytes of the small AllReduce, which 2.30 leaves out
		messages float64
		timed    bool
		note     string
	}{
		{"2.28", 400, 0, false, "the calls took"},
		{"2.29", 400, 0, false, "the calls took"},
		{"2.30", 0, 40000, false, "24 messages: not in the files"},
		{"2.30-verbose", 0, 40000, true, "24 messages: not in the files"},
	} {
		names, _ := filepath.Glob(filepath.Join("testdata", test.dir, "*.log"))
		w, err := Read(input.Paths(names), input.Options{})
		if err != nil {
			t.Fatalf("%s: %v", test.dir, err)
		}
		got := bytesOf(t, w)
		for f, want := range collectives {
			if f == "AllReduce" {
				want += test.small
			}
			if got[f] != want {
				t.Errorf("%s: %s %v bytes, want %v", test.dir, f, got[f], want)
			}
		}
		if got["send"] != test.messages || got["recv"] != test.messages || w.Head.Ranks != 4 || len(w.Head.Comms) != 3 {
			t.Errorf("%s: %v; %d ranks, %d communicators", test.dir, got, w.Head.Ranks, len(w.Head.Comms))
		}
		timed := false
		for _, o := range w.Ops {
			timed = timed || o.Kind == workload.Calc
		}
		if timed != test.timed || !strings.Contains(strings.Join(w.Head.Source.Notes, "\n"), test.note) {
			t.Errorf("%s: computations: %v; notes %q", test.dir, timed, w.Head.Source.Notes)
		}
	}
}

const line = `{"header":{"id":"0x1","rank":0,"n_ranks":2,"nnodes":2},"metadata":{"hostname":"a","pid":1,"dump_timestamp_us":10},` +
	`"coll_perf":{"coll":"AllReduce","coll_sn":0,"coll_msg_size_bytes":12,"coll_exec_time_us":3}}` + "\n"

func read(text string) (*workload.Workload, error) {
	return Read([]input.File{input.Bytes("x", []byte(text))}, input.Options{OneForAll: true})
}

// What is not understood is counted, and a file may end in the middle of a record.
func TestNotUnderstood(t *testing.T) {
	text := line + `{"header":{"id":7,"rank":0,"n_ranks":2}}` + `{"header":3}` +
		strings.Replace(line, "AllReduce", "Invalid", 1) +
		strings.Replace(strings.Replace(line, `_sn":0`, `_sn":1`, 1), "AllReduce", "Broadcast", 1) + line[:100]
	w, err := read(text)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(append(w.Head.Source.Notes, w.Head.Source.Missing...), "\n")
	for _, want := range []string{
		"1 file: ends in the middle of a record", "2 records: not understood", `1 record: of "Invalid"`,
		"the root of 1 record: rank 0",
		"Broadcast of communicator comm0: not recorded, left out: 1 call before number 1",
		"only one rank was recorded: all 2 ranks",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in:\n%s", want, all)
		}
	}
	if len(w.Ops) != 2 || w.Ops[0].Count != 3 || w.Ops[0].Type != "float32" || w.Head.Source.Hardware != "2 nodes" {
		t.Errorf("%+v %+v", w.Ops, w.Head.Source)
	}
}

// Since version 4.3 of the format a record of statistics has the header and the metadata of those that follow it; 4.1
// and 4.2 have them in each record too. The layouts are those of the Inspector's README of these versions.
func TestStatistics(t *testing.T) {
	stats := func(id string, rank, dropped int) string {
		return fmt.Sprintf(
			`{"header":{"id":%q,"rank":%d,"n_ranks":2,"nnodes":1},"metadata":{"inspector_output_format_version":"v4.4","hostname":"a","pid":%d,"dump_timestamp_us":10},`+
				`"dump_stats":{"coll_records":1,"coll_dropped_total":%d,"p2p_records":0,"p2p_dropped_total":1,"proxy_records":1}}`+"\n", id, rank, rank+1, dropped)
	}
	call := func(seq, bytes int) string {
		return fmt.Sprintf(
			`{"coll_perf":{"coll":"AllReduce","coll_algo":"RING","coll_proto":"LL","coll_sn":%d,"coll_msg_size_bytes":%d,"coll_exec_time_us":3}}`+"\n", seq, bytes)
	}
	const proxy = `{"proxy_trace":{"record_type":"proxy_op","rank":0,"channel_id":0}}` + "\n"
	file := func(rank int) string {
		return stats("0x1", rank, 0) + call(0, 64) + proxy + stats("0x2", rank, 2) + call(0, 1024) +
			stats("0x1", rank, 4) + call(1, 128)
	}
	w, err := Read([]input.File{input.Bytes("0", []byte(file(0))), input.Bytes("1", []byte(file(1)))}, input.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range w.Ops {
		got = append(got, fmt.Sprintf("%s %s %d", o.Comm, o.Func, o.Count*4))
	}
	slices.Sort(got)
	if want := []string{"comm0 AllReduce 128", "comm0 AllReduce 64", "comm1 AllReduce 1024"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	notes := strings.Join(w.Head.Source.Notes, "\n")
	if !strings.Contains(notes, "16 records: overwritten before the Inspector wrote them") ||
		strings.Contains(notes, "not understood") {
		t.Errorf("notes %q", notes)
	}
	if _, err := read(call(0, 64)); err == nil || !strings.Contains(err.Error(), "no record of a collective") {
		t.Errorf("a record without its statistics: %v", err)
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"": "no record",
		strings.Replace(line, "AllReduce", "Invalid", 1): "no record of a collective",
		line + "hello": "x: byte 2",
		strings.Replace(line, `"n_ranks":2`, `"n_ranks":0`, 1):       "a communicator of 0 ranks",
		strings.Replace(line, `"rank":0`, `"rank":2`, 1):             "rank 2 of a communicator of 2",
		strings.Replace(line, `"n_ranks":2`, `"n_ranks":2e6`, 1):     "no record",
		strings.Replace(line, `"n_ranks":2`, `"n_ranks":2000000`, 1): "rank 0 of a communicator of 2000000",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(line)
	for _, name := range []string{"2.29/rank0.log", "2.30-verbose/rank1.log"} {
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Fuzz(func(t *testing.T, text string) {
		w, err := read(text)
		if err != nil || w.Head.Ranks > 1<<12 {
			return
		}
		if err := w.Validate(); err != nil && !strings.Contains(err.Error(), "must be 0 to") {
			t.Fatalf("not valid: %v", err)
		}
	})
}
