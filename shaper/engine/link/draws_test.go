// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"github.com/ddlemu/ddlemu/shaper/internal/ctest"
)

// These tests compare draws with theory. Seeds are fixed, so a test always passes or always
// fails. It fails if the p-value is below leastP.
const leastP = 0.01

// jitters are the delays in ns, without the latency and serialization, of n messages of
// one packet that are posted so far apart.
func jitters(t *testing.T, seed uint64, j Jitter, custom *JitterTable, n int, apart int64) []float64 {
	t.Helper()
	port, wire := gigabit(200 * time.Millisecond)
	wire.Jitter = j
	f := newFabricWith(t, 2, port, wire, 1, tcp(), NewJitterTables(custom))
	f.net.seed = seed
	fl := f.flow(0, 1)
	fixed := int64(wire.Latency) + f.tx[0].Params.Serialization(8)
	out := make([]float64, n)
	for i := range out {
		now := int64(i) * apart
		fl.Recv(now)
		at, ok := fl.Post(8, now)
		if !ok {
			t.Fatalf("message %d: no room", i)
		}
		for fl.Message(at).Due == Never {
			now = max(now+1, fl.Advance(now))
		}
		out[i] = float64(fl.Message(at).Due - int64(i)*apart - fixed)
		fl.Take()
	}
	return out
}

// kolmogorov is the p-value of the Kolmogorov-Smirnov test that the sample comes from
// the distribution cdf: the limit of the distribution of D, with Stephens' correction
// for finite n (J. R. Statist. Soc. B 32, 1970).
func kolmogorov(sample []float64, cdf func(float64) float64) float64 {
	slices.Sort(sample)
	n, d := float64(len(sample)), 0.0
	for i, x := range sample {
		f := cdf(x)
		d = max(d, float64(i+1)/n-f, f-float64(i)/n)
	}
	l := (math.Sqrt(n) + 0.12 + 0.11/math.Sqrt(n)) * d
	p := 0.0
	for j := 1.0; j <= 100; j++ {
		p += 2 * math.Pow(-1, j-1) * math.Exp(-2*j*j*l*l)
	}
	return min(max(p, 0), 1)
}

// Segments that are further apart than the jitter have delays of its distribution.
func TestJitterHasItsDistribution(t *testing.T) {
	const value = 1e6
	exponential := quantiles(func(p float64) float64 { return -math.Log(1 - p) })
	for _, c := range []struct {
		kind JitterKind
		cdf  func(x float64) float64 // of delay / value
	}{
		{Uniform, distuv.Uniform{Min: -1, Max: 1}.CDF},
		{Normal, distuv.UnitNormal.CDF},
		// Lomax: shape 3, scale 2.
		{Pareto, func(x float64) float64 { return distuv.Pareto{Xm: 2, Alpha: 3}.CDF(x + 2) }},
		{Table, distuv.Exponential{Rate: 1}.CDF},
	} {
		for seed := range uint64(3) {
			sample := jitters(t, seed, Jitter{c.kind, value}, exponential, 20_000, 100*value)
			p := kolmogorov(sample, func(x float64) float64 { return c.cdf(x / value) })
			t.Logf("kind %d seed %d: p = %.3f", c.kind, seed, p)
			if p < leastP {
				t.Errorf("kind %d seed %d: p = %.2g", c.kind, seed, p)
			}
		}
	}
}

// Segments that are closer than the jitter would overtake each other. They arrive in order,
// so their delays are larger than those drawn.
func TestOrderClampsJitter(t *testing.T) {
	const value = 1e6
	sample := jitters(t, 1, Jitter{Normal, value}, &tables[2], MaxMessages, value/100)
	if mean := stat.Mean(sample, nil) / value; mean < 1 {
		t.Errorf(
			"the mean delay of segments close together is %.2f standard deviations above the latency: nothing was clamped", mean)
	}
	if p := kolmogorov(sample, func(x float64) float64 { return distuv.UnitNormal.CDF(x / value) }); p > 1e-6 {
		t.Errorf("delays of segments close together have the distribution drawn from, p = %.3f", p)
	}
}

// lost draws the outcome of n packets of a flow.
func lost(t *testing.T, l Loss, seed, flow uint64, n int) []bool {
	t.Helper()
	p, err := l.params()
	if err != nil {
		t.Fatal(err)
	}
	out := make([]bool, n)
	bad := false
	for i := range out {
		out[i] = p.Lost(seed, 9, flow, uint64(i), &bad)
	}
	return out
}

func count(b []bool) float64 {
	n := 0.0
	for _, v := range b {
		if v {
			n++
		}
	}
	return n
}

// chiSquared is the p-value of the test that counts are those of a distribution whose
// class i has probability class(i); classes with an expectation below 5 count as one.
func chiSquared(counts []float64, class func(int) float64) float64 {
	n, x, classes := 0.0, 0.0, 0.0
	for _, c := range counts {
		n += c
	}
	seen, rest := 0.0, n
	for i, c := range counts {
		e := n * class(i)
		if e < 5 || rest-e < 5 {
			break
		}
		x += (c - e) * (c - e) / e
		seen, rest, classes = seen+c, rest-e, classes+1
	}
	x += (n - seen - rest) * (n - seen - rest) / rest
	return 1 - distuv.ChiSquared{K: classes}.CDF(x)
}

// runs counts runs of losses by length, from 1; with false, runs of packets that arrive.
func runs(outcomes []bool, of bool) []float64 {
	counts := make([]float64, 4096)
	n := 0
	for _, f := range outcomes {
		if f == of {
			n++
			continue
		}
		if n > 0 {
			counts[min(n, len(counts))-1]++
		}
		n = 0
	}
	return counts
}

func geometric(p float64) func(int) float64 {
	return func(i int) float64 { return math.Pow(1-p, float64(i)) * p }
}

// Independent losses have the given rate. Runs of losses, and of packets that arrive, are
// geometric.
func TestBernoulliLoss(t *testing.T) {
	for _, p := range []float64{1e-4, 1e-3, 0.01, 0.1, 0.5} {
		const n = 2_000_000
		outcomes := lost(t, Loss{P: p}, 1, 1, n)
		b := distuv.Normal{Mu: n * p, Sigma: math.Sqrt(n * p * (1 - p))}
		if tail := 2 * min(b.CDF(count(outcomes)), 1-b.CDF(count(outcomes))); tail < leastP {
			t.Errorf("p = %v: %v of %v packets lost, p-value %.2g", p, count(outcomes), n, tail)
		}
		for _, of := range []bool{true, false} {
			end := p
			if of {
				end = 1 - p
			}
			if got := chiSquared(runs(outcomes, of), geometric(end)); got < leastP {
				t.Errorf("p = %v: runs of lost = %v are not geometric, p-value %.2g", p, of, got)
			}
		}
	}
}

// Of the Gilbert-Elliott chain: the share of packets lost is that of its stationary
// distribution, and with loss 1 in the bad state and 0 in the good one bursts and gaps
// are geometric with means 1/r and 1/p.
func TestGilbertElliottLoss(t *testing.T) {
	const n = 4_000_000
	for _, c := range []struct{ p, r float64 }{{0.001, 0.2}, {0.01, 0.5}, {0.05, 0.05}} {
		outcomes := lost(t, Loss{GoodToBad: c.p, BadToGood: c.r, BadP: 1}, 3, 1, n)
		if got := chiSquared(runs(outcomes, true), geometric(c.r)); got < leastP {
			t.Errorf("%+v: bursts are not geometric, p-value %.2g", c, got)
		}
		if got := chiSquared(runs(outcomes, false), geometric(c.p)); got < leastP {
			t.Errorf("%+v: gaps are not geometric, p-value %.2g", c, got)
		}
		for _, l := range []Loss{{GoodToBad: c.p, BadToGood: c.r, BadP: 1},
			{GoodToBad: c.p, BadToGood: c.r, BadP: 0.3, P: 0.01}} {
			bad := c.p / (c.p + c.r)
			want := bad*l.BadP + (1-bad)*l.P
			// Packets of one state are correlated: the chain forgets as (1-p-r)^i.
			memory := (1 - c.p - c.r) / (c.p + c.r)
			variance := want*(1-want) + 2*bad*(1-bad)*(l.BadP-l.P)*(l.BadP-l.P)*memory
			b := distuv.Normal{Mu: n * want, Sigma: math.Sqrt(n * variance)}
			got := count(lost(t, l, 2, 1, n))
			if tail := 2 * min(b.CDF(got), 1-b.CDF(got)); tail < leastP {
				t.Errorf("%+v: %v of %v lost, want %.0f, p-value %.2g", l, got, n, n*want, tail)
			}
		}
	}
}

// A burst ends even if it is longer than the 1024 numbers that one packet has for its draws:
// on a short path go-back-N sends one packet of the burst per round trip.
func TestLongBurstsEnd(t *testing.T) {
	port, wire := gigabit(0)
	wire.Loss = Loss{GoodToBad: 0.01, BadToGood: 1e-4, BadP: 1}
	f := newFabric(t, 2, port, wire, 1, rdma())
	fl := f.flow(0, 1)
	fl.Recv(0)
	m, _ := fl.Post(1<<20, 0)
	now := int64(0)
	for range 1_000_000 {
		if now = fl.Advance(now); now == Never {
			break
		}
	}
	if drops := f.links[[2]int{0, 1}].Counters.Drops; fl.Message(m).Due == Never || drops < 2048 {
		t.Errorf("due %d after %d packets were dropped", fl.Message(m).Due, drops)
	}
}

// outcome is when n messages of a flow with jitter and losses arrive, over ports without
// serialization time, so that flows do not share anything.
func outcome(t *testing.T, seed uint64, ids []uint64, order func(turn int) int, n int) map[uint64][]float64 {
	t.Helper()
	wire := Spec{MTU: 1500, Header: 40, Latency: 10 * time.Millisecond, Jitter: Jitter{Normal, time.Millisecond},
		Loss: Loss{P: 0.02}}
	f := newFabric(t, 2, Spec{MTU: 1500, Header: 40}, wire, 1, tcp())
	f.net.seed = seed
	flows := make([]*Flow, len(ids))
	for i, id := range ids {
		f.flows = id - 1
		flows[i] = f.flow(0, 1)
		for k := range n {
			flows[i].Post(8, int64(k)*1e9)
			flows[i].Recv(0)
		}
	}
	for turn, left := 0, len(flows); left > 0; turn++ {
		fl := flows[order(turn)%len(flows)]
		if fl.Advance(int64(turn+1)*1e8) == Never && fl.Message(uint64(n-1)).Due != Never && fl.taken == 0 {
			left--
			fl.taken = 1
		}
	}
	out := map[uint64][]float64{}
	for i, id := range ids {
		for k := range n {
			out[id] = append(out[id], float64(flows[i].Message(uint64(k)).Due-int64(k)*1e9))
		}
	}
	return out
}

// The same seed makes the same draws per link and flow, whichever other flows there
// are and in whatever order they move. Another seed makes others, and so do the same
// seed's for another flow: neither is correlated with the first.
func TestDrawsBelongToSeedLinkAndFlow(t *testing.T) {
	const n = MaxMessages
	inTurn := func(turn int) int { return turn }
	drawn := func(turn int) int { return int(Draw(5, 0, 0, 0, uint64(turn)) >> 33) }
	alone := outcome(t, 7, []uint64{11}, inTurn, n)
	together := outcome(t, 7, []uint64{11, 12, 13}, inTurn, n)
	mixed := outcome(t, 7, []uint64{13, 11, 12}, drawn, n)
	for id := uint64(11); id <= 13; id++ {
		if !slices.Equal(together[id], mixed[id]) {
			t.Errorf("flow %d: other delays when the flows move in another order", id)
		}
	}
	if !slices.Equal(alone[11], together[11]) {
		t.Error("flow 11: other delays alone than beside two others")
	}
	again := outcome(t, 8, []uint64{11, 12, 13}, inTurn, n)
	for _, c := range []struct {
		what string
		a, b []float64
	}{
		{"two flows", together[11], together[12]}, {"two other flows", together[12], together[13]},
		{"two seeds", together[11], again[11]}, {"two seeds and flows", together[11], again[12]},
	} {
		if slices.Equal(c.a, c.b) {
			t.Errorf("%s: the same draws", c.what)
		}
		// Of independent ones it is normal with standard deviation 1/sqrt(n).
		if r := stat.Correlation(c.a, c.b, nil); math.Abs(r) > 3/math.Sqrt(n) {
			t.Errorf("%s: correlation %.3f of %d delays", c.what, r, n)
		}
	}
}

// Links have independent draws, and so have jitter and losses of one link.
func TestStreamsOfDrawsAreIndependent(t *testing.T) {
	const n = 100_000
	stream := func(seed uint64, hop, kind uint32, flow uint64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = float64(Draw(seed, hop, kind, flow, uint64(i))>>11) / (1 << 53)
		}
		return out
	}
	base := stream(1, 1, ctest.StreamOfJitter, 1)
	if p := kolmogorov(slices.Clone(base), distuv.UnitUniform.CDF); p < leastP {
		t.Errorf("draws are not uniform, p = %.2g", p)
	}
	for name, other := range map[string][]float64{
		"seed": stream(2, 1, ctest.StreamOfJitter, 1), "link": stream(1, 2, ctest.StreamOfJitter, 1),
		"kind": stream(1, 1, ctest.StreamOfLoss, 1), "flow": stream(1, 1, ctest.StreamOfJitter, 2),
		"next": append(slices.Clone(base[1:]), base[0]),
	} {
		if r := stat.Correlation(base, other, nil); math.Abs(r) > 3/math.Sqrt(n) {
			t.Errorf("%s: correlation %.4f of %d draws", name, r, n)
		}
	}
	if fmt.Sprint(base[:8]) == fmt.Sprint(stream(1, 1, ctest.StreamOfState, 1)[:8]) {
		t.Error("two kinds of draws are the same")
	}
}
