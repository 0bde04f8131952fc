// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
)

// given are no flags.
var given = Flags{Ranks: -1, Iters: -1}

func readLog(t *testing.T, text string) *File {
	t.Helper()
	log, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func testdata(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// configured is what a log of a collective makes a benchmark measure, or the error.
func configured(f *File, c nccl.Collective) string {
	var b bench.Config
	log, err := f.Choose(c)
	if err == nil {
		err = log.Configure(&b, given)
	}
	if err != nil {
		return err.Error()
	}
	times := 0
	for _, r := range log.Rows {
		if times++; r.InPlace != nil {
			times++
		}
	}
	return fmt.Sprint(b.Ranks, b.Iters, b.Types, b.Ops, b.Sizes, times)
}

// A table is of the collective that was asked for if it can be: its name, its operators and its columns say it.
func TestChoose(t *testing.T) {
	two := testdata(t, "two-2.18.5.txt")
	for _, tc := range []struct {
		name, text string
		c          nccl.Collective
		want       string
	}{
		{"sendrecv has sum", testdata(t, "sendrecv-2.13.12.txt"), nccl.SendRecv,
			"2 20 [float] [sum] [1024 16384 262144 4194304 16777216] 10"},
		{"sendrecv without redop and root", testdata(t, "sendrecv-2.10.0.txt"), nccl.SendRecv,
			"2 20 [float] [sum] [1024 16384 16777216] 6"},
		{"alltoall without root, redop blank", testdata(t, "alltoall-2.9.0.txt"), nccl.AllToAll,
			"2 20 [float] [sum] [1024 16384 16777216] 6"},
		{"the first of two", two, nccl.AllReduce, "2 20 [float] [sum] [1048576 16777216] 4"},
		{"the second of two", two, nccl.AllGather, "3 10 [float] [sum] [1048560] 2"},
		{"none of two", two, nccl.Broadcast,
			"it has 2 tables, and none is of broadcast: line 2 (all_reduce), line 21 (all_gather)"},
		{"another name", two[strings.Index(two, "+ srun -N 2 ./all_gather"):], nccl.AllReduce,
			"line 2: the table is of all_gather, not of all_reduce: give the log's collective"},
		{"no redop", testdata(t, "sendrecv-2.10.0.txt"), nccl.AllReduce,
			"line 10: a table without redop is not of all_reduce: give the log's collective"},
		{"a redop", strings.ReplaceAll(testdata(t, "sendrecv-2.13.12.txt"), "N/A", "0"), nccl.AllToAll,
			"line 10: redop sum is not of alltoall: give the log's collective"},
		{"CPU time", strings.ReplaceAll(testdata(t, "sendrecv-2.13.12.txt"), " time ", " cputime "), nccl.SendRecv,
			"line 1: the times are times of the host's threads (-C): measure without it"},
	} {
		if got := configured(readLog(t, tc.text), tc.c); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
}

// nameless are two tables that do not name their collectives: bandwidths and what is checked tell them apart.
func nameless(first, second string) string {
	const head = "# nThread 1 iters: 20\n# Rank 0 Group 0\n# Rank 3 Group 0\n# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
	return head + first + head + second
}

func TestChooseByRows(t *testing.T) {
	const (
		reduced   = "1048576 262144 float sum -1 100 10.49 15.73 0 100 10.49 15.73 0\n"
		scattered = "2097152 262144 float sum -1 200 10.49 7.86 0 200 10.49 7.86 0\n"
		sent      = "4194304 262144 float sum -1 400 10.49 10.49 0 400 10.49 10.49 N/A\n"
		cast      = "8388608 262144 float none 0 800 10.49 10.49 0 800 10.49 10.49 0\n"
		gathered  = "16777216 262144 float none -1 1600 10.49 7.86 0 1600 10.49 7.86 0\n"
	)
	for _, tc := range []struct {
		text string
		c    nccl.Collective
		want string // the size of the row
	}{
		{nameless(reduced, scattered), nccl.ReduceScatter, "[2097152]"},
		{nameless(scattered, reduced), nccl.AllReduce, "[1048576]"},
		{nameless(reduced, sent), nccl.SendRecv, "[4194304]"},
		{nameless(gathered, cast), nccl.Broadcast, "[8388608]"},
		{nameless(cast, gathered), nccl.AllGather, "[16777216]"},
	} {
		if got := configured(readLog(t, tc.text), tc.c); !strings.Contains(got, tc.want) {
			t.Errorf("%v: %s, want %s", tc.c, got, tc.want)
		}
	}
}

func TestNotes(t *testing.T) {
	log, err := readLog(t, testdata(t, "two-2.18.5.txt")).Choose(nccl.AllGather)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"the log has 2 tables: judged is the table of line 21 (all_gather), not judged line 2 (all_reduce): --all judges all",
		`2 lines not understood, the first is line 1: "+ srun -N 2 ./all_reduce_perf -b 1M -e 16M -f 16"`,
	}
	if d := cmp.Diff(want, log.Notes()); d != "" {
		t.Error(d)
	}
	programs := readLog(t, "# nThread 1\n# nThread 1\n"+strings.Repeat("8 2 float sum -1 5 1 1 0 6 1 1 0\n", 2))
	got := strings.Join(programs.Tables[0].Notes(), "; ")
	if !strings.HasPrefix(got, "no line of the log names the columns") ||
		!strings.Contains(got, "2 programs wrote to the log") {
		t.Errorf("%s", got)
	}
}

// Among many ranks the smallest sizes are nothing.
func TestRowsOfNothing(t *testing.T) {
	const row = "0 0 float none -1 5 0 0 0 6 0 0 0\n"
	log := readLog(t, row+row+"8 1 float none -1 5 0 0 0 6 0 0 0\n").Tables[0].of(nccl.AllGather)
	var b bench.Config
	if err := log.Configure(&b, given); err != nil || fmt.Sprint(b.Sizes) != "[8]" || len(log.Rows) != 1 {
		t.Errorf("%v %v", b.Sizes, err)
	}
	if notes := strings.Join(log.Notes(), "; "); !strings.HasSuffix(notes,
		"2 rows of 0 bytes: the shares of the ranks were less than an element, and nothing was sent") {
		t.Error(notes)
	}
	if err := readLog(t, row).Tables[0].of(nccl.AllGather).Configure(&b, given); err == nil ||
		!strings.Contains(err.Error(), "no row of more than 0 bytes") {
		t.Errorf("%v", err)
	}
}

// Programs that know nothing of each other are not a job of all their ranks.
func TestProgramsWithoutMPI(t *testing.T) {
	const head = "# nThread 1 nGpus 1 minBytes 8\n# Using devices\n#   Rank  0 Pid   1320 on a device  0 [0x00] V100\n"
	log := readLog(t, head+head+"8 2 float sum -1 5 1 1 0 6 1 1 0\n").Tables[0].of(nccl.AllReduce)
	var b bench.Config
	if err := log.Configure(&b, given); err == nil ||
		!strings.Contains(err.Error(),
			"2 programs of 1 rank wrote to it, each with its own table: nccl-tests was built without MPI=1") {
		t.Errorf("%v", err)
	}
}

// What nccl-tests says of its checks below the table is noted.
func TestOutOfBounds(t *testing.T) {
	log := readLog(t, "8 2 float sum -1 5 1 1 0 6 1 1 0\n# Out of bounds values : 248 FAILED\n").Tables[0]
	if notes := strings.Join(log.Notes(), "; "); !strings.Contains(notes,
		"248 values out of bounds: results are wrong") {
		t.Error(notes)
	}
}

// With --all each table is judged as the collective that it names.
func TestEach(t *testing.T) {
	logs, err := readLog(t, testdata(t, "two-2.18.5.txt")).Each(nccl.Broadcast)
	if err != nil || len(logs) != 2 || logs[0].Collective != nccl.AllReduce || logs[1].Collective != nccl.AllGather ||
		logs[1].Log.Line != 21 {
		t.Errorf("%v %v", logs, err)
	}
	if notes := logs[0].Notes(); len(notes) != 1 || strings.Contains(notes[0], "tables") {
		t.Errorf("%q", notes)
	}
	// The rows of the first table are of an all-reduce, and could be of nothing else. Those of the second are of
	// nothing.
	unnamed := nameless("1048576 262144 float sum -1 100 10.49 15.73 0 100 10.49 15.73 0\n",
		"8388608 262144 float sum 0 800 10.49 3.33 0 800 10.49 3.33 0\n")
	logs, err = readLog(t, unnamed).Each(nccl.Broadcast)
	if err != nil || len(logs) != 1 || logs[0].Collective != nccl.AllReduce {
		t.Errorf("%v %v", logs, err)
	}
	if notes := logs[0].Notes(); len(notes) != 1 ||
		!strings.Contains(notes[0], "not judged is line 6 (redop sum): no line says of which collective") {
		t.Errorf("%q", notes)
	}
	// rccl-tests has a collective that NCCL has not.
	named := func(name string) string {
		return "# Collective test starting: " + name + "\n" +
			"1048576 131072 float none -1 100 10.49 5.24 0 100 10.49 5.24 N/A\n"
	}
	logs, err = readLog(t, named("alltoall_perf")+named("alltoallv_perf")).Each(nccl.AllToAll)
	if err != nil || len(logs) != 1 || !strings.HasPrefix(strings.Join(logs[0].Notes(), "; "),
		`not judged is line 3 (alltoallv): there is no collective "alltoallv"`) {
		t.Errorf("%v %q", err, logs[0].Notes())
	}
	_, second, _ := strings.Cut(unnamed, "15.73 0\n")
	if _, err := readLog(t, second).Each(nccl.AllToAll); err == nil ||
		!strings.Contains(err.Error(), "no table names its collective, or shows it by its rows: name the collective") {
		t.Errorf("%v", err)
	}
}

// With -d all a table has rows of several types: one is judged.
func TestSeveralTypes(t *testing.T) {
	const rows = "8 2 float sum -1 5 1 1 0 6 1 1 0\n8 4 half sum -1 5 1 1 0 6 1 1 0\n16 8 half sum -1 5 1 1 0 6 1 1 0\n"
	log := readLog(t, rows).Tables[0].of(nccl.AllReduce)
	var b bench.Config
	if err := log.Configure(&b, given); err == nil ||
		err.Error() != "line 2: type half after float: choose one with --datatype" {
		t.Errorf("%v", err)
	}
	half := given
	half.Types = []nccl.DataType{nccl.Half}
	if err := log.Configure(&b, half); err != nil || fmt.Sprint(b.Types, b.Sizes) != "[half] [8 16]" {
		t.Errorf("%v %v %v", b.Types, b.Sizes, err)
	}
	if notes := strings.Join(log.Notes(), "; "); !strings.HasSuffix(notes, "1 row of another type: not judged") {
		t.Errorf("%s", notes)
	}
}
