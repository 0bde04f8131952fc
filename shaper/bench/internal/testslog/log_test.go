// SPDX-License-Identifier: Apache-2.0

package testslog

import (
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

const (
	wholeRow = "8 2 float sum -1 5 1 1 0 6 1 1 0\n"
	outCut   = "the row is cut before its out-of-place half ends"
	inCut    = "the row is cut before its in-place half ends"
)

func TestRead(t *testing.T) {
	half := func(us, bw float64, wrong int64) Half { return Half{time.Duration(us * 1e3), bw, bw, wrong} }
	in := func(us, bw float64, wrong int64) *Half { h := half(us, bw, wrong); return &h }
	for _, tc := range []struct {
		name, text string
		want       Log
	}{
		{"nccl-tests", ncclTests, Log{Rows: []Row{
			{9, 8, 2, "float", "sum", -1, half(36.87, 0, 0), in(36.5, 0, -1)},
			{10, 16777216, 4194304, "float", "sum", -1, half(12345.6, 1.36, 0), in(12400, 1.35, 0)},
		}, Ranks: 2, Iters: 20}},
		{"ddlemu bench", `# profile ndr400  datapath shm  clock real  time scale 1024  ranks 4  nodes 2
# warmup iters: 5 iters: 7 validation: 1
           8             2     float     sum      -1     2.54    0.00    0.00       0     2.57    0.00    0.00       0       2.47   +2.91        2.47   +4.09
verdict: VALID
`, Log{Rows: []Row{{3, 8, 2, "float", "sum", -1, half(2.54, 0, 0), in(2.57, 0, 0)}}, Ranks: 4, Iters: 7}},
		{"no in-place form", "1048576 262144 float none -1 100.5 10.4 10.4 77 N/A N/A N/A N/A\n", Log{Rows: []Row{{1, 1048576, 262144, "float", "none", -1, half(100.5, 10.4, 77), nil}}}},
		{"before there were roots", "# size count type redop time algbw busbw error time algbw busbw error\n8 2 float sum 12 0.0 0.0 4e-07 13.5 0.0 0.0 0e+00\n", Log{Rows: []Row{{2, 8, 2, "float", "sum", -1, half(12, 0, -1), in(13.5, 0, -1)}}}},
		{"mpirun --tag-output", "[1,0]<stdout>:" + wholeRow, Log{Rows: []Row{{1, 8, 2, "float", "sum", -1, half(5, 1, 0), in(6, 1, 0)}}}},
		{"prterun --tag-output", "[prterun-host-12@1,0]<stdout>: " + wholeRow, Log{Rows: []Row{{1, 8, 2, "float", "sum", -1, half(5, 1, 0), in(6, 1, 0)}}}},
		{"mpiexec -l", "[0] " + wholeRow, Log{Rows: []Row{{1, 8, 2, "float", "sum", -1, half(5, 1, 0), in(6, 1, 0)}}}},
		{"srun --label", " 0: #  Rank  1 Group  0 Pid\n 0: " + wholeRow, Log{Rows: []Row{{2, 8, 2, "float", "sum", -1, half(5, 1, 0), in(6, 1, 0)}}, Ranks: 2}},
		{"cut rows", "8 2 float sum\n8 2 float sum -1 5 1 1\n8 2 float sum -1 5 1 1 0\n8 2 float sum -1 5 1 1 0 6 1\n", Log{
			Rows: []Row{{3, 8, 2, "float", "sum", -1, half(5, 1, 0), nil}, {4, 8, 2, "float", "sum", -1, half(5, 1, 0), nil}},
			Cut:  []CutRow{{1, outCut}, {2, outCut}, {3, inCut}, {4, inCut}},
		}},
	} {
		got, err := Read(strings.NewReader(tc.text))
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s: %s", tc.name, d)
		}
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
	f.Fuzz(func(t *testing.T, text string) {
		log, err := Read(strings.NewReader(text))
		if (err == nil) != (len(log.Rows) > 0) {
			t.Fatalf("%d rows and %v", len(log.Rows), err)
		}
		for _, r := range log.Rows {
			if r.Size < 0 || r.Count < 0 || r.OutOfPlace.Time < 0 || r.InPlace != nil && r.InPlace.Time < 0 {
				t.Fatalf("%+v", r)
			}
		}
	})
}

func TestJudge(t *testing.T) {
	rate := Given{Expected: 10 * time.Millisecond, LastRank: 10 * time.Millisecond, Bound: 9 * time.Millisecond, Least: 9 * time.Millisecond}
	latency := Given{Expected: 50 * time.Microsecond, LastRank: 52 * time.Microsecond, Bound: time.Microsecond, Least: time.Microsecond, Spread: 0.05}
	// A broadcast of two ranks in which the root runs ahead.
	ahead := Given{
		Expected: 458 * time.Microsecond, LastRank: 890 * time.Microsecond, BusiestHop: 884 * time.Microsecond,
		Bound: 884 * time.Microsecond, Least: 442 * time.Microsecond,
	}
	// A ring of many ranks. Its busiest hop carries twice the bytes of the bound.
	ring := Given{Expected: 10 * time.Millisecond, LastRank: 10 * time.Millisecond, BusiestHop: 9 * time.Millisecond, Bound: 4600 * time.Microsecond}
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
		{430 * time.Microsecond, ahead, Impossible, "884µs on these links for the last rank, and the mean over the ranks is 442µs at least"},
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
		{Half{890 * time.Microsecond, 11.8, 17.7, 0}, Contradictory, "algbw 11.80, but 1048576 bytes in 890µs are 1.18 GB/s"},
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
