// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/shaper/engine/sim"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	mk "github.com/ddlemu/ddlemu/shaper/workload/schedule/make"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/model"
)

// place puts GPUs on a star of links of 8 GB/s and 10 us, without headers: 8 bytes take a nanosecond.
func place(t *testing.T, gpus, nodes int, change func(*configs.Fabric)) *model.Place {
	t.Helper()
	c, err := configs.Profile("dgx-a100-nvlink")
	if err != nil {
		t.Fatal(err)
	}
	c.Nodes = nodes
	c.Link.Bandwidth, c.Link.Latency = 64_000_000_000, 10*time.Microsecond
	if change != nil {
		change(c)
	}
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	p, err := model.NewPlace(f, gpus)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func play(t *testing.T, p *model.Place, s *schedule.Schedule, size uint64, calls int) (*model.Result, *schedule.Cut) {
	t.Helper()
	c, err := s.Cut(size, 4)
	if err != nil {
		t.Fatal(err)
	}
	f, err := p.Expect()
	if err != nil {
		t.Fatal(err)
	}
	r, err := model.Play(t.Context(), s, &c, f, calls)
	if err != nil {
		t.Fatal(err)
	}
	return r, &c
}

func ring(t *testing.T, coll schedule.Collective, gpus, k int) *schedule.Schedule {
	t.Helper()
	s, err := mk.Ring(mk.Options{Coll: coll, GPUs: gpus, K: k})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A ring takes n-1 times latency and serialization of a message, if each chunk is one message: the second slice of so
// small an operation is empty. Before that, a sender must hear of the first receive, which takes one more latency.
func TestRing(t *testing.T) {
	s := ring(t, schedule.AllGather, 4, 1)
	r, c := play(t, place(t, 4, 4, nil), s, 4*32<<10, 2)
	want := 10_000 + 3*(10_000+float64(c.Chunk)/8)
	for _, took := range r.Times {
		if math.Abs(float64(took)-want) > 0.01*want {
			t.Errorf("%d ns, want %.0f", took, want)
		}
	}
	if r.Bytes != 4*3*c.Chunk || r.Loads[0].Bytes != 3*c.Chunk || math.Abs(r.Loads[0].BusyNs-3*float64(c.Chunk)/8) > 1 {
		t.Errorf("%+v", r)
	}
}

// No schedule is faster than the bound, and large rings come near it.
func TestBound(t *testing.T) {
	p := place(t, 8, 8, nil)
	for coll, factor := range map[schedule.Collective]float64{schedule.AllGather: 7. / 8,
		schedule.ReduceScatter: 7. / 8, schedule.AllReduce: 14. / 8} {
		s := ring(t, coll, 8, 4)
		r, c := play(t, p, s, 256<<20, 1)
		bound := p.Bound(s, c)
		if want := factor * float64(c.Bytes) / 8; math.Abs(float64(bound)-want) > 0.001*want {
			t.Errorf("%s: bound %v, want %.0f ns", coll, bound, want)
		}
		if took := float64(r.Times[0]); took < float64(bound) || took > 1.02*float64(bound) {
			t.Errorf("%s: %.0f ns, bound %v", coll, took, bound)
		}
	}
}

// A long chain keeps its links full: it is within 2 % of the bound.
func TestLongChain(t *testing.T) {
	for _, gpus := range []int{2, 4, 8} {
		for _, coll := range []schedule.Collective{schedule.AllGather, schedule.ReduceScatter, schedule.AllReduce} {
			s, err := mk.Chain(mk.Options{Coll: coll, GPUs: gpus, K: 1})
			if err != nil {
				t.Fatal(err)
			}
			p := place(t, gpus, gpus, nil)
			r, c := play(t, p, s, 256<<20, 1)
			if took, bound := float64(r.Times[0]), float64(p.Bound(s, c)); took < bound || took > 1.02*bound {
				t.Errorf("%s on %d GPUs: %.0f ns, bound %.0f", coll, gpus, took, bound)
			}
		}
	}
}

// Between GPUs of a node messages take no time; the channels of a GPU take turns among its NICs.
func TestPlace(t *testing.T) {
	far, _ := play(t, place(t, 4, 4, nil), ring(t, schedule.AllReduce, 4, 2), 8<<20, 1)
	near, _ := play(t, place(t, 4, 2, nil), ring(t, schedule.AllReduce, 4, 2), 8<<20, 1)
	if near.Bytes*2 != far.Bytes || near.Times[0] > far.Times[0] {
		t.Errorf("two GPUs on a node: %d bytes in %d ns; one: %d bytes in %d ns", near.Bytes, near.Times[0], far.Bytes,
			far.Times[0])
	}
	two, _ := play(t, place(t, 4, 4, func(c *configs.Fabric) { c.NICsPerNode = 2 }), ring(t, schedule.AllReduce, 4, 2),
		64<<20, 1)
	single, _ := play(t, place(t, 4, 4, nil), ring(t, schedule.AllReduce, 4, 2), 64<<20, 1)
	if ratio := float64(two.Times[0]) / float64(single.Times[0]); ratio < 0.49 || ratio > 0.55 {
		t.Errorf("with two NICs it takes %.2f of the time", ratio)
	}
	p := place(t, 4, 4, nil)
	if _, err := model.NewPlace(p.Fabric, 6); err == nil || !strings.Contains(err.Error(), "6 GPUs on 4 nodes") {
		t.Error(err)
	}
}

// GPUs of one machine use their NVLinks, those of two machines the network, whatever the channel.
func TestIslands(t *testing.T) {
	c, err := configs.Profile("ndv4")
	if err != nil {
		t.Fatal(err)
	}
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	p, err := model.NewPlace(f, 16)
	if err != nil {
		t.Fatal(err)
	}
	for channel := range 3 {
		for _, tc := range []struct{ src, dst, nic int }{{0, 7, 0}, {9, 8, 0}, {7, 8, 1}, {15, 0, 1}} {
			if from, to := p.NICs(tc.src, tc.dst, channel); from != 2*tc.src+tc.nic || to != 2*tc.dst+tc.nic {
				t.Errorf("channel %d, GPU %d to %d: NIC %d to %d", channel, tc.src, tc.dst, from, to)
			}
		}
	}
}

// The processor's time, and what cannot go on, end a call.
func TestEnds(t *testing.T) {
	p := place(t, 3, 3, nil)
	s := ring(t, schedule.AllReduce, 3, 1)
	c, err := s.Cut(1<<30, 4)
	if err != nil {
		t.Fatal(err)
	}
	f, err := p.Expect()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := model.Play(ctx, s, &c, f, 1); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for g := range 3 {
		steps := s.GPUs[g].Blocks[0].Steps
		s.GPUs[g].Blocks[0].Steps = append(steps[1:len(steps):len(steps)], steps[0])
	}
	if _, err := model.Play(t.Context(), s, &c, f, 1); err == nil ||
		!strings.Contains(err.Error(), "deadlock at this size: GPU 0 block 0 waits for ever at step 0 (rrs)") {
		t.Error(err)
	}
}

// A forecast is the time of a call as they follow each other. Where senders do not wait for receives behind the first
// call, that is a later one.
func TestForecast(t *testing.T) {
	p, s := place(t, 4, 4, nil), ring(t, schedule.AllReduce, 4, 1)
	for _, whole := range []bool{false, true} {
		s.Whole = whole
		r, c := play(t, p, s, 1<<20, 2)
		want := r.Times[0]
		if whole {
			want = r.Times[1]
		}
		f, err := p.Forecast(t.Context(), s, c, int64(c.Bytes))
		if err != nil || math.Abs(f.Time-float64(want)/1e3) > 1e-9 || f.Bytes != r.Bytes ||
			(whole && r.Times[0] == r.Times[1]) {
			t.Errorf("whole %v: %+v, %v, want one of %v", whole, f, err, r.Times)
		}
	}
}

// Links at half of their rate from a time on: what an all-gather sends after that takes twice as long.
func TestPlannedChange(t *testing.T) {
	s := ring(t, schedule.AllGather, 2, 1)
	c, err := s.Cut(2*48<<20, 4)
	if err != nil {
		t.Fatal(err)
	}
	took := func(at int64) float64 {
		f, err := place(t, 2, 2, nil).Expect()
		if err != nil {
			t.Fatal(err)
		}
		for hop := range f.Params {
			if p := f.Params[hop]; at >= 0 {
				p.NsNum *= 2
				f.Changes = append(f.Changes, sim.Change{Time: at, Hop: hop, Params: p})
			}
		}
		r, err := model.Play(t.Context(), s, &c, f, 1)
		if err != nil {
			t.Fatal(err)
		}
		return float64(r.Times[0]) / 1e6
	}
	alone := took(-1)
	waits := 2*alone - took(0) // for latencies, which a lower rate leaves as they are
	if waits < 0 || waits > 0.05*alone {
		t.Errorf("half of the rate: %.3f ms, and %.3f with all of it", 2*alone-waits, alone)
	}
	if got := took(1e9); got != alone {
		t.Errorf("half of the rate after the end: %.3f ms, want %.3f", got, alone)
	}
	if got := took(3e6); got > 2*alone-3 || got < 2*alone-3-waits {
		t.Errorf("half of the rate from 3 ms on: %.3f ms, want %.3f to %.3f", got, 2*alone-3-waits, 2*alone-3)
	}
}
