// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
)

// read is the complete table of a text.
func read(text string) (*Table, error) {
	f, err := Read(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	return f.One()
}

// rowsOf are the rows of a table in short: line, bytes, and time out of place.
func rowsOf(t *Table) (all []string) {
	for _, r := range t.Rows {
		all = append(all, fmt.Sprint(r.Line, " ", r.Size, " ", r.OutOfPlace.Time))
	}
	return all
}

// describes compares what a table says of its measurement, and its rows in short.
func describes(t *testing.T, got *Table, want Table, rows ...string) {
	t.Helper()
	if d := cmp.Diff(rows, rowsOf(got)); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
	said := *got
	said.Rows, said.Log = nil, testslog.Test{}
	if d := cmp.Diff(want, said, cmpopts.IgnoreUnexported(Table{})); d != "" {
		t.Errorf("table (-want +got):\n%s", d)
	}
}

// logText is a log in the form of nccl-tests 2.18.5.
const logText = `# nccl-tests version 2.18.5 nccl-headers=22907 nccl-library=22907
# Collective test starting: all_gather_perf
# nThread 1 nGpus 1 minBytes 8 maxBytes 16777216 step: 16(factor) warmup iters: 1 iters: 20 agg iters: 1 validation: 1 graph: 0
# Using devices
#  Rank  0 Group  0 Pid  41001 on     alpha1 device  0 [0000:17:00] NVIDIA L40S
#  Rank  1 Group  0 Pid  52002 on     alpha1 device  1 [0000:65:00] NVIDIA L40S
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
           0             0     float    none      -1    12.31    0.00    0.00       0    12.24    0.00    0.00       0
     1048576        131072     float    none      -1   130.31    8.05    4.02       0   130.24    8.05    4.02       0
    16777216       2097152     float    none      -1  1489.60   11.26    5.63       0  1488.00   11.28    5.64       0
# Avg bus bandwidth    : 4.83
`

func TestReadLog(t *testing.T) {
	got, err := read("# system: two GPUs\n# env: NCCL_PROTO=Simple\n" + logText)
	if err != nil {
		t.Fatal(err)
	}
	describes(t, got, Table{
		System: "two GPUs", Collective: nccl.AllGather, Type: nccl.Float, Ranks: 2, Nodes: 1,
		Cluster: Cluster{GPU: "l40s", NCCL: "2.29.7", GPUsPerNode: 2, Launch: Processes, RanksPerProcess: 1}, Env: []string{"NCCL_PROTO=Simple"},
	}, "11 1048576 130.31µs", "12 16777216 1.4896ms")
	for name, tc := range map[string]struct{ old, new, want string }{
		"two tables": {"# Avg", logText + "# Avg", "the log has 2 tables, at the lines 1 and 11: give one"},
		"no name, and no bandwidths of a collective": {
			"# Collective test starting: all_gather_perf\n", "#  Rank  2 Group  0 Pid  9 on  alpha1 device  2 [0] NVIDIA L40S\n",
			`no line says of which collective: add a line "# collective: NAME"`},
		"no ranks":     {"Rank", "rank", `the table does not say "# ranks: N"`},
		"another name": {"all_gather_perf", "bisection_perf", `there is no collective "bisection"`},
		"CPU time":     {" time ", " cputime ", "line 1: the times are times of the host's threads (-C)"},
		"another type": {"    float    none      -1   130.31", "    half    none      -1   130.31",
			"line 9: the type is half, not float: give a table of one type"},
		"a cut row": {"1488.00   11.28    5.64       0", "",
			"line 10: the row is cut before its in-place half ends"},
		"sizes": {"    16777216       2097152", "      524288         65536",
			"line 10: 524288 bytes after 1048576: sizes must rise"},
		"other ranks": {"#  Rank  1", "# ranks: 3\n#  Rank  1",
			"1048576 bytes: all_gather of float among 3 ranks moves 1048560"},
		"wrong values": {"# Avg", "# Out of bounds values : 5 FAILED\n# Avg", "the log has 5 values out of bounds"},
		"a bad key":    {"# Using devices", "# env: LD_PRELOAD=x", `line 4: env: "LD_PRELOAD=x" is not one of`},
	} {
		got, err := read(strings.ReplaceAll(logText, tc.old, tc.new))
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v %+v, want %s", name, err, got, tc.want)
		}
	}
}

// A log may be long, with NCCL's messages: its rows and the keys at its beginning are read.
func TestReadLongLog(t *testing.T) {
	long := strings.Repeat("alpha1:41001:41001 [0] NCCL INFO Channel 00/02 : 0 1\n", 40_000)
	got, err := read("# system: two GPUs\n" + long + logText)
	if err != nil || got.System != "two GPUs" || len(got.Rows) != 2 || got.Rows[0].Line != 40_010 || len(long) < 2*maxCSV {
		t.Errorf("%+v, %v", got, err)
	}
}

// A log with cycles (-N) is a table of the medians of its times. What a log does not name, its rows show.
func TestReadLogOfCycles(t *testing.T) {
	rows := func(small, large string) string {
		return "     1048576        131072     float    none      -1   " + small + "    8.05    4.02       0 130 8.05 4.02 0\n" +
			"    16777216       2097152     float    none      -1  " + large + "   11.26    5.63       0 1490 11.26 5.63 0\n"
	}
	head, _, _ := strings.Cut(logText, "#       size")
	head = strings.Replace(head, "# Collective test starting: all_gather_perf\n", "", 1)
	got, err := read(head + "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n" +
		rows("130.00", "1489.00") + rows("190.00", "1700.00") + rows("132.00", "1480.00"))
	want := []string{"7 1048576 132µs", "8 16777216 1.489ms"}
	if err != nil || got.Collective != nccl.AllGather || got.Cycles != 3 || cmp.Diff(want, rowsOf(got)) != "" {
		t.Fatalf("%v %+v", err, got)
	}
}
