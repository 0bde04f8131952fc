// SPDX-License-Identifier: Apache-2.0

package testslog

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

func TestRead(t *testing.T) {
	us := func(v float64) time.Duration { return time.Duration(v * 1e3) }
	for _, tc := range []struct {
		name, text string
		want       []Row
		ranks      int
	}{
		{"nccl-tests", ncclTests, []Row{
			{9, 8, 2, "float", "sum", -1, us(36.87), us(36.5)},
			{10, 16777216, 4194304, "float", "sum", -1, us(12345.6), us(12400)},
		}, 2},
		{"ddlemu bench", `# profile ndr400  datapath shm  time scale 1024  ranks 4  nodes 2
           8             2     float     sum      -1     2.54    0.00    0.00       0     2.57    0.00    0.00       0       2.47   +2.91        2.47   +4.09
verdict: VALID
`, []Row{{2, 8, 2, "float", "sum", -1, us(2.54), us(2.57)}}, 4},
		{"no in-place form", "1048576 262144 float none -1 100.5 10.4 5.2 0 N/A N/A N/A N/A\n", []Row{{1, 1048576, 262144, "float", "none", -1, us(100.5), 0}}, 0},
		{"before there were roots", "# size count type redop time algbw busbw error time algbw busbw error\n8 2 float sum 12 0.0 0.0 0e+00 13.5 0.0 0.0 0e+00\n", []Row{{2, 8, 2, "float", "sum", -1, us(12), us(13.5)}}, 0},
	} {
		got, err := Read(strings.NewReader(tc.text))
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
		if d := cmp.Diff(Log{tc.want, tc.ranks}, got); d != "" {
			t.Errorf("%s: %s", tc.name, d)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "no rows",
		"nothing here\n1 2\n":           "no rows",
		"8 2 float sum -1 fast 0 0 0\n": "line 1: time fast",
		"8 2 float sum -1 -5 0 0 0\n":   "line 1: time -5",
		"8 2 float sum x 5 0 0 0\n":     "line 1: root x",
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
			if r.Size < 0 || r.Count < 0 || r.OutOfPlace < 0 || r.InPlace < 0 {
				t.Fatalf("%+v", r)
			}
		}
	})
}

func TestJudge(t *testing.T) {
	rate := Given{Expected: 10 * time.Millisecond, Bound: 9 * time.Millisecond}
	latency := Given{Expected: 50 * time.Microsecond, Bound: time.Microsecond, Spread: 0.05}
	for _, tc := range []struct {
		got   time.Duration
		given Given
		word  Word
		cause string
	}{
		{10 * time.Millisecond, rate, AsExpected, ""},
		{10900 * time.Microsecond, rate, AsExpected, ""},
		{8950 * time.Microsecond, rate, Faster, "another version"},
		{8 * time.Millisecond, rate, Impossible, "9ms"},
		{20 * time.Millisecond, rate, Slower, "50 %"},
		{57 * time.Microsecond, latency, AsExpected, ""},
		{90 * time.Microsecond, latency, Slower, "40µs more"},
		{30 * time.Microsecond, latency, Faster, "lower latency"},
		{time.Millisecond, Given{Expected: time.Millisecond}, AsExpected, ""},
	} {
		f := Judge(tc.got, tc.given)
		if f.Word != tc.word || !strings.Contains(f.Cause, tc.cause) || (f.Cause == "") != (tc.word == AsExpected) {
			t.Errorf("%v of %+v: %+v, want %s with %q", tc.got, tc.given, f, tc.word, tc.cause)
		}
	}
}
