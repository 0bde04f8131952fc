// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/input"
	"github.com/ddlemu/ddlemu/shaper/workload/formats/perrank/perranktest"
)

// samples are the files of testdata, with what they are read with.
var samples = []struct {
	file string
	kind Kind
	o    input.Options
	ops  int
}{
	{"ddp.pt.trace.json", Kineto, input.Options{OneForAll: true}, 14},
	{"ring.goal", GOAL, input.Options{}, 5},
	{"gpt.txt", SimAI, input.Options{}, 14},
	{"aicb.csv", AICB, input.Options{}, 14},
	{"ops.csv", OpCSV, input.Options{Ranks: 2}, 4},
	{"nccl.log", NCCLLog, input.Options{}, 5},
	{"nccl_trace_rank_0", FlightRec, input.Options{OneForAll: true}, 13},
	{"inspector.jsonl", Inspector, input.Options{OneForAll: true}, 8},
	{"ncclprofiler.json", Profiler, input.Options{OneForAll: true, Ranks: 4}, 17},
}

func TestSamples(t *testing.T) {
	for _, s := range samples {
		f := input.Path(filepath.Join("testdata", s.file))
		if kind, err := Detect(f); kind != s.kind || err != nil {
			t.Errorf("%s is %s, %v, want %s", s.file, kind, err, s.kind)
		}
		w, err := Read([]input.File{f}, "", s.o)
		if err != nil {
			t.Errorf("%s: %v", s.file, err)
			continue
		}
		if !slices.Contains(Kinds(), s.kind) {
			t.Errorf("%s is not in the list of formats", s.kind)
		}
		if len(w.Ops) != s.ops || w.Head.Source.Kind != string(s.kind) || w.Head.Source.File != s.file ||
			len(w.Head.Source.Missing) == 0 {
			t.Errorf("%s: %d operations, want %d; source %+v", s.file, len(w.Ops), s.ops, w.Head.Source)
		}
		var native bytes.Buffer
		if err := Write(w, Native, func(string) (io.WriteCloser, error) {
			return nopCloser{&native},
				nil
		}); err != nil {
			t.Fatal(err)
		}
		again, err := Read([]input.File{input.Bytes("w", native.Bytes())}, "", input.Options{})
		if err != nil || cmp.Diff(w, again) != "" {
			t.Errorf("%s: written and read again: %v %s", s.file, err, cmp.Diff(w, again))
		}
	}
}

// --ranks is for files that do not say how many ranks there are: another number than theirs is refused.
func TestOtherRanks(t *testing.T) {
	for _, s := range samples {
		if s.o.Ranks > 0 { // it does not say
			continue
		}
		f := []input.File{input.Path(filepath.Join("testdata", s.file))}
		want, err := Read(f, "", s.o)
		if err != nil {
			t.Fatal(err)
		}
		o := s.o
		o.Ranks = want.Head.Ranks
		if got, err := Read(f, "", o); err != nil || cmp.Diff(want.Head.Comms, got.Head.Comms)+
			cmp.Diff(want.Ops, got.Ops) != "" {
			t.Errorf("%s, with its own ranks: %v, or another job", s.file, err)
		}
		for _, o.Ranks = range []int{1, want.Head.Ranks - 1, want.Head.Ranks * 4} {
			_, err := Read(f, "", o)
			if text := fmt.Sprintf("%s says %d ranks, --ranks %d: leave it out", f[0].Name, want.Head.Ranks,
				o.Ranks); err == nil || err.Error() != text {
				t.Errorf("%s: %v, want %q", s.file, err, text)
			}
		}
	}
	const entry = `{"profiling_name":"nccl:all_reduce","state":"completed","input_sizes":[[1]],"input_dtypes":["Float"],` +
		`"output_sizes":[[1]],"output_dtypes":["Float"],"record_id":1,"process_group":["1","tp"],"collective_seq_id":1}`
	tp := []input.File{input.Bytes("x",
		[]byte(`{"version":"2.4","pg_config":{"1":{"desc":"tp","ranks":"[0, 1]"}},"entries":[`+entry+`]}`))}
	w, err := Read(tp, "", input.Options{OneForAll: true, Ranks: 8})
	if err != nil || len(w.Head.Comms) != 4 ||
		!slices.Contains(w.Head.Source.Notes, "no call is of all 8 ranks (--ranks): the largest group has 2") {
		t.Errorf("a part of the ranks: %v %+v", err, w)
	}
	graph := []input.File{
		input.Bytes("x",
			[]byte(`{"workload_graph":[{"Id":1,"NodeType":7,"data_deps":[],"comm_type":0,"comm_size":8}],"ngpus":2}`))}
	if _, err := Read(graph, "", input.Options{OneForAll: true, Ranks: 8}); err == nil ||
		err.Error() != "x says 2 ranks, --ranks 8: leave it out" {
		t.Errorf("chakra: %v", err)
	}
	dp := []input.File{input.Path("testdata/astrasim/model.0.et"), input.Path("testdata/astrasim/model.1.et"),
		input.Path("testdata/astrasim/model.2.et"), input.Path("testdata/astrasim/model.3.et")}
	if _, err := Read(dp, "", input.Options{Ranks: 8}); err == nil ||
		err.Error() != "testdata/astrasim/model.0.et (with 3 files more) says 4 ranks, --ranks 8: leave it out" {
		t.Errorf("four files: %v", err)
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// All samples go through Chakra unchanged.
func TestThroughChakra(t *testing.T) {
	for _, s := range samples {
		w, err := Read([]input.File{input.Path(filepath.Join("testdata", s.file))}, s.kind, s.o)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := Write(w, Chakra,
			func(part string) (io.WriteCloser, error) { return os.Create(filepath.Join(dir, "x"+part)) }); err != nil {
			t.Fatal(err)
		}
		names, _ := filepath.Glob(filepath.Join(dir, "x.*.et"))
		got, err := Read(input.Paths(names), "", input.Options{})
		if err != nil {
			t.Fatal(err)
		}
		want, _ := perranktest.Split(w)
		have, _ := perranktest.Split(got)
		if d := cmp.Diff(want, have) + cmp.Diff(w.Head, got.Head); d != "" {
			t.Errorf("%s: %s", s.file, d)
		}
	}
}

func TestDetect(t *testing.T) {
	for text, want := range map[string]Kind{
		`{"format":"ddlemu.workload/1","ranks":2}`:                                                 Native,
		`[{"ph":"X","name":"a"}]`:                                                                  Kineto,
		`{"traceEvents": [{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce"}]}`:            Kineto,
		`{"header":{"id":"0x1"},"metadata":{"inspector_output_format_version":"v4.0"`:              Inspector,
		`{"name":"a","traceEvents":[{"name":"Group","cat":"GROUP","ph":"b","args":{"groupId":0}}]`: Profiler,
		"[\n{}]": Profiler, // of a communicator without calls
		`{"schema":"1.1.0-chakra.0.0.4","pid":1,"nodes":[{"id":1}]}`: PyTorchET,
		"// a comment\nnum_ranks 2\n":                                GOAL,
		"MICRO\n19\nmicro_test":                                      SimAI,
		"allreduce,1,-1\n":                                           OpCSV,
		"\x07\n\x050.0.4J\x08\x01":                                   Chakra,
		"{\n  \"version\": \"0.0.4\"\n}{\n  \"id\": \"1\",\n  \"type\": \"COMP_NODE\"\n}":      Chakra,
		`{"workload_graph": [{"Id": 1}]}`:                                                      Chakra,
		"SQLite format 3\x00\x10\x00":                                                          Nsys,
		`{"data":["ncclAllReduce"]}`:                                                           Nsys,
		"\nProcessing [a.sqlite] with [b.py]... \nTime (%),Total Time (ns),Instances,Name\n":   Nsys,
		"Name,Start (ns),Duration (ns),CorrId\n":                                               Nsys,
		"[2026-11-25 16:46:28.5] vm:1:1 [0] NCCL INFO AllReduce: opCount 0 count 1 datatype 7": NCCLLog,
		"h:1:2 [0] NCCL \x1b[1mINFO\x1b[0m Bootstrap: Using eth0\n":                            NCCLLog,
		"h:1:2 [0] NCCL INFO Bootstrap: Using eth0\n":                                          NCCLLog,
		`{"comm_lib_version":"","entries":[{"collective_seq_id":1}]}`:                          FlightRec,
		`{"entries":[],"pg_config":{}}`:                                                        FlightRec,
		"\x80\x02}(X\x07\x00\x00\x00versionq\x00X\x07\x00\x00\x00entriesq\x01":                 FlightRec,
		// of PyTorch 2.2
		"\x80\x02](}(X\x05\x00\x00\x00pg_idK\x00X\x06\x00\x00\x00seq_idK\x01X\x0e\x00\x00\x00profiling_name": FlightRec,
		`{"log":"h:1:2 [0] NCCL INFO Bootstrap: Using eth0\n","stream":"stdout"}`:                            NCCLLog,
	} {
		if got, err := Detect(input.Bytes("x", []byte(text))); got != want || err != nil {
			t.Errorf("%q is %s, %v, want %s", text, got, err, want)
		}
	}
	long := `{"metadata": {"a": ["` + strings.Repeat("x", sniffed) + `"]}, `
	for text, want := range map[string]Kind{
		long + `"traceEvents": [{"ph":"X"}]}`:          Kineto,
		long + `"traceEvents": [{"cat":"GROUP_API"}]}`: Profiler,
		long + `"schema": "1.1.0-chakra.0.0.4"}`:       PyTorchET,
		long + `"entries": []}`:                        FlightRec,
		long + `"b": {"c": 1}}`:                        "",
		long + `"b": `:                                 "",
	} {
		if got, err := Detect(input.Bytes("x", []byte(text))); got != want ||
			errors.Is(err, ErrUnknown) != (want == "") {
			t.Errorf("...%s is %q, %v, want %q", text[len(long):], got, err, want)
		}
	}
	archive := make([]byte, 600)
	copy(archive, "name")
	copy(archive[257:], "ustar")
	for text, want := range map[string]string{"": "it is empty", "hello, world\n": "it is none of kineto",
		"\x80\x04N.": "a pickle of Python", string(archive): "unpack it first",
		"NVIDIA Tegra Profiler Report 2023@4": "nsys export --type sqlite", "PAR1\x15": "Parquet",
		"# HELP x\nnccl_algorithm_bandwidth_gbs{rank=\"0\"} 3\n": "Inspector's file for Prometheus",
	} {
		_, err := Detect(input.Bytes("x", []byte(text)))
		if !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", text, err, want)
		}
	}
}

func TestRefused(t *testing.T) {
	sample := func(name string) input.File { return input.Path(filepath.Join("testdata", name)) }
	for name, test := range map[string]struct {
		files []input.File
		kind  Kind
		want  string
	}{
		"none":    {nil, "", "no file"},
		"mixed":   {[]input.File{sample("ops.csv"), sample("ring.goal")}, "", "give the files of one job"},
		"two":     {[]input.File{sample("ops.csv"), sample("ops.csv")}, "", "is one file"},
		"absent":  {[]input.File{sample("no")}, "", "no such file"},
		"kind":    {[]input.File{sample("ops.csv")}, "excel", `"excel" is no format`},
		"removed": {[]input.File{sample("ops.csv")}, "horovod", "the format horovod was removed: record"},
		"looks":   {[]input.File{sample("ncclprofiler.json")}, GOAL, "(the file looks like ncclprofiler)"},
		"folder":  {[]input.File{sample("")}, "", "testdata is a folder: give its files, such as testdata/*"},
		"from":    {[]input.File{sample("")}, Profiler, "testdata is a folder: give its files, such as testdata/*"},
		"foreign": {[]input.File{input.Bytes("x", []byte("hello, world"))}, "", "nsys: --from names it"},
		"too big": {[]input.File{input.Bytes("x", []byte("allreduce,99999999999999,-1"))}, "",
			"what is recorded makes no workload: count"},
	} {
		_, err := Read(test.files, test.kind, input.Options{Ranks: 2})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	cut := input.Bytes("x", []byte(`{"traceEvents": [`))
	if _, err := Read([]input.File{cut}, Kineto, input.Options{}); err == nil ||
		strings.Contains(err.Error(), "looks like") {
		t.Errorf("a file that is what --from says: %v", err)
	}
	if err := Write(&workload.Workload{}, Kineto, nil); err == nil ||
		!strings.Contains(err.Error(), "cannot be written") {
		t.Errorf("write kineto: %v", err)
	}
}

func FuzzDetectAndRead(f *testing.F) {
	for _, s := range samples {
		data, err := os.ReadFile(filepath.Join("testdata", s.file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := Read([]input.File{input.Bytes("x", data)}, "", input.Options{Ranks: 2, OneForAll: true})
		if err == nil && w.Head.Ranks < 1<<12 {
			if err := w.Validate(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A job with more operations than the options allow is refused in each format.
func TestTooManyOperations(t *testing.T) {
	files := []string{"../chakra/testdata/ALL_TO_ALL.0.json", "../nsys/testdata/bench-2023.4.4.sqlite.gz",
		"../nsys/testdata/bench-nccl2.22.json.gz"}
	for _, s := range samples {
		files = append(files, s.file)
	}
	for _, file := range files {
		o := input.Options{OneForAll: true, Ranks: 4, MaxOps: 1}
		_, err := Read([]input.File{input.Path(filepath.Join("testdata", file))}, "", o)
		if err == nil || !strings.Contains(err.Error(), ": --max-ops N reads more") ||
			!strings.Contains(err.Error(), filepath.Base(file)) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
