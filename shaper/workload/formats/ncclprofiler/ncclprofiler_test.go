// SPDX-License-Identifier: Apache-2.0

package ncclprofiler

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/overview"
)

// The files are of the profilers of three versions of NCCL: see testdata/README.md. NCCL 2.29 tells only those since
// 2.28 of a Broadcast, and that of 2.23 of one communicator.
func TestRecorded(t *testing.T) {
	for _, test := range []struct {
		dir       string
		comms     int
		allReduce float64
		broadcast float64
		types     string // of the AllGather
		root      int    // of the Reduce
		missing   string
	}{
		{"2.23", 1, 2*400000 + 400, 0, "int8", 0, "the root of 4 records: rank 0"},
		{"2.27", 3, 2*400000 + 400 + 120000, 0, "int8", 0, "the type of an AllGather"},
		{"2.29", 3, 2*400000 + 400 + 120000, 200000, "float32", 2, "reduction operators"},
	} {
		names, _ := filepath.Glob(filepath.Join("testdata", test.dir, "*"))
		w, err := Read(input.Paths(names), input.Options{})
		if err != nil {
			t.Fatalf("%s: %v", test.dir, err)
		}
		ix, err := w.Index()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, c := range overview.Totals(ix) {
			got[c.Func] = float64(c.Bytes.Most)
		}
		for f, want := range map[string]float64{
			"AllReduce": test.allReduce, "AllGather": 2 * 4 * 120000, "ReduceScatter": 2 * 4 * 40000, "Reduce": 160000,
			"Broadcast": test.broadcast, "send": 100000 + 4*40000, "recv": 100000 + 4*40000,
		} {
			if got[f] != want {
				t.Errorf("%s: %s %v bytes, want %v", test.dir, f, got[f], want)
			}
		}
		if w.Head.Ranks != 4 || len(w.Head.Comms) != test.comms || len(w.Head.Source.Notes) > 0 ||
			!strings.Contains(strings.Join(w.Head.Source.Missing, "\n"), test.missing) {
			t.Errorf("%s: %d ranks, %+v", test.dir, w.Head.Ranks, w.Head)
		}
		for _, o := range w.Ops {
			if o.Func == workload.AllGather && o.Type != test.types || o.Func == workload.Reduce &&
				o.Root != test.root {
				t.Errorf("%s: %+v", test.dir, o)
			}
		}
	}
}

func read(name, text string, ranks int) (*workload.Workload, error) {
	return Read([]input.File{input.Bytes(name, []byte(text))}, input.Options{OneForAll: true, Ranks: ranks})
}

const (
	coll = `{"name": "AllReduce", "cat": "COLL", "ph": "b", "id": 0, "pid": 10, "ts": 12.5, "args": {"SeqNum": 0, "CommHash": 18446744073709551615, "Rank": 0, "Count": 1024, "Datatype": "ncclFloat32"}},
`
	api = `{"name": "Broadcast", "cat": "COLL_API", "ph": "b", "pid": 10, "ts": 0.0, "args": {"count": 8, "datatype": "ncclFloat16", "root": 3}},
`
)

func TestEvents(t *testing.T) {
	for name, test := range map[string]struct {
		file, text, want, note string
	}{
		"a task": {"x", "[" + coll + "{}]", "AllReduce 1024 float32 0", ""},
		"of Chrome": {"x", `{"a": [1], "traceEvents": [` + coll + "{}]}", "AllReduce 1024 float32 0",
			""},
		"a call by the file's name": {"t_77_0.json", "[" + api + "{}]", "Broadcast 8 float16 3", ""},
		"two calls in a row": {"t_77_0.json", "[" + api + api + "{}]",
			"Broadcast 8 float16 3, Broadcast 8 float16 3", ""},
		"no communicator": {"x", "[" + coll + strings.Replace(api, "b", "b", 1) + "{}]",
			"AllReduce 1024 float32 0, Broadcast 8 float16 3", ""},
		"cut": {"x", "[" + coll + coll[:50], "AllReduce 1024 float32 0",
			"1 file: ends in the middle"},
		"cut between": {"x", "[" + coll, "AllReduce 1024 float32 0", "1 file: ends in the middle"},
		"a type of the future": {"x", "[" + coll + strings.Replace(coll, "ncclFloat32", "ncclFloat4", 1) + "{}]",
			"AllReduce 1024 float32 0", "1 call: left out, the type"},
		"a function of the future": {"x", "[" + coll + strings.Replace(coll, "AllReduce", "Jump", 1) + "{}]",
			"AllReduce 1024 float32 0", `1 call: of "Jump"`},
		"a category": {"x", "[" + coll + `{"cat": "NEW", "ph": "b"}, {"cat": "PROXY"}, {}]`,
			"AllReduce 1024 float32 0", `1 event: of category "NEW"`},
		"no peer": {"x",
			"[" + coll +
				`{"name": "Send", "cat": "P2P_API", "ph": "b", "args": {"count": 1, "datatype": "ncclInt8"}}, {}]`,
			"AllReduce 1024 float32 0", "1 message: left out, the peer"},
	} {
		w, err := read(test.file, test.text, 4)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, o := range w.Ops {
			if o.Kind != workload.Calc {
				got = append(got,
					strings.TrimSpace(strings.Join([]string{string(o.Func), strconv.FormatInt(o.Count, 10), o.Type,
						strconv.FormatInt(int64(o.Root), 10)}, " ")))
			}
		}
		if text := strings.Join(got, ", "); text != test.want ||
			!strings.Contains(strings.Join(w.Head.Source.Notes, "\n"), test.note) {
			t.Errorf("%s: %s, want %s; notes %q, want %q", name, text, test.want, w.Head.Source.Notes, test.note)
		}
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"[\n{}]":             "no call: set NCCL_PROFILE_EVENT_MASK",
		"[" + coll + "hello": "invalid character 'h'",
		"[" + api + "{}]":    "no call",
		"[" + strings.Replace(coll, `"Rank": 0`, `"Rank": -1`, 1) + "{}]": "rank -1 of a communicator",
	} {
		if _, err := read("x", text, 4); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := read("x", "["+coll+"{}]", 0); err == nil || !strings.Contains(err.Error(), "add --ranks N") {
		t.Errorf("without ranks: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("[" + coll + api + "{}]")
	for _, pattern := range []string{"2.23/*", "2.29/*"} {
		names, _ := filepath.Glob(filepath.Join("testdata", pattern))
		data, err := os.ReadFile(names[0])
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data))
	}
	f.Fuzz(func(t *testing.T, text string) {
		w, err := read("t_77_0.json", text, 4)
		if err != nil || w.Head.Ranks > 1<<12 {
			return
		}
		if err := w.Validate(); err != nil && !strings.Contains(err.Error(), "must be 0 to") {
			t.Fatalf("not valid: %v", err)
		}
	})
}
