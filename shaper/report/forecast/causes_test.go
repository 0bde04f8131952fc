// SPDX-License-Identifier: Apache-2.0

package forecast

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/configs/intervals"
	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/nccl/testslog"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/run/emulate"
)

// madeRows are forecasts of 2 nodes with 8 GPUs: 28 us of launch, and the network's time.
func madeRows(t *testing.T) []emulate.Forecast {
	rows := withNodes(rows16(t))
	for i := range rows {
		rows[i].Interval = intervals.Interval{Tables: 5, Low: 0.7, High: 1.4, Alone: 2, Step: 1.5}
	}
	return rows
}

// madeOptions are those of a fabric like the one of madeRows: 8 NICs of 400 Gb/s.
func madeOptions(t *testing.T) emulate.Options {
	c, err := configs.Profile("hgx-h100-ndr400")
	if err != nil {
		t.Fatal(err)
	}
	return emulate.Options{Config: *c}
}

// madeModel calculates what madeRows has, with an alternative: NICs take as much longer as they are fewer or slower, LL
// and trees take twice as long for bytes, and NVLS is refused.
func madeModel(rows []emulate.Forecast) Model {
	return func(_ context.Context, o emulate.Options) (all []emulate.Forecast, info bench.Info, err error) {
		slower := 8 / float64(o.Config.NICsPerNode) * float64(400*units.Gbps) / float64(o.Config.Link.Bandwidth)
		for _, v := range o.Env {
			switch {
			case strings.HasPrefix(v, "NCCL_ALGO=NVLS"):
				return nil, info, errors.New("no NVLS")
			case v == "NCCL_PROTO=LL", v == "NCCL_ALGO=Tree":
				slower = 2
			}
		}
		for _, f := range rows {
			if slices.Contains(o.Bench.Sizes, f.Case.Size) {
				f.Time += time.Duration((slower - 1) * float64(f.BusiestHop))
				all = append(all, f)
			}
		}
		return all, info, nil
	}
}

// madeFaults are faults with their sizes and the words of their first cause.
var madeFaults = []struct {
	name     string
	fault    func(f *emulate.Forecast, us float64) float64
	from, to int64
	cause    string
}{
	{"3 times as long", func(f *emulate.Forecast, us float64) float64 { return us * within(f, 4<<20, 16<<20, 3) }, 4 << 20, 16 << 20,
		"protocol LL|algorithm"},
	{"another algorithm", func(f *emulate.Forecast, us float64) float64 { return us * within(f, 1<<20, 32<<20, 1.7) }, 1 << 20,
		32 << 20, "protocol LL|algorithm"},
	{"half the rate", func(f *emulate.Forecast, us float64) float64 {
		if f.Case.Size > 1<<20 {
			us += units.Microseconds(f.BusiestHop)
		}
		return us
	}, 2 << 20, 8 << 30, "a NIC or port at 200Gbps instead of 400Gbps"},
	{"30 us more", func(f *emulate.Forecast, us float64) float64 {
		if f.Case.Size <= 64<<10 {
			us += 30
		}
		return us
	}, 8, 64 << 10, "us more in each call"},
	{"a stall", func(f *emulate.Forecast, us float64) float64 {
		if f.Case.Size == 1<<20 {
			us += 40e3
		}
		return us
	}, 1 << 20, 1 << 20, "ms more than expected"},
}

func within(f *emulate.Forecast, from, to int64, factor float64) float64 {
	if f.Case.Size >= from && f.Case.Size <= to {
		return factor
	}
	return 1
}

// madeTimes are those of a cluster that is off the model by a bias, with noise in each time; the standard deviation of
// both is 5 %.
func madeTimes(rows []emulate.Forecast, random *rand.Rand, fault func(*emulate.Forecast, float64) float64) (times [][2]float64) {
	const deviation = 0.05
	bias := deviation * random.NormFloat64()
	for i := range rows {
		us := units.Microseconds(rows[i].Time) * math.Exp(bias+deviation*random.NormFloat64())
		if fault != nil {
			us = fault(&rows[i], us)
		}
		times = append(times, [2]float64{us, us})
	}
	return times
}

// Tables that are made of the model, with noise: no healthy one is slow, and each fault's range and first cause are right
// in 8 of 10.
func TestJudgesMadeTables(t *testing.T) {
	const tables = 100
	rows := madeRows(t)
	random := rand.New(rand.NewPCG(1, 48))
	for range tables {
		if r := judge(t, rows, madeTimes(rows, random, nil)); r.Failure() != "" {
			t.Errorf("healthy: %s: %+v", r.Failure(), r.Slow)
		}
	}
	for _, f := range madeFaults {
		right := 0
		for range tables {
			r := judge(t, rows, madeTimes(rows, random, f.fault))
			r.Nodes = 2
			r.RankCauses(t.Context(), madeOptions(t), madeModel(rows))
			if len(r.Slow) == 0 {
				continue
			}
			s := &r.Slow[0]
			first := s.Text()
			if len(s.Causes) > 0 {
				first = s.Causes[0].Text
			}
			near := func(a, b int64) bool { return a <= 2*b && b <= 2*a }
			if near(s.From, f.from) && near(s.To, f.to) && slices.ContainsFunc(strings.Split(f.cause, "|"),
				func(c string) bool { return strings.Contains(first, c) }) {
				right++
			} else {
				t.Logf("%s: %s", f.name, s.Text())
			}
		}
		t.Logf("%s: %d of %d right", f.name, right, tables)
		if 10*right < 8*tables {
			t.Errorf("%s: %d of %d have the right range and first cause", f.name, right, tables)
		}
	}
}

// A note counts the alternatives that were refused, and those that a fabric that is up leaves out.
func TestAlternativesAreCounted(t *testing.T) {
	rows := madeRows(t)
	for shared, want := range map[string]string{
		"": "likely causes: 16 of 18 alternatives calculated; 2 refused by NCCL or by the fabric",
		"up": "likely causes: 9 of 18 alternatives calculated; 2 refused by NCCL or by the fabric; 7 other NICs, rates and " +
			"transports, which --fabric leaves out: name the cluster with --profile or -F",
	} {
		r := judge(t, rows, madeTimes(rows, rand.New(rand.NewPCG(1, 1)), func(f *emulate.Forecast, us float64) float64 {
			return us * within(f, 1<<20, 1<<40, 3)
		}))
		r.Nodes = 2
		o := madeOptions(t)
		o.Shared = shared
		r.RankCauses(t.Context(), o, madeModel(rows))
		if !slices.Contains(r.Notes, want) {
			t.Errorf("%q: %q, want %s", shared, r.Notes, want)
		}
	}
}

// A stall needs no causes, and nothing is calculated for it.
func TestStallsHaveNoCauses(t *testing.T) {
	rows := madeRows(t)
	r := judge(t, rows, madeTimes(rows, rand.New(rand.NewPCG(1, 1)), madeFaults[4].fault))
	r.RankCauses(t.Context(), madeOptions(t), func(context.Context, emulate.Options) ([]emulate.Forecast, bench.Info, error) {
		t.Error("an alternative is calculated")
		return nil, bench.Info{}, nil
	})
	if len(r.Slow) != 1 || r.Slow[0].Word != testslog.Stall || r.Slow[0].Causes != nil {
		t.Errorf("%+v", r.Slow)
	}
}
