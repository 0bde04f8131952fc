// SPDX-License-Identifier: Apache-2.0

package testslog

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

const ncclTests = `# nThread 1 nGpus 1 minBytes 8 maxBytes 16777216 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
# Using devices
#  Rank  0 Group  0 Pid  11111 on  somehost device  0 [0x00] Tesla T4
#  Rank  1 Group  0 Pid  11112 on  somehost device  1 [0x00] Tesla T4
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    36.87    0.00    0.00      0    36.50    0.00    0.00    N/A
    16777216       4194304     float     sum      -1  12345.6    1.36    1.36      0    12400    1.35    1.35      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.68
`

const wholeRow = "8 2 float sum -1 5 1 1 0 6 1 1 0\n"

// halfOf and inPlaceOf are halves of wholeRow, whose two bandwidths are equal.
func halfOf(us, bw float64, wrong int64) Half {
	return Half{time.Duration(us * 1e3), bw, bw, wrong}
}

func inPlaceOf(us, bw float64, wrong int64) *Half { h := halfOf(us, bw, wrong); return &h }

func TestRead(t *testing.T) {
	half, in := halfOf, inPlaceOf
	for _, tc := range []struct {
		name, text string
		want       Test
	}{
		{"nccl-tests", ncclTests, Test{Line: 1, Rows: []Row{
			{9, 8, 2, "float", "sum", -1, half(36.87, 0, 0), in(36.5, 0, -1)},
			{10, 16777216, 4194304, "float", "sum", -1, half(12345.6, 1.36, 0), in(12400, 1.35, 0)},
		}, Ranks: 2, Iters: 20, Nodes: 1, Programs: 1,
			System: System{GPU: "Tesla T4", Threads: 1, GPUsPerThread: 1}}},
		{"ddlemu bench", `# profile ndr400  datapath shm  clock real  time scale 1024  ranks 4  nodes 2
# warmup iters: 5 iters: 7 validation: 1
           8             2     float     sum      -1     2.54    0.00    0.00       0     2.57    0.00    0.00       0       2.47   +2.91        2.47   +4.09
verdict: VALID
`, Test{Line: 1, Rows: []Row{{3, 8, 2, "float", "sum", -1, half(2.54, 0, 0), in(2.57, 0, 0)}}, Ranks: 4, Iters: 7, Assumed: true}},
		{"no in-place form", "1048576 262144 float none -1 100.5 10.4 10.4 77 N/A N/A N/A N/A\n",
			Test{Line: 1, Rows: []Row{{1, 1048576, 262144, "float", "none", -1, half(100.5, 10.4, 77), nil}},
				Assumed: true}},
		{"cut rows", "8 2 float sum\n8 2 float sum -1 5 1 1\n8 2 float sum -1 5 1 1 0\n16 4 float sum -1 5 1 1 0 6 1\n",
			Test{
				Line: 1,
				Rows: []Row{{3, 8, 2, "float", "sum", -1, half(5, 1, 0), nil},
					{4, 16, 4, "float", "sum", -1, half(5, 1, 0), nil}},
				Cut: []Line{{1, outOfPlaceCut}, {2, outOfPlaceCut}, {3, inPlaceCut}, {4, inPlaceCut}}, Assumed: true,
			}},
		{"rows that are none", wholeRow + "8 2 float sum -1 5 0 x 0\n", Test{
			Line: 1, Rows: []Row{{1, 8, 2, "float", "sum", -1, half(5, 1, 0), in(6, 1, 0)}},
			Odd: []Line{{2, "bandwidth x: not a number of GB/s"}}, Assumed: true,
		}},
	} {
		got, err := Read(strings.NewReader(tc.text))
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if d := cmp.Diff([]Test{tc.want}, got.Tests); d != "" {
			t.Errorf("%s: %s", tc.name, d)
		}
	}
}

// Each version of nccl-tests names its columns, and the tests of versions before 2.13 have different ones. The forms
// are those of its source.
func TestColumns(t *testing.T) {
	half, in := halfOf, inPlaceOf
	for _, tc := range []struct {
		name, text string
		want       Row
	}{
		{"1.0 broadcast, times in ms", "# bytes N type root time algbw busbw delta\n8 2 char 1 0.012 2.00 2.00 0e+00\n",
			Row{2, 8, 2, "int8", "", 1, half(12, 2, -1), nil}},
		{"2.0 all_gather",
			"# size count type time algbw busbw error time algbw busbw error\n8 2 float 12.00 2.00 2.00 0e+00 13.00 2.00 2.00 N/A\n",
			Row{2, 8, 2, "float", "", -1, half(12, 2, -1), in(13, 2, -1)}},
		{"2.9 all_reduce",
			"# size count type redop time algbw busbw error time algbw busbw error\n8 2 float sum 12 0.0 0.0 4e-07 13.5 0.0 0.0 0e+00\n",
			Row{2, 8, 2, "float", "sum", -1, half(12, 0, -1), in(13.5, 0, -1)}},
		{"2.9 alltoall, a blank operator",
			"# size count type redop time algbw busbw error time algbw busbw error\n8 1 float         30.0 2.00 2.00 0e+00 31.0 2.00 2.00 1e+00\n",
			Row{2, 8, 1, "float", "", -1, half(30, 2, -1), in(31, 2, -1)}},
		{"2.11 gather",
			"# size count type root time algbw busbw error time algbw busbw error\n8 1 float 3 30.0 2.00 2.00 0e+00 31.0 2.00 2.00 0e+00\n",
			Row{2, 8, 1, "float", "", 3, half(30, 2, -1), in(31, 2, -1)}},
		{"2.11 reduce",
			"# size count type redop root time algbw busbw error time algbw busbw error\n8 2 half max 1 30.0 2.00 2.00 0e+00 31.0 2.00 2.00 0e+00\n",
			Row{2, 8, 2, "half", "max", 1, half(30, 2, -1), in(31, 2, -1)}},
		{"RCCL's tests, an error beyond the bound",
			"# size count type redop time algbw busbw error time algbw busbw error\n8 2 float sum 30.0 2.00 2.00 4e-07 31.0 2.00 2.00 3e+02*\n",
			Row{2, 8, 2, "float", "sum", -1, half(30, 2, -1), in(31, 2, SomeWrong)}},
		{"the same in parts",
			"# size count type redop time algbw busbw error time algbw busbw error\n8 2 float sum\n 30.0 2.00 2.00 3e+02*\n 31.0 2.00 2.00 4e-07\n",
			Row{2, 8, 2, "float", "sum", -1, half(30, 2, SomeWrong), in(31, 2, -1)}},
		{"2.13 sendrecv",
			"# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n8 2 float sum -1 30.0 2.00 2.00 0 31.0 2.00 2.00 N/A\n",
			Row{2, 8, 2, "float", "sum", -1, half(30, 2, 0), in(31, 2, -1)}},
		{"2.17 -S",
			"# size count type redop root time algbw busbw #wrong time algbw busbw #wrong timestamp\n8 2 float none 0 30.0 2.00 2.00 0 31.0 2.00 2.00 0  2026-01-02 10:00:00\n",
			Row{2, 8, 2, "float", "none", 0, half(30, 2, 0), in(31, 2, 0)}},
		{"2.19 -I 1",
			"# size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv% time algbw busbw #wrong i_min i_max i_p99 i_cv%\n" +
				"8 2 float sum -1 30.0 2.00 2.00 0 29.0 33.0 32.9 1.20 31.0 2.00 2.00 0 30.0 34.0 33.9 1.10\n",
			Row{2, 8, 2, "float", "sum", -1, half(30, 2, 0), in(31, 2, 0)}},
		{"2.19 large numbers",
			"# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n8589934592 2147483648 float sum -1 1.2e+07 2.00 2.00 3e+06 31.0 2.00 2.00 0\n",
			Row{2, 8589934592, 2147483648, "float", "sum", -1, half(1.2e7, 2, 3e6), in(31, 2, 0)}},
	} {
		got, err := Read(strings.NewReader(tc.text))
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		if d := cmp.Diff([]Row{tc.want}, got.Tests[0].Rows); d != "" || got.Tests[0].Assumed || len(got.Tests[0].Odd)+
			len(got.Tests[0].Cut) > 0 {
			t.Errorf("%s: %s%+v", tc.name, d, got.Tests[0])
		}
	}
	log, err := Read(
		strings.NewReader("# size count type redop root cputime algbw busbw #wrong cputime algbw busbw #wrong\n" +
			wholeRow))
	if err != nil || !log.Tests[0].CPUTime {
		t.Errorf("-C: %v %+v", err, log)
	}
	if _, err := Read(strings.NewReader("# size count type redop sort time algbw busbw #wrong\n" +
		wholeRow)); err == nil || !strings.Contains(err.Error(), "line 2: the column sort is not known") {
		t.Errorf("a column that is not known: %v", err)
	}
}

// The log is the same whatever a launcher, a terminal or a mail puts before its lines.
func TestPrefixes(t *testing.T) {
	want, err := Read(strings.NewReader(ncclTests))
	if err != nil {
		t.Fatal(err)
	}
	number := 0
	for name, prefix := range map[string]func(line string) string{
		"ddlemu run": func(l string) string { return "node0 | " + l },
		"pdsh":       func(l string) string { return "node0: " + l },
		"kubectl": func(l string) string {
			return "2024-09-18T10:00:00.123456789Z " +
				l
		},
		"kubectl --prefix":                       func(l string) string { return "[pod/x-0/main] " + l },
		"Ray":                                    func(l string) string { return "\x1b[36m(Worker pid=615, ip=10.0.0.6)\x1b[0m " + l },
		"mpirun --timestamp-output --tag-output": func(l string) string { return "Thu Sep 19 10:00:00 2024[1,0]<stdout>:" + l },
		"mpirun --tag-output": func(l string) string {
			return "[1,0]<stdout>:" +
				strings.TrimLeft(l, " ")
		},
		"prterun --tag-output": func(l string) string {
			return "[prterun-host-12@1,0]<stdout>: " +
				l
		},
		"mpiexec -l":   func(l string) string { return "[0] " + l },
		"srun --label": func(l string) string { return " 0: " + l },
		"cat -n": func(l string) string {
			number++
			return fmt.Sprintf("%6d\t%s",
				number, l)
		},
		"quote":                  func(l string) string { return "> > " + l },
		"diff":                   func(l string) string { return "+" + l },
		"colours":                func(l string) string { return "\x1b[1;32m" + l + "\x1b[0m" },
		"colours without escape": func(l string) string { return "[32m" + l + "[0m" },
		"Docker": func(l string) string {
			return fmt.Sprintf(`{"log":%q,"stream":"stdout","time":"2024-09-18T10:00:00.1Z"}`, l+"\n")
		},
		"CRLF":           func(l string) string { return l + "\r" },
		"date and level": func(l string) string { return "2024-09-19 10:00:00,123 INFO 17 --- " + l },
		"taken for Markdown": func(l string) string {
			return strings.ReplaceAll(strings.TrimPrefix(l, "#"), "#wrong",
				"wrong")
		},
		"table of Markdown": func(l string) string { return "| " + l + " |" },
	} {
		var text strings.Builder
		for line := range strings.Lines(ncclTests) {
			text.WriteString(prefix(strings.TrimSuffix(line, "\n")) + "\n")
		}
		got, err := Read(strings.NewReader(text.String()))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(want.Tests, got.Tests); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	utf8 := "\ufeff" + ncclTests
	if got, err := Read(strings.NewReader(utf8)); err != nil || cmp.Diff(want.Tests, got.Tests) != "" {
		t.Errorf("byte order mark: %v %+v", err, got)
	}
}

// With NCCL_DEBUG=INFO, NCCL writes between the parts of a row to the same standard output. Other programs write lines.
func TestRowsInParts(t *testing.T) {
	const text = `# nThread 1 nGpus 1 warmup iters: 1 iters: 1
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
h1:10:10 [0] NCCL INFO Connected all rings
     8388608       2097152     float     sum      -1h1:10:10 [0] NCCL INFO AllReduce: opCount 1 sendbuff 0x720
h2:11:11 [1] NCCL INFO AllReduce: opCount 1 sendbuff 0xd20
a warning of another program, 5
    83.33  100.66  100.66      0[2025-06-01 10:00:00] h1:10:10 [0] NCCL INFO AllReduce: opCount 2 sendbuff 0x720
h2:11:11 [1] NCCL INFO AllReduce: opCount 2 sendbuff 0xd20
[0]     84.44  99.34  99.34      0
    16777216       4194304     float     sum      -1[0] h1:10:10 [0] NCCL INFO 8192 Bytes -> Algo 0 proto 0 time 26.549810

h1:10:10 [0] net.cc:1 NCCL WARN slow
[1,0]<stdout>:   160.0  104.8  104.8      0    161.0  104.2  104.2    N/A
    33554432       8388608     float     sum      -1h1:10:10 [0] NCCL INFO AllReduce: opCount 3
`
	got, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := Log{Tests: []Test{{
		Line: 1, Programs: 1, Iters: 1,
		Rows: []Row{
			{4, 8388608, 2097152, "float", "sum", -1, halfOf(83.33, 100.66, 0), inPlaceOf(84.44, 99.34, 0)},
			{10, 16777216, 4194304, "float", "sum", -1, halfOf(160, 104.8, 0), inPlaceOf(161, 104.2, -1)},
		},
		Cut:    []Line{{14, outOfPlaceCut}},
		System: System{Threads: 1, GPUsPerThread: 1},
	}}, Foreign: 1, First: Line{6, "a warning of another program, 5"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	var numbered strings.Builder
	number := 0
	for line := range strings.Lines(text) {
		number++
		fmt.Fprintf(&numbered, "%6d\t%s", number, line)
	}
	got, err = Read(strings.NewReader(numbered.String()))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want.Tests, got.Tests); d != "" {
		t.Errorf("with numbers of lines: %s", d)
	}
}

// A log may have the tables of several programs. What begins one is its head, or a second line that names columns.
func TestSeveralTests(t *testing.T) {
	const names = "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
	const text = "+ mpirun -np 2 ./build/all_reduce_perf -b 8\n# nThread 1 warmup iters: 5 iters: 20\n# Rank 0 Group 0 Pid 1\n# Rank 1 Group 0 Pid 2\n" + names + wholeRow +
		"# Out of bounds values : 0 OK\n" +
		"# nccl-tests version 2.17.8 nccl-headers=22809 nccl-library=22809\n# Collective test starting: alltoall_perf\n# nThread 1 warmup iters: 5 iters: 7\n# Using devices\n# Rank 0 Group 0 Pid 1\n" + names + wholeRow +
		names + wholeRow + "# ddlemu bench sendrecv: NCCL 2.22.3\n" + names + wholeRow +
		"# nThread 1 iters: 20\n# nThread 1 iters: 20\n" + names + names + wholeRow
	log, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, test := range log.Tests {
		got = append(got, fmt.Sprintf("%d %q of %d, %d iterations, %d rows, %d programs", test.Line, test.Name,
			test.Ranks, test.Iters, len(test.Rows), test.Programs))
	}
	want := []string{
		`2 "all_reduce" of 2, 20 iterations, 1 rows, 1 programs`, `8 "alltoall" of 1, 7 iterations, 1 rows, 1 programs`,
		`15 "" of 1, 7 iterations, 1 rows, 0 programs`,
		`17 "sendrecv" of 0, 0 iterations, 1 rows, 0 programs`, `20 "" of 0, 20 iterations, 1 rows, 2 programs`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// A program that ended without a whole row, as one that hangs and is stopped, leaves a cut row, which is named with
// the table before, else with the next one. Its head is not that of a program beside the next one, which has another
// command line.
func TestProgramsWithoutRows(t *testing.T) {
	head := func(size, ranks int) string {
		s := fmt.Sprintf(
			"# nThread 2 nGpus 1 minBytes %d maxBytes %d step: 2(factor) warmup iters: 2 iters: 5 validation: 0\n#\n# Using devices\n", size, size)
		for r := range ranks {
			s += fmt.Sprintf("#   Rank  %d Pid  47054 on      g0529 device  %d [0x81] NVIDIA GeForce RTX 4090\n", r, r)
		}
		return s +
			"#\n#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
	}
	row := func(size int) string {
		return fmt.Sprintf(
			"%12d  256     float     sum    16.13    0.06    0.06    N/A    16.13    0.06    0.06    N/A\n", size)
	}
	cut := func(size int) string { return strings.SplitAfter(row(size), "sum")[0] + "\n" }
	for name, tc := range map[string]struct{ text, want string }{
		"stopped after a row": {head(8, 2) + row(8) + head(16, 2) + cut(16) + head(4, 2) + row(4),
			"ranks 2 programs 1 rows 1 cut 1 | ranks 2 programs 1 rows 1 cut 0"},
		"stopped before a row": {head(8, 2) + cut(8) + head(16, 2) + row(16), "ranks 2 programs 1 rows 1 cut 1"},
		"failed at the start":  {head(8, 4) + head(16, 2) + row(16), "ranks 2 programs 1 rows 1 cut 0"},
		"stopped in the head": {strings.Split(head(8, 4), "#\n#       size")[0] + head(16, 2) + row(16),
			"ranks 2 programs 1 rows 1 cut 0"},
		"at the same time": {strings.SplitAfter(head(8, 1), "\n")[0] + head(8, 1) + row(8),
			"ranks 1 programs 2 rows 1 cut 0"},
		"stopped at the end": {head(8, 2) + row(8) + head(16, 2) + cut(16), "ranks 2 programs 1 rows 1 cut 1"},
	} {
		log, err := Read(strings.NewReader(tc.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, test := range log.Tests {
			got = append(got, fmt.Sprintf("ranks %d programs %d rows %d cut %d", test.Ranks, test.Programs,
				len(test.Rows), len(test.Cut)))
		}
		if all := strings.Join(got, " | "); all != tc.want {
			t.Errorf("%s: %s, want %s", name, all, tc.want)
		}
	}
	if _, err := Read(strings.NewReader(head(8, 2) + cut(8))); err == nil {
		t.Error("no row")
	}
}

// The last lines of a table say how many values are wrong; before 2022 nothing else does. The first log is of the form
// of nccl-tests 1, whose last lines have no "#".
func TestOutOfBounds(t *testing.T) {
	const row = "# size count type redop time algbw busbw error time algbw busbw error\n8 2 float sum 5 1 1 2e-07 6 1 1 2e-07\n"
	for text, want := range map[string]int64{
		"#  bytes  N  type  op  time  algbw  busbw  res  time  algbw  busbw  res\n8 2 float sum 0.053 0.00 0.00 2e-07 0.052 0.00 0.00 2e-07\n Out of bounds values : 248 FAILED\n Avg bus bandwidth : 2\n": 248,
		row + "[1,0]<stdout>:# Out of bounds values : 0 OK\n": 0, row + "0: # Out of bounds values : 3 FAILED\n": 3,
		row: 0,
		row + "# Out of bounds values : 3 FAILED\n" + strings.Replace(row, "8 2", "16 4", 1) +
			"# Out of bounds values : 4 FAILED\n": 7,
		row + "# Out of bounds values : 3 FAILED\n" + "# size count type redop time algbw busbw error time algbw busbw error\n16 4 float sum 5 1\n" +
			"# Out of bounds values : 4 FAILED\n": 7,
		"# Out of bounds values : 3 FAILED\n" + row: 0, row +
			"# Out of bounds values : 99999999999999999999 FAILED\n": math.MaxInt32,
	} {
		log, err := Read(strings.NewReader(text))
		if err != nil || len(log.Tests) != 1 || log.Tests[0].OutOfBounds != want || log.Foreign > 1 {
			t.Errorf("%q: %v %+v", text, err, log)
		}
	}
}

// A script may start the program for each size: the tables are one. Sizes that begin again are another table, and so
// are other collectives.
func TestOneTablePerSize(t *testing.T) {
	head := func(name string) string {
		return "# Collective test starting: " + name +
			"\n# nThread 1 iters: 20\n# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
	}
	row := func(size int, op string, ratio float64) string {
		return fmt.Sprintf("%d 2 float %s -1 5 2 %.2f 0 6 2 %.2f 0\n", size, op, 2*ratio, 2*ratio)
	}
	const a, none = "all_reduce_perf", ""
	for name, tc := range map[string]struct {
		text string
		want string
	}{
		"a program per size": {head(a) + row(8, "sum", 1) + head(a) + row(16, "sum", 1) + head(a) +
			row(32, "sum", 1) + "8 2 float\n", "3"},
		"again":                {head(a) + row(8, "sum", 1) + row(16, "sum", 1) + head(a) + row(8, "sum", 1), "2 1"},
		"falling":              {head(a) + row(8, "sum", 1) + head(a) + row(32, "sum", 1) + row(16, "sum", 1), "1 2"},
		"another name":         {head(a) + row(8, "sum", 1) + head("reduce_scatter_perf") + row(16, "sum", 1), "1 1"},
		"another operator":     {head(a) + row(8, "sum", 1) + head(a) + row(16, "max", 1), "1 1"},
		"no name":              {head(none) + row(8, "sum", 1) + head(none) + row(16, "sum", 1), "2"},
		"no name, other ratio": {head(none) + row(8, "sum", 1) + head(none) + row(16, "sum", 0.5), "1 1"},
		"other iterations": {head(a) + row(8, "sum", 1) + strings.Replace(head(a), "20", "5", 1) +
			row(16, "sum", 1), "1 1"},
	} {
		log, err := Read(strings.NewReader(tc.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var rows []string
		for _, test := range log.Tests {
			rows = append(rows, fmt.Sprint(len(test.Rows)))
		}
		if got := strings.Join(rows, " "); got != tc.want {
			t.Errorf("%s: %s rows, want %s", name, got, tc.want)
		}
	}
}

// The form of the file that nccl-tests 2.19.6 writes with -J.
const ncclTestsJSON = `{"version":3,"start_time":"2026-07-10 10:00:00","args":["./build/sendrecv_perf","-b","8"],"env":["A=NCCL_PROTO=LL","NCCL_ALGO=Tree","NCCL_IB_HCA==mlx5_0, mlx5_1","NCCL_DEBUG="],"nccl_version":22907,
"config":{"nthreads":1,"ngpus":2,"iterations":20,"devices":[{"rank":0,"hostname":"a","device_info":"NVIDIA B200"},{"rank":2,"hostname":"b","device_info":"NVIDIA B200"}]},
"results":[{"size":8,"count":2,"type":"float","redop":"sum","root":"    -1","out_of_place":{"time":30.170000,"alg_bw":0.010000,"bus_bw":0.010000,"nwrong":0.000000},
"in_place":{"time":30.160000,"alg_bw":0.010000,"bus_bw":0.010000,"nwrong":null},"actual_iterations":20,"experiment_name":""},
{"size":16,"count":4,"type":"float","redop":"sum","root":"    -1","out_of_place":null,"in_place":null}],"end_time":"2026-07-10 10:00:01"}`

func TestReadJSON(t *testing.T) {
	got, err := Read(strings.NewReader(ncclTestsJSON))
	want := Log{JSON: true, Tests: []Test{{
		Name: "sendrecv", Line: 1, Ranks: 4, Iters: 20, Nodes: 2, Programs: 1,
		Rows: []Row{{1, 8, 2, "float", "sum", -1, halfOf(30.17, 0.01, 0), inPlaceOf(30.16, 0.01, -1)}},
		Odd:  []Line{{2, "the result has no times out of place"}},
		System: System{GPU: "NVIDIA B200", Threads: 1, GPUsPerThread: 2, NCCL: "2.29.7",
			Settings: []string{"NCCL_ALGO=Tree", "NCCL_IB_HCA==mlx5_0, mlx5_1"}},
	}}}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
	if got, err := Read(strings.NewReader(strings.ReplaceAll(ncclTestsJSON, `"time"`, `"cpu_time"`))); err != nil ||
		!got.Tests[0].CPUTime {
		t.Errorf("-C: %v %+v", err, got)
	}
	for _, cut := range []string{ncclTestsJSON[:300], "{}",
		strings.ReplaceAll(ncclTestsJSON, `"time":3`, `"time":-3`)} {
		if _, err := Read(strings.NewReader(cut)); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.40s: %v", cut, err)
		}
	}
}

// A line may be longer than a row can be.
func TestLongLine(t *testing.T) {
	got, err := Read(strings.NewReader(strings.Repeat("x", 3<<20) + "\n" + wholeRow))
	if err != nil || len(got.Tests[0].Rows) != 1 || got.Tests[0].Rows[0].Line != 2 || got.Foreign != 1 {
		t.Errorf("%v %+v", err, got)
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                                   "no whole row",
		"nothing here\n1 2\n":                                "no whole row",
		"8 2 float sum -1 5 0 0\n":                           "no whole row",
		"8 2 float sum -1 5 0 x 0\n":                         "line 1: bandwidth x",
		"8 2 float sum -1 5 0 0 no\n":                        "line 1: #wrong no",
		"8 2 float sum -1 fast 0 0 0\n":                      "line 1: time fast",
		"8 2 float sum -1 -5 0 0 0\n":                        "line 1: time -5",
		"8 2 float sum x 5 0 0 0\n":                          "line 1: root x",
		"99999999999999999999 2 float sum -1 5 0 0 0\n":      "line 1: size",
		"8 2 float sum -1 5 0 0 0 1e400 0 0 0\n":             "line 1: time 1e400",
		strings.Repeat("8 2 float sum -1 5 0 0 0\n", 10_001): "more than 10000 rows",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(ncclTests)
	f.Add("8 2 float sum -1 5 0 0 0\n")
	f.Add("8 2 float sum -1h:1:2 [0] NCCL INFO x\n 5 0 0 0\n")
	f.Add(ncclTestsJSON)
	f.Fuzz(func(t *testing.T, text string) {
		log, err := Read(strings.NewReader(text))
		if (err == nil) != (len(log.Tests) > 0) {
			t.Fatalf("%d tables and %v", len(log.Tests), err)
		}
		for _, test := range log.Tests {
			if len(test.Rows) == 0 {
				t.Fatalf("%+v", test)
			}
			for _, r := range test.Rows {
				if r.Size < 0 || r.Count < 0 || r.OutOfPlace.Time < 0 || r.InPlace != nil && r.InPlace.Time < 0 {
					t.Fatalf("%+v", r)
				}
			}
		}
	})
}

func TestJudge(t *testing.T) {
	rate := Given{Expected: 10 * time.Millisecond, LastRank: 10 * time.Millisecond, Bound: 9 * time.Millisecond,
		Least: 9 * time.Millisecond}
	latency := Given{Expected: 50 * time.Microsecond, LastRank: 52 * time.Microsecond, Bound: time.Microsecond,
		Least: time.Microsecond, Spread: 0.05}
	// A broadcast of two ranks in which the root runs ahead.
	ahead := Given{
		Expected: 458 * time.Microsecond, LastRank: 890 * time.Microsecond, BusiestHop: 884 * time.Microsecond,
		Bound: 884 * time.Microsecond, Least: 442 * time.Microsecond,
	}
	// A ring of many ranks. Its busiest hop carries twice the bytes of the bound.
	ring := Given{Expected: 10 * time.Millisecond, LastRank: 10 * time.Millisecond, BusiestHop: 9 * time.Millisecond,
		Bound: 4600 * time.Microsecond}
	for _, tc := range []struct {
		got   time.Duration
		given Given
		word  Word
		cause string
	}{
		{10 * time.Millisecond, rate, AsExpected, ""},
		{10900 * time.Microsecond, rate, AsExpected, ""},
		{8950 * time.Microsecond, rate, Faster, "another version"},
		{8 * time.Millisecond, rate, Impossible, "take 9ms on these links: traffic"},
		{20 * time.Millisecond, rate, Slower, "50 %"},
		{20 * time.Millisecond, ring, Slower, "50 %"},
		{57 * time.Microsecond, latency, AsExpected, ""},
		{92 * time.Microsecond, latency, Slower, "40µs more"},
		{30 * time.Microsecond, latency, Faster, "lower latency"},
		{time.Millisecond, Given{Expected: time.Millisecond}, AsExpected, ""},
		{890 * time.Microsecond, ahead, AsExpected, ""},
		{445 * time.Microsecond, ahead, AsExpected, ""},
		{1780 * time.Microsecond, ahead, Slower, "the links carried 50 % of"},
		{430 * time.Microsecond, ahead, Impossible,
			"884µs on these links for the last rank, and the mean over the ranks is 442µs at least"},
	} {
		f := Judge(tc.got, tc.given)
		if f.Word != tc.word || !strings.Contains(f.Cause, tc.cause) || (f.Cause == "") != (tc.word == AsExpected) {
			t.Errorf("%v of %+v: %+v, want %s with %q", tc.got, tc.given, f, tc.word, tc.cause)
		}
	}
}

// With many ranks the bus bandwidth has almost twice the rounding error of the algorithm bandwidth.
func TestCheckRounding(t *testing.T) {
	h := Half{Time: 7335 * time.Nanosecond, AlgBW: 0.03, BusBW: 0.07} // 0.0349 and 0.0654
	if f := h.Check(256, 1.875); f.Word != AsExpected {
		t.Errorf("%+v", f)
	}
}

// An all_gather of 4 ranks at 100 GB/s, as nccl-tests 2.0 prints it.
func TestCheckBytesThatCross(t *testing.T) {
	both := Half{Time: 100 * time.Microsecond, AlgBW: 75, BusBW: 75}
	for _, tc := range []struct {
		size   int64
		factor float64
		want   Word
	}{{10e6, 0.75, AsExpected}, {10e6, 1, Contradictory}, {5e6, 1.5, Contradictory}, {12e6, 0.75, Contradictory}} {
		if f := both.Check(tc.size, tc.factor); f.Word != tc.want {
			t.Errorf("%+v: %+v", tc, f)
		}
	}
}

// 1 MiB in 890 us is 1.18 GB/s; among four ranks AllReduce's busbw is 1.5 times that.
func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		half  Half
		word  Word
		cause string
	}{
		{Half{890 * time.Microsecond, 1.18, 1.77, 0}, AsExpected, ""},
		{Half{890 * time.Microsecond, 1.18, 1.77, -1}, AsExpected, ""},
		{Half{890 * time.Microsecond, 1.18, 1.77, 77}, Wrong, "77 wrong elements"},
		{Half{890 * time.Microsecond, 1.18, 1.77, SomeWrong}, Wrong, "the error is beyond its bound"},
		{Half{890 * time.Microsecond, 11.8, 17.7, 0}, Contradictory,
			"algbw 11.80, but 1048576 bytes in 890µs are 1.18 GB/s"},
		{Half{890 * time.Microsecond, 1.18, 1.18, 0}, Contradictory, "busbw 1.18, but 1.50 times algbw is 1.77 GB/s"},
		{Half{20 * time.Nanosecond, 50000, 75000, 0}, AsExpected, ""}, // 0.02 us may be 0.025
	} {
		f := tc.half.Check(1<<20, 1.5)
		if f.Word != tc.word || !strings.Contains(f.Cause, tc.cause) || (f.Cause == "") != (tc.word == AsExpected) {
			t.Errorf("%+v: %+v, want %s with %q", tc.half, f, tc.word, tc.cause)
		}
	}
	if !AsExpected.Good() || !Faster.Good() || Slower.Good() || Wrong.Good() || NotJudged.Good() {
		t.Error("what speaks for a fabric")
	}
}

func TestRedOp(t *testing.T) {
	for _, tc := range []struct {
		op   string
		want nccl.RedOp
		bad  string
	}{
		{"sum", nccl.Sum, ""}, {"max", nccl.Max, ""}, {"none", nccl.Sum, ""}, {"mulsum", nccl.Avg, ""},
		{"all", 0, "not one operator"}, {"xor", 0, `no reduction "xor"`},
	} {
		r := Row{Op: tc.op}
		op, err := r.RedOp()
		if op != tc.want || (err == nil) != (tc.bad == "") || err != nil && !strings.Contains(err.Error(), tc.bad) {
			t.Errorf("%s: %v, %v", tc.op, op, err)
		}
	}
}

// The last lines of ddlemu bench are known, and others that look alike are not.
func TestEndOfBench(t *testing.T) {
	const row = "1048576 262144 float sum -1 890 1.18 1.18 0 890 1.18 1.18 0\n"
	for text, want := range map[string]int{
		"verdict: VALID": 0, "verdict: INVALID": 0, "verdict: incomplete": 0,
		"ddlemu: 1 of 3 rows not as asked for: it took 2µs": 0, "the verdict: VALID": 1, "verdict: VALID or not": 1,
	} {
		log, err := Read(strings.NewReader(row + text + "\n"))
		if err != nil || log.Foreign != want {
			t.Errorf("%s: %d lines are not understood, want %d: %v", text, log.Foreign, want, err)
		}
	}
}
