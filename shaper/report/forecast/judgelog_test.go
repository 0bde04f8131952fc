// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
	"github.com/ddlemu/ddlemu/shaper/run/tables"
)

// forecast16 is what `ddlemu expect allreduce --profile ndr400 --ranks 16 --nodes 2 --set gpus_per_node=8 --set
// nics_per_node=8 --set nvlinks_per_gpu=18 -b 8 -e 8G` prints with NCCL 2.22.3: algorithm, protocol, expected us,
// busiest hop us, bound us. The latencies are from NCCL's log.
const forecast16 = `8 Tree LL 2.47 0.01 0
16 Tree LL 2.47 0.01 0
32 Tree LL 2.47 0.01 0
64 Tree LL 2.47 0.01 0
128 Tree LL 2.48 0.01 0
256 Tree LL 2.48 0.01 0
512 Tree LL 2.50 0.03 0
1024 Tree LL 2.53 0.05 0
2048 Tree LL 2.60 0.09 0.01
4096 Tree LL 2.77 0.17 0.01
8192 Tree LL 2.94 0.35 0.02
16384 Tree LL 2.98 0.35 0.04
32768 Tree LL 3.02 0.35 0.09
65536 Tree LL 3.35 0.52 0.17
131072 Tree LL 3.39 1.04 0.35
262144 Ring LL 11.41 5.23 0.70
524288 Ring LL 11.42 5.23 1.39
1048576 Ring LL128 12.18 10.46 2.79
2097152 Ring LL128 17.52 16.00 5.58
4194304 Ring LL128 27.96 26.45 11.15
8388608 Ring LL128 48.81 47.37 22.31
16777216 Ring LL128 95.61 94.11 44.62
33554432 Ring LL128 185.31 183.31 89.23
67108864 Ring LL128 363.39 361.07 178.46
134217728 Ring LL128 719.21 716.60 356.93
268435456 Ring Simple 1340.65 1338.47 713.85
536870912 Ring Simple 2679.87 2676.94 1427.70
1073741824 Ring Simple 5358.27 5353.88 2855.40
2147483648 Ring Simple 10715.08 10707.76 5710.81
4294967296 Ring Simple 21428.68 21415.53 11421.61
8589934592 Ring Simple 42855.88 42831.05 22843.23`

func rows16(t *testing.T) []emulate.Forecast {
	t.Helper()
	topology := &nccllog.Topology{LatencyUS: map[nccl.Collective]map[nccllog.Kernel]float64{nccl.AllReduce: {
		{Algo: "Tree", Proto: "LL"}: 27.6, {Algo: "Ring", Proto: "LL"}: 48.2, {Algo: "Ring", Proto: "LL128"}: 84.2,
		{Algo: "Ring", Proto: "Simple"}: 162.4,
	}}}
	var rows []emulate.Forecast
	for line := range strings.Lines(forecast16) {
		var size int64
		var algo, proto string
		var expected, busiest, bound float64
		if _, err := fmt.Sscan(line, &size, &algo, &proto, &expected, &busiest, &bound); err != nil {
			t.Fatal(err)
		}
		us := func(v float64) time.Duration { return time.Duration(v * 1e3) }
		f := emulate.Forecast{Known: true, Bound: us(bound), Waiting: 1, Case: bench.Case{
			Collective: nccl.AllReduce, Ranks: 16, Size: size, Count: size / 4, Decision: &nccllog.Decision{Algo: algo,
				Proto: proto}, Topology: topology,
		}}
		f.Time, f.LastRank, f.BusiestHop = us(expected), us(expected), us(busiest)
		rows = append(rows, f)
	}
	return rows
}

// tableOf is a table of nccl-tests: times has the time of each row out of place and in place in microseconds.
func tableOf(rows []emulate.Forecast, times [][2]float64) string {
	var b strings.Builder
	for i, f := range rows {
		fmt.Fprintf(&b, "%d %d float sum -1", f.Case.Size, f.Case.Count)
		for _, us := range times[i] {
			algbw := float64(f.Case.Size) / us / 1e3
			fmt.Fprintf(&b, " %.2f %.2f %.2f 0", us, algbw, algbw*f.Case.Collective.BusFactor(f.Case.Ranks))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// modelTimes are those of a cluster that takes a fixed cost beyond the model, with noise of at most the given fraction.
func modelTimes(rows []emulate.Forecast, fixed, noise float64, random *rand.Rand) [][2]float64 {
	var times [][2]float64
	for _, f := range rows {
		var both [2]float64
		for k := range both {
			both[k] = (float64(f.Time)/1e3 + fixed) * (1 + noise*(2*random.Float64()-1))
		}
		times = append(times, both)
	}
	return times
}

// nvlsTimes are those of a cluster on which NCCL uses LL in trees up to 64 KiB and NVLS with trees above: by this rule,
// a call takes 30 us, 5 us per doubling of the size from 4 KiB to 64 KiB and then 8 us up to 4 MiB, and the bytes move
// at 255 GB/s of algbw. The published tables of two nodes with 8 H100 have such times.
func nvlsTimes(rows []emulate.Forecast) [][2]float64 {
	var times [][2]float64
	for _, f := range rows {
		us := 30 + float64(f.Case.Size)/255e3
		for size := int64(4096); size < min(f.Case.Size, 4<<20); size *= 2 {
			if us += 5; size >= 64<<10 {
				us += 3
			}
		}
		times = append(times, [2]float64{us, us * 1.01})
	}
	return times
}

func readLog(t *testing.T, text string) *tables.Table {
	t.Helper()
	file, err := tables.Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return file.Tables[0]
}

func judge(t *testing.T, rows []emulate.Forecast, times [][2]float64) *Report {
	t.Helper()
	return NewReport(rows, 16, readLog(t, tableOf(rows, times)))
}

func bad(r *Report) []string {
	var all []string
	for _, j := range r.Log {
		if !j.Word.Good() {
			all = append(all, fmt.Sprintf("%d %s: %s", j.Size, bench.Place(j.InPlace), j.Word))
		}
	}
	return all
}

// noise is the largest deviation of each time, in either direction, at which a healthy log has no slower row and a dip
// to 70 % is always named.
const noise = 0.03

func TestHealthyLogs(t *testing.T) {
	rows := rows16(t)
	for _, fixed := range []float64{0, 5, 32, 150} {
		for seed := range uint64(50) {
			r := judge(t, rows, modelTimes(rows, fixed, noise, rand.New(rand.NewPCG(seed, 1))))
			if b := bad(r); len(b) > 0 {
				t.Errorf("fixed cost %g us, seed %d: %v", fixed, seed, b)
			}
			if r.Fixed == nil || r.Fixed.US < 0.95*fixed-1 || r.Fixed.US > 1.05*fixed+1 {
				t.Errorf("fixed cost %g us, seed %d: %+v", fixed, seed, r.Fixed)
			}
		}
	}
	r := judge(t, rows, nvlsTimes(rows))
	if b := bad(r); len(b) > 0 {
		t.Errorf("NVLS: %v", b)
	}
	if last := r.Log[len(r.Log)-1]; last.Word != testslog.FasterTree {
		t.Errorf("NVLS: %+v", last)
	}
	if r.Fixed == nil || r.Fixed.US < 25 || r.Fixed.US > 36 {
		t.Errorf("NVLS: %+v", r.Fixed)
	}
}

// One row at 70 % of the bandwidth of its neighbours is named, and no other.
func TestOneDip(t *testing.T) {
	rows := rows16(t)
	random := rand.New(rand.NewPCG(1, 1))
	for _, healthy := range []func() [][2]float64{
		func() [][2]float64 { return modelTimes(rows, 32, noise, random) },
		func() [][2]float64 { return nvlsTimes(rows) },
	} {
		for i, f := range rows {
			for _, halves := range [][]int{{0}, {1}, {0, 1}} {
				times := healthy()
				var want []string
				for _, k := range halves {
					times[i][k] /= 0.7
					want = append(want, fmt.Sprintf("%d %s: ", f.Case.Size, [2]string{"out of place", "in place"}[k]))
				}
				got := bad(judge(t, rows, times))
				if len(got) != len(want) {
					t.Errorf("dip at %v: %v", want, got)
					continue
				}
				for n, w := range want {
					word, found := strings.CutPrefix(got[n], w)
					atEnd := i == 0 || i == len(rows)-1
					if !found || word != "dip" && !(atEnd && word == "slower") {
						t.Errorf("dip at %v: %v", want, got)
					}
				}
			}
		}
	}
}

// A link at half its bandwidth makes large calls take twice as long. The fixed cost does not hide that, whatever part
// of the table the log has.
func TestSlowLink(t *testing.T) {
	all := rows16(t)
	for from := range len(all) - 3 {
		rows := all[from:]
		times := modelTimes(rows, 32, noise, rand.New(rand.NewPCG(uint64(from), 2)))
		for i, f := range rows {
			for k := range times[i] {
				times[i][k] += float64(f.BusiestHop) / 1e3
			}
		}
		for _, j := range judge(t, rows, times).Log {
			if j.Size >= 64<<20 && j.Word != testslog.Slower {
				t.Errorf("log from %d bytes: %+v", rows[0].Case.Size, j)
			}
		}
	}
}

// What is impossible is no neighbour, and has no part in the fixed cost.
func TestImpossibleRowsCountForNothing(t *testing.T) {
	rows := rows16(t)
	times := modelTimes(rows, 32, 0, rand.New(rand.NewPCG(1, 1)))
	n := len(rows)
	times[n-2][0] /= 4
	if b := bad(judge(t, rows, times)); len(b) != 1 || b[0] != "4294967296 out of place: impossible" {
		t.Errorf("%v", b)
	}
	rows = rows[n-6:] // the impossible times alone would look flat
	times = modelTimes(rows, 0, 0, rand.New(rand.NewPCG(1, 1)))
	for i := range times {
		times[i] = [2]float64{400, 400}
	}
	if r := judge(t, rows, times); r.Fixed != nil || !strings.Contains(r.Summary[0], "not known") {
		t.Errorf("%+v: %s", r.Fixed, r.Summary[0])
	}
}

// Calls in place may take longer than calls out of place. They are not each other's neighbours.
func TestPlacesAreSeparate(t *testing.T) {
	rows := rows16(t)
	times := modelTimes(rows, 32, 0, rand.New(rand.NewPCG(1, 1)))
	for i := range times {
		if rows[i].Case.Size < 1<<20 {
			times[i][1] *= 1.4
		}
	}
	if b := bad(judge(t, rows, times)); len(b) > 0 {
		t.Errorf("%v", b)
	}
}

func TestSummary(t *testing.T) {
	rows := rows16(t)
	times := nvlsTimes(rows)
	i := slices.IndexFunc(rows, func(f emulate.Forecast) bool { return f.Case.Size == 1<<30 })
	times[i][1] /= 0.7
	r := judge(t, rows, times)
	want := []string{
		"fixed cost: 28 us per call beyond the network: launch, proxies, latency not in the profile (25 times up to 32768 bytes)",
		"bandwidth: 476.7 GB/s busbw at 8589934592 bytes, 127 % of what Ring Simple gives on this fabric: NVLS or a tree",
		"rows: 62 times: 48 as expected, 13 faster: probably NVLS/tree, 1 dip; look at line 28 (1073741824 bytes in place, dip); measure it again: a dip that stays is often a change of algorithm",
	}
	if !slices.Equal(r.Summary, want) {
		t.Errorf("%s", strings.Join(r.Summary, "\n"))
	}
	if want := "1 of 62 times not as expected"; r.Failure() != want {
		t.Errorf("--strict says %q, want %q", r.Failure(), want)
	}
}

// The bandwidths of a hypercube are those of the shares that a rank receives; those of a gather are of the whole size.
func TestBandwidthsOfSends(t *testing.T) {
	const size, us = 4 << 20, 100.0
	whole := size / us / 1e3
	for _, tc := range []struct {
		coll       nccl.Collective
		algo, bus  float64
		contradict bool
	}{
		{nccl.HyperCube, whole * 3 / 4, whole * 3 / 4, false}, {nccl.HyperCube, whole, whole * 3 / 4, true},
		{nccl.Gather, whole, whole * 3 / 4, false}, {nccl.Scatter, whole, whole / 2, true},
	} {
		f := emulate.Forecast{Known: true, Case: bench.Case{Collective: tc.coll, Ranks: 4, Size: size}}
		f.Time, f.LastRank = us*time.Microsecond, us*time.Microsecond
		l := loggedTime{call: loggedCall{size, nccl.Sum},
			half: &testslog.Half{Time: f.Time, AlgBW: tc.algo, BusBW: tc.bus}, forecast: &f}
		if l.check(4); (l.found.Word == testslog.Contradictory) != tc.contradict {
			t.Errorf("%v, algbw %.2f, busbw %.2f: %v %s", tc.coll, tc.algo, tc.bus, l.found.Word, l.found.Cause)
		}
	}
}

// A fabric has at least two nodes, so a log of one host is no reason to ask for one.
func TestOtherNodes(t *testing.T) {
	for _, test := range []struct {
		hosts, nodes int
		want         string
	}{
		{0, 2, "[]"},
		{2, 2, "[]"},
		{4, 2, "[the ranks of the log were on 4 hosts, here they are on 2: give --nodes 4]"},
		{1, 2,
			"[the ranks of the log were on 1 host, here they are on 2: its times are of what joins the GPUs of a host, " +
				"and the links of a fabric are between nodes]"},
	} {
		if got := fmt.Sprint(otherNodes(test.hosts, test.nodes)); got != test.want {
			t.Errorf("%d hosts, %d nodes: %s", test.hosts, test.nodes, got)
		}
	}
}
