// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/nccl/player"
)

// fixed plays without a simulation: a call ends on each rank a time after the call before it, as long as its plan.
type fixed struct {
	perByte float64 // of the bytes that the plan sends
	start   int64   // more for the first call
	order   int64   // more for each number of the order
	random  bool
	steps   uint64 // of a call
	lost    int64  // of the parts
	err     error
	asked   []player.Calls
}

func (p *fixed) Calls(_ context.Context, c *player.Calls) (*player.Played, error) {
	if p.asked = append(p.asked, *c); p.err != nil {
		return nil, p.err
	}
	out := &player.Played{Ends: make([][]int64, c.Ranks), Random: p.random, Spent: make([]player.Spent, c.Ranks)}
	end := p.start
	for out.Calls < c.Most {
		end += int64(p.perByte*float64(bytesOf(c.Plan))) + p.order*int64(c.Order)
		out.Calls, out.Steps = out.Calls+1, out.Steps+p.steps
		for r := range out.Ends {
			out.Ends[r] = append(out.Ends[r], end)
			out.Spent[r] = player.Spent{player.Serialize: end - p.lost}
		}
		if c.Enough != nil && c.Enough(out) {
			break
		}
	}
	return out, nil
}

func (p *fixed) Job(_ context.Context, j *plan.Job, _ *Fabric) ([][]player.Span, bool, error) {
	spans := make([][]player.Span, len(j.Ranks))
	for r, items := range j.Ranks {
		for i := range items {
			spans[r] = append(spans[r], player.Span{Start: int64(i), End: int64(i) + 1})
		}
	}
	return spans, p.random, p.err
}

func bytesOf(p *plan.Plan) (bytes uint64) {
	for _, b := range p.Blocks {
		b.Each(func(l *plan.Loop, a *plan.Action) {
			if !a.KeepSend {
				bytes += uint64(l.Repeat*len(a.Send)) * a.Bytes
			}
		})
	}
	return bytes
}

// What is averaged, extrapolated and remembered is the same for each player.
func TestAnotherPlayer(t *testing.T) {
	d := decide(nccl.AllReduce, plan.Ring, plan.Simple, 2, 1, 1<<20)
	d.Iterations = 20
	on := eth1(rdma()).build()
	simulated := func(p *fixed, bytes uint64, memo *Memo) *Estimate {
		of := d
		of.Count = bytes / of.ElemSize
		e, err := estimate(t.Context(), &of, on, p, memo)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	// 2 ranks send 1 MiB each. Once calls are equally long the others are not played, and three orders are tried.
	p := &fixed{perByte: 10, start: 2000}
	e := simulated(p, 1<<20, nil)
	if want := 10*2.0*(1<<20) + 2000.0/20; math.Abs(e.Time-want) > 1 || e.First != 10*2*(1<<20)+2000 || e.Spread != 0 ||
		!e.Extrapolated || len(p.asked) != minOrders || p.asked[0].Launched != 20 || p.asked[2].Order != 2 {
		t.Errorf("%.1f ns, want %.1f; first %.0f, spread %v, asked %d times", e.Time, want, e.First, e.Spread, len(p.asked))
	}
	// Orders that make a difference are averaged, and so are draws.
	if e = simulated(&fixed{perByte: 10, order: 1e6}, 1<<20, nil); math.Abs(e.Time-(10*2*(1<<20)+3.5e6)) > 1 ||
		math.Abs(e.Spread-3.5e6/e.Time) > 1e-9 {
		t.Errorf("%d orders: %.0f ns, spread %v", maxOrders, e.Time, e.Spread)
	}
	if p = (&fixed{perByte: 10, random: true}); simulated(p, 1<<20, nil) == nil || len(p.asked) != maxDraws {
		t.Errorf("asked for %d draws", len(p.asked))
	}
	// A long call is continued linearly from shorter ones, which the memo knows for another size.
	p, memo := &fixed{perByte: 10, steps: 1}, NewMemo()
	for _, bytes := range []uint64{4 << 30, 8 << 30} {
		e = simulated(p, bytes, memo)
		if want := 10 * 2 * float64(bytes); math.Abs(e.Time-want) > 1e-6*want || len(p.asked) != 2*minOrders {
			t.Errorf("%d bytes: %.0f ns, want %.0f; asked %d times", bytes, e.Time, want, len(p.asked))
		}
	}
	p.err = errors.New("no player")
	if _, err := estimate(t.Context(), &d, on, p, nil); !errors.Is(err, p.err) {
		t.Errorf("error %v", err)
	}
}

// Calls of another player are explained, but not if their parts are not their time, and so are its jobs.
func TestAnotherPlayerExplains(t *testing.T) {
	d, on := decide(nccl.AllReduce, plan.Ring, plan.Simple, 2, 1, 1<<20), eth1(rdma()).build()
	d.Iterations = 3
	p := &fixed{perByte: 10}
	e, err := explain(t.Context(), &d, on, p)
	if err != nil || e.Calls != 3 || e.Spent[player.Serialize] != 3*10*2<<20 || !p.asked[0].Explained {
		t.Errorf("%+v, error %v", e, err)
	}
	if e, err := explain(t.Context(), &d, on, &fixed{perByte: 10, steps: maxSteps}); err != nil || e.Calls != 1 {
		t.Errorf("%+v, error %v", e, err)
	}
	if _, err := explain(t.Context(), &d, on, &fixed{perByte: 10, lost: 1}); err == nil ||
		!strings.Contains(err.Error(), "the parts are") {
		t.Errorf("error %v", err)
	}
	of, err := job(t.Context(), spmd(2, nil, plan.Item{Nanos: 5}, plan.Item{Nanos: 5}), on, p)
	if err != nil || of.End() != 2 || !of.Random {
		t.Errorf("%+v, error %v", of, err)
	}
}
