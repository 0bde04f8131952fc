// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/nccllog"
)

func TestBandwidths(t *testing.T) {
	// nccl-tests' own figures: 16 MiB in 1 ms on 4 ranks.
	cases := []struct {
		c        nccl.Collective
		alg, bus float64
	}{
		{nccl.AllReduce, 16.777, 25.166}, {nccl.AllGather, 16.777, 12.583}, {nccl.ReduceScatter, 16.777, 12.583},
		{nccl.Broadcast, 16.777, 16.777}, {nccl.Reduce, 16.777, 16.777}, {nccl.SendRecv, 16.777, 16.777},
		{nccl.AllToAll, 16.777, 12.583},
		{nccl.Gather, 16.777, 12.583}, {nccl.Scatter, 16.777, 12.583}, {nccl.HyperCube, 12.583, 12.583},
	}
	for _, c := range cases {
		counts := c.c.Counts(16<<20, nccl.Float, 4)
		m := Measurement{Time: 1e6}
		m.bandwidths(Case{Collective: c.c, Type: nccl.Float, Ranks: 4, Count: counts.Param})
		if math.Abs(m.AlgBW-c.alg) > 0.001 || math.Abs(m.BusBW-c.bus) > 0.001 {
			t.Errorf("%v: algbw %.3f busbw %.3f, want %.3f and %.3f", c.c, m.AlgBW, m.BusBW, c.alg, c.bus)
		}
	}
	var none Measurement
	if none.bandwidths(Case{Ranks: 2, Count: 1}); none.AlgBW != 0 {
		t.Errorf("a time of 0 has bandwidth %g", none.AlgBW)
	}
}

func TestParseSize(t *testing.T) {
	good := map[string]int64{
		"8": 8, "0": 0, "64K": 65536, "64k": 65536, "1M": 1 << 20, "1.5M": 3 << 19, "1G": 1 << 30, "2g": 2 << 30,
		"1T": 1 << 40, "0.5K": 512,
	}
	for text, want := range good {
		if got, err := ParseSize(text); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "K", "-1", "1KB", "1MiB", "0x10", "1e", "inf", "NaN", "9999999999G", "1 K", "+4",
		"1_0"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("%q was taken for %d", text, got)
		}
	}
}

func TestSizes(t *testing.T) {
	good := map[Range][]int64{
		{Begin: 8, End: 64, Factor: 2}:                        {8, 16, 32, 64},
		{Begin: 1 << 20, End: 16 << 20, Factor: 4}:            {1 << 20, 4 << 20, 16 << 20},
		{Begin: 8, End: 63, Factor: 2}:                        {8, 16, 32},
		{Begin: 0, End: 3, Step: 1}:                           {0, 1, 2, 3},
		{Begin: 5, End: 5}:                                    {5},
		{Begin: 8, End: 32, Factor: 1, Step: 16}:              {8, 24},
		{Begin: 1, End: math.MaxInt64, Factor: math.MaxInt64}: {1, math.MaxInt64},
	}
	for r, want := range good {
		if got, err := r.Sizes(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v: %v, %v; want %v", r, got, err, want)
		}
	}
	for _, r := range []Range{
		{Begin: 8, End: 4, Factor: 2}, {Begin: 8, End: 16}, {Begin: 0, End: 16, Factor: 2},
		{Begin: -1, End: 4, Step: 1},
		{Begin: 8, End: 16, Factor: -2}, {Begin: 8, End: 16, Step: -2}, {Begin: 0, End: 1 << 40, Step: 1},
	} {
		if got, err := r.Sizes(); err == nil {
			t.Errorf("%+v was taken for %d sizes", r, len(got))
		}
	}
}

func TestSizesGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Range{
			Begin: rapid.Int64().Draw(t, "begin"), End: rapid.Int64().Draw(t, "end"),
			Factor: rapid.Int64Range(-1, 1<<40).Draw(t, "factor"), Step: rapid.Int64().Draw(t, "step"),
		}
		sizes, err := r.Sizes()
		if err != nil {
			return
		}
		for i, size := range sizes {
			if size < r.Begin || size > r.End || i > 0 && size <= sizes[i-1] {
				t.Fatalf("%+v: size %d at %d", r, size, i)
			}
		}
	})
}

func FuzzParseSize(f *testing.F) {
	for _, seed := range []string{"8", "64K", "1.5M", "1e3", "-0", ".", "1T"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if size, err := ParseSize(text); err == nil && (size < 0 || size >= 1<<62) {
			t.Errorf("%q: %d", text, size)
		}
	})
}

func TestRankEnv(t *testing.T) {
	base := []string{"HOME=/x", "SLURM_PROCID=5", "RANK=9", "GROUP_RANK=1", "NCCL_PROTO=LL", "NCCL_DEBUG_FILE=/theirs"}
	env, log := rankEnv(base, []string{"DDLEMU_NODE=1", "LOCAL_RANK=0"}, 3, 4, "/logs%x")
	want := map[string]string{
		"HOME": "/x", "RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "0", "DDLEMU_NODE": "1", "NCCL_PROTO": "LL",
		"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,GRAPH,TUNING,NET", "NCCL_DEBUG_FILE": "/logs%%x/rank3.log",
	}
	for name, value := range want {
		if got, _ := lookup(env, name); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	for _, name := range []string{"SLURM_PROCID", "GROUP_RANK"} {
		if got, found := lookup(env, name); found {
			t.Errorf("%s=%s was handed on", name, got)
		}
	}
	if log != "/logs%x/rank3.log" {
		t.Errorf("log file %q", log)
	}
	env, log = rankEnv(append(base, "NCCL_DEBUG=WARN"), nil, 0, 1, "/logs")
	if got, _ := lookup(env, "NCCL_DEBUG"); got != "WARN" || log != "" {
		t.Errorf("NCCL_DEBUG is %q and the log %q, though the user has set it", got, log)
	}
	if len(base) != 6 || base[1] != "SLURM_PROCID=5" {
		t.Errorf("the caller's environment was changed: %v", base)
	}
}

func TestParseMessage(t *testing.T) {
	m, err := parseMessage("error cmd=run name=ncclRemoteError msg=lost rank=3 of  many")
	if err != nil || m.verb != "error" || m.fields["name"] != "ncclRemoteError" ||
		m.fields["msg"] != "lost rank=3 of  many" {
		t.Errorf("%+v, %v", m, err)
	}
	if m, err = parseMessage("hello nccl=/a%20b%25/libnccl.so.2"); err != nil ||
		m.path("nccl") != "/a b%/libnccl.so.2" {
		t.Errorf("%+v, %v", m, err)
	}
	if m, err = parseMessage("ok"); err != nil || len(m.fields) != 0 {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := m.number("wall_ns"); err == nil {
		t.Error("a missing number was read")
	}
	for _, line := range []string{"", "yes", "ok wall_ns", "ok =4", "ok  a=1", "NCCL version 2.22.3"} {
		if m, err := parseMessage(line); err == nil {
			t.Errorf("%q was taken for %+v", line, m)
		}
	}
}

func FuzzParseMessage(f *testing.F) {
	for _, seed := range []string{"ok", "ok a=1 b=2", "error cmd=run name=x msg=a b c", "hello protocol=1 nccl=%zz",
		"ok a="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		m, err := parseMessage(line)
		if err != nil {
			return
		}
		for key := range m.fields {
			m.path(key)
			_, _ = m.number(key)
		}
	})
}

func TestValidate(t *testing.T) {
	good := Config{Ranks: 2, Iters: 1, RankBinary: "r", NCCLLibs: []string{"n"}, CudartLibs: []string{"c"}}
	if err := good.validate(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*Config){
		"ranks": func(c *Config) { c.Ranks = 0 }, "iterations": func(c *Config) { c.Iters = 0 },
		"warm-up": func(c *Config) { c.Warmup = -1 }, "root": func(c *Config) { c.Root = 2 },
		"cycles":     func(c *Config) { c.Cycles = -1 },
		"time scale": func(c *Config) { c.TimeScale = -1 }, "ddlemu-rank": func(c *Config) { c.RankBinary = "" },
		"NCCL": func(c *Config) { c.NCCLLibs = nil },
	} {
		bad := good
		spoil(&bad)
		if err := bad.validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCases(t *testing.T) {
	cfg := Config{Ranks: 2, Sizes: []int64{8, 16}, Types: []nccl.DataType{nccl.Float, nccl.Int8},
		Ops: []nccl.RedOp{nccl.Sum, nccl.Max}, Cycles: 2}
	for c, want := range map[nccl.Collective]int{nccl.AllReduce: 16, nccl.AllGather: 8} {
		cfg.Collective = c
		cases := cfg.Cases()
		if len(cases) != want {
			t.Errorf("%v: %d cases, want %d", c, len(cases), want)
		}
	}
	cfg.Collective = nccl.AllReduce
	var order []string
	for _, c := range cfg.Cases()[:6] {
		order = append(order, fmt.Sprint(c.Type, c.Op, c.Size))
	}
	if got := fmt.Sprint(order); got != "[float sum 8 float sum 16 float sum 8 float sum 16 float max 8 float max 16]" {
		t.Error(got)
	}
	cfg = Config{Ranks: 2, Sizes: []int64{8}}
	if cases := cfg.Cases(); len(cases) != 1 || cases[0].Type != nccl.Float || cases[0].Op != nccl.Sum ||
		cases[0].Count != 2 {
		t.Errorf("%+v", cases)
	}
}

func TestLineWriter(t *testing.T) {
	var out lockedBuffer
	w := &lineWriter{rank: 2, out: &out}
	for _, piece := range []string{"one\ntw", "o\n\nthree", strings.Repeat("\nmore", 30)} {
		_, _ = w.Write([]byte(piece))
	}
	w.flush()
	if got := out.String(); !strings.HasPrefix(got, "rank 2: one\nrank 2: two\nrank 2: three\nrank 2: more\n") {
		t.Errorf("%q", got)
	}
}

// What several ranks say is said once. The likely cause, which comes first, keeps its process.
func TestRanksErrorText(t *testing.T) {
	same := func(rank int) Failure {
		return Failure{Rank: rank, PID: 100 + rank, Name: "ncclRemoteError", Message: "the fabric was taken down"}
	}
	killed := Failure{Rank: 5, PID: 77, Name: "exit", Message: "it ended: signal: killed"}
	for _, tc := range []struct {
		failures []Failure
		want     string
	}{
		{[]Failure{killed}, "run: rank 5 (pid 77): exit: it ended: signal: killed"},
		{[]Failure{same(3), same(0), same(2), same(1)},
			"run: ranks 0 to 3: ncclRemoteError: the fabric was taken down"},
		{[]Failure{killed, same(7), same(1), same(2)},
			"run: rank 5 (pid 77): exit: it ended: signal: killed; ranks 1, 2 and 7: ncclRemoteError: the fabric was taken down"},
		{[]Failure{same(1), same(0)}, "run: ranks 0 and 1: ncclRemoteError: the fabric was taken down"},
	} {
		if got := (&RanksError{Step: "run", Failures: tc.failures}).Error(); got != tc.want {
			t.Errorf("got  %q\nwant %q", got, tc.want)
		}
	}
}

// Channels from the log have precedence over those of the model.
func TestChannels(t *testing.T) {
	for _, tc := range []struct {
		decision *nccllog.Decision
		model    int
		want     int
	}{
		{&nccllog.Decision{ChannelLo: 0, ChannelHi: 3}, 2, 4},
		{&nccllog.Decision{ChannelLo: nccllog.Unknown, ChannelHi: nccllog.Unknown}, 2, 2},
		{nil, 2, 2},
		{nil, 0, 0},
	} {
		var m Measurement
		m.decided(tc.decision)
		m.compare(Expectation{Channels: tc.model})
		if m.Channels != tc.want {
			t.Errorf("%+v and %d of the model: %d channels, want %d", tc.decision, tc.model, m.Channels, tc.want)
		}
	}
}
