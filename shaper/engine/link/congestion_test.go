// SPDX-License-Identifier: Apache-2.0

package link

import (
	"math"
	"slices"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/internal/ctest"
)

// bottleneck runs endless flows into one receive port for the given time, and returns the
// packets of each flow that arrived in the second half.
func bottleneck(t *testing.T, tr *Transport, port, wire Spec, flows int, length int64) (*fabric, []float64) {
	t.Helper()
	f := newFabric(t, flows+1, port, wire, 1, tr)
	fl := make([]*Flow, flows)
	for i := range fl {
		fl[i] = f.flow(i+1, 0)
		fl[i].Recv(0)
		fl[i].Post(1<<50, int64(i)*3e6)
	}
	next := make([]int64, flows)
	until := func(end int64) []float64 {
		for {
			first := 0
			for i := range next {
				if next[i] < next[first] {
					first = i
				}
			}
			if next[first] >= end {
				break
			}
			next[first] = max(fl[first].Advance(next[first]), next[first]+1)
		}
		out := make([]float64, flows)
		for i := range fl {
			out[i] = float64(fl[i].Arrived()) / 1460
			if fl[i].Stalls() > 0 {
				t.Errorf("flow %d stalled", i)
			}
		}
		return out
	}
	a := until(length / 2)
	b := until(length)
	for i := range b {
		b[i] -= a[i]
	}
	return f, b
}

// jain is the fairness index of Jain, Chiu and Hawe (1984): 1 if all get the same, 1/n if
// one gets all.
func jain(shares []float64) float64 {
	sum, squares := 0.0, 0.0
	for _, s := range shares {
		sum += s
		squares += s * s
	}
	return sum * sum / squares / float64(len(shares))
}

// crowd is a gigabit port with a queue of 256 KiB at the end of links of 1 ms, whose
// jitter keeps flows from synchronizing (Floyd and Jacobson, On traffic phase effects
// in packet-switched gateways, 1992).
func crowd(control Congestion) (port, wire Spec, tr *Transport) {
	port, wire = gigabit(time.Millisecond)
	port.QueueBytes, port.QueuePolicy = 256<<10, TailDrop
	wire.Jitter = Jitter{Uniform, 200 * time.Microsecond}
	tr = tcp()
	tr.Congestion, tr.Second = control, 1e9
	return port, wire, tr
}

// Flows with a congestion window share a taildrop port evenly and lose few packets. Without
// a window they send as much as the buffers hold, and lose packets all the time. Which flow
// loses its packets in one run is chance, so the fairness is the mean of four runs.
func TestTailDropSlowsFlowsDown(t *testing.T) {
	long(t)
	for _, control := range []Congestion{Reno, Cubic} {
		for _, n := range []int{2, 4} {
			const runs = 4
			fairness := 0.0
			for k := range uint64(runs) {
				port, wire, tr := crowd(control)
				port.QueueBytes += 1000 * k
				f, got := bottleneck(t, tr, port, wire, n, 20e9)
				total := 0.0
				for _, g := range got {
					total += g
				}
				fairness += jain(got) / runs
				h := f.rx[0].Counters
				use, drops := total/(10e9*float64(port.Bandwidth)/8e9/1538),
					float64(h.Drops)/(float64(h.LineBytes)/1538)
				t.Logf("%v, %d flows: %.3f of the line, fairness %.3f, %.2f %% dropped", names[control], n, use,
					jain(got), 100*drops)
				if use < 0.95 || use > 1.01 || jain(got) < 0.75 || drops > 0.01 || h.Drops == 0 {
					t.Errorf("%v, %d flows: %.3f of the line, fairness %.3f, %.2f %% dropped", names[control], n, use,
						jain(got), 100*drops)
				}
			}
			if fairness < 0.87 {
				t.Errorf("%v, %d flows: mean fairness %.3f", names[control], n, fairness)
			}
		}
	}
	port, wire, tr := crowd(NoCongestion)
	f, _ := bottleneck(t, tr, port, wire, 4, 1e9)
	if h := f.rx[0].Counters; float64(h.Drops) < 0.5*float64(h.LineBytes)/1538 {
		t.Errorf("%d packets dropped of %d flows that nothing slows down", h.Drops, 4)
	}
}

// ECN marks keep the queue at the threshold: after slow start nothing is dropped, and the
// line stays full. Without a congestion window marks are counted and change nothing.
func TestMarksSlowFlowsDown(t *testing.T) {
	long(t)
	for _, control := range []Congestion{Reno, Cubic} {
		port, wire, tr := crowd(control)
		port.QueueBytes, port.ECN = 4<<20, 256<<10
		f, got := bottleneck(t, tr, port, wire, 2, 20e9)
		h, use := f.rx[0].Counters, (got[0]+got[1])/(10e9*float64(port.Bandwidth)/8e9/1538)
		if h.ECNMarks == 0 || h.Drops > 0 || use < 0.95 || jain(got) < 0.9 {
			t.Errorf("%v: %d marks, %d drops, %.3f of the line, fairness %.3f", names[control], h.ECNMarks, h.Drops,
				use, jain(got))
		}
	}
	port, wire, tr := crowd(NoCongestion)
	port.QueueBytes, port.QueuePolicy = 0, Lossless
	_, plain := bottleneck(t, tr, port, wire, 2, 1e9)
	port.ECN = 256 << 10
	f, marked := bottleneck(t, tr, port, wire, 2, 1e9)
	if f.rx[0].Counters.ECNMarks == 0 || plain[0] != marked[0] || plain[1] != marked[1] {
		t.Errorf("%d marks; %v packets with and %v without", f.rx[0].Counters.ECNMarks, marked, plain)
	}
}

// A port of 1 Gb/s into which two senders of 1 Gb/s send pauses each of them half of the
// time.
func TestPausesAreCounted(t *testing.T) {
	port, wire := gigabit(0)
	port.QueueBytes, wire.QueueBytes = 64<<10, 64<<10
	f, _ := bottleneck(t, rdma(), port, wire, 2, 1e9)
	for i := 1; i <= 2; i++ {
		c := f.tx[i].Counters
		if c.Pauses == 0 || c.PausedNs < 0.45e9 || c.PausedNs > 0.55e9 {
			t.Errorf("port %d was held %d times for %d ns of a second, want half of it", i, c.Pauses, c.PausedNs)
		}
	}
	if c := f.rx[0].Counters; c.Pauses != 0 || c.PausedNs != 0 {
		t.Errorf("the receiving port was held %d times", c.Pauses)
	}
}

// alone is a flow with a window of 64 packets in congestion avoidance.
func alone(t *testing.T, control Congestion, loss Loss) *Flow {
	t.Helper()
	port, wire := gigabit(10 * time.Millisecond)
	wire.Loss = loss
	tr := tcp()
	tr.Congestion, tr.Second, tr.RTO = control, 1e9, 100e6
	fl := newFabric(t, 2, port, wire, 1, tr).flow(0, 1)
	ctest.SetWindow(unsafe.Pointer(fl.flow), 64*1460)
	fl.Recv(0)
	fl.Post(1<<40, 0)
	return fl
}

func advanceTo(fl *Flow, from, to int64) {
	for now := from; now < to; {
		now = fl.Advance(now)
	}
}

// packetsOf is the window in packets.
func packetsOf(fl *Flow) float64 { return float64(fl.flow.window.cwnd) / 1024 / 1460 }

// Until the first loss the window does not limit anything: messages take as long as without congestion control. The
// first loss finds the window as large as what is in flight: one round trip of a full line, about 180 packets.
func TestWindowIsOpenUntilTheFirstLoss(t *testing.T) {
	port, wire := gigabit(time.Millisecond)
	times := map[Congestion][]Message{}
	for _, control := range []Congestion{NoCongestion, Reno, Cubic} {
		tr := tcp()
		tr.Congestion, tr.Second = control, 1e9
		f := newFabric(t, 3, port, wire, 1, tr)
		a, b := f.flow(0, 1), f.flow(0, 2)
		for i := range int64(40) {
			for _, fl := range []*Flow{a, b} {
				fl.Recv(0)
				fl.Post(uint64(1+i*i*997), i*1e5)
			}
		}
		run(0, a, b)
		for i := range uint64(40) {
			times[control] = append(times[control], a.Message(i), b.Message(i))
		}
		if control == NoCongestion {
			continue
		}
		if !slices.Equal(times[control], times[NoCongestion]) {
			t.Errorf("%v: messages take another time than without congestion control", names[control])
		}
	}
	for control, factor := range map[Congestion]float64{Reno: 0.5, Cubic: 0.7} {
		tr := tcp()
		tr.Congestion, tr.Second, tr.Window = control, 1e9, 1<<30
		tr.SendBuffer = 180 * 1460
		wire.Loss = Loss{GoodToBad: 1e-18, BadToGood: 1, BadP: 1}
		fl := newFabric(t, 2, port, wire, 1, tr).flow(0, 1)
		fl.Recv(0)
		fl.Post(1<<30, 0)
		advanceTo(fl, 0, 20e6)
		fl.flow.bad |= 1 << 1
		least := math.Inf(1)
		for now := int64(20e6); now < 26e6; now = fl.Advance(now) {
			least = min(least, packetsOf(fl))
		}
		if math.Abs(least/180/factor-1) > 0.05 {
			t.Errorf("%v: the first loss left a window of %.1f packets, want %.0f of 180 in flight", names[control],
				least, 180*factor)
		}
	}
}

// However many packets of a window are lost, it shrinks once.
func TestOneReductionPerWindow(t *testing.T) {
	for control, factor := range map[Congestion]float64{Reno: 0.5, Cubic: 0.7} {
		fl := alone(t, control, Loss{GoodToBad: 1e-18, BadToGood: 1, BadP: 1})
		lost := 0
		for now := int64(0); now < 90e6; now = fl.Advance(now) {
			if now > 45e6 && lost < 5 { // in the third round trip
				fl.flow.bad |= 1 << 1
				lost++
			}
		}
		if got := packetsOf(fl); got < 66*factor-1 || got > 66*factor+3 {
			t.Errorf("%v: a window of 66 packets is one of %.1f after %d losses, want %.1f", names[control], got, lost,
				66*factor)
		}
	}
}

// If a retransmission is lost, the flow waits for the timer. Then the window is one packet,
// and slow start leads to half of the earlier window.
func TestLostRetransmissionWaitsForTheTimer(t *testing.T) {
	fl := alone(t, Reno, Loss{})
	advanceTo(fl, 0, 45e6)
	firstSent := ctest.LoseTwice(unsafe.Pointer(fl.flow))
	advanceTo(fl, 45e6, 56e6)
	found := firstSent() + 10e6
	advanceTo(fl, 56e6, found+99e6)
	if got := packetsOf(fl); got < 32 {
		t.Errorf("%.1f packets before the timer runs out", got)
	}
	least := packetsOf(fl)
	for now := found + 99e6; now < found+110e6; now = fl.Advance(now) {
		least = min(least, packetsOf(fl))
	}
	if least != 1 {
		t.Errorf("%.1f packets when the timer ran out, want 1", least)
	}
	advanceTo(fl, found+110e6, found+300e6)
	if got := packetsOf(fl); got < 32 || got > 42 {
		t.Errorf("%.1f packets eight round trips later, want half of 66 and a few more", got)
	}
}

// The window of a flow that does not fill it does not grow.
func TestWindowGrowsOnlyWhenItIsFull(t *testing.T) {
	for _, control := range []Congestion{Reno, Cubic} {
		fl := alone(t, control, Loss{})
		fl.flow.sends[0].size, fl.flow.sends[0].end = 1000, 1000
		for i := range int64(500) {
			fl.Recv(0)
			fl.Post(1000, (i+1)*30e6)
			fl.Advance((i + 1) * 30e6)
			fl.taken = uint64(i)
		}
		if got := packetsOf(fl); got != 64 {
			t.Errorf("%v: a window of 64 packets is one of %.1f after a packet at a time", names[control], got)
		}
	}
}

func TestCubeRoot(t *testing.T) {
	for _, y := range []uint64{0, 1, 2, 3, 10, 1000, 1 << 20, 2642245} {
		x := y * y * y
		if got := ctest.CubeRoot(x); got != y {
			t.Errorf("cube root of %d is %d, want %d", x, got, y)
		}
		if y > 1 && ctest.CubeRoot(x-1) != y-1 {
			t.Errorf("cube root of %d is %d, want %d", x-1, ctest.CubeRoot(x-1), y-1)
		}
	}
	if got := ctest.CubeRoot(1<<64 - 1); got != 2642245 {
		t.Errorf("cube root of 2^64-1 is %d", got)
	}
}

// The curve begins at 0.7 of the window before the loss, reaches that window after K, and
// then grows by 0.4 packets per cubic second.
func TestCubicCurve(t *testing.T) {
	for _, packets := range []float64{10, 1000, 100_000} {
		lost := uint64(packets*1460) << 10
		ticks := ctest.CubicK(lost, lost*7/10, 1460)
		k := math.Cbrt(packets * 0.3 / 0.4)
		if got := float64(ticks) / 1024; math.Abs(got-k) > 0.002+k/1000 {
			t.Errorf("%v packets: K = %.3f s, want %.3f", packets, got, k)
		}
		for _, after := range []float64{0, k / 2, k, 2 * k} {
			got := float64(ctest.CubicWindow(lost, int64((after-k)*1024), 1460)) / 1024 / 1460
			want := packets + 0.4*math.Pow(after-k, 3)
			if math.Abs(got/want-1) > 0.005 {
				t.Errorf("%v packets, %.2f s after the loss: %.1f packets, want %.1f", packets, after, got, want)
			}
		}
	}
}

// windowCase is a long flow with a congestion window, polled in time and up to lag too late.
type windowCase struct {
	latency, gap, lag     int64
	bandwidth, queue, ecn uint64
	loss                  float64
	control               Congestion
}

func (c windowCase) play(t testing.TB, late func(n uint64) int64) *Flow {
	port, wire := gigabit(time.Duration(c.latency))
	wire.Bandwidth, wire.ECN, wire.Loss.P = c.bandwidth, c.ecn, c.loss
	wire.QueueBytes, wire.QueuePolicy = c.queue, TailDrop
	tr := tcp()
	tr.Congestion, tr.Second, tr.RTO = c.control, 1e9, 20e6
	fl := newFabric(t, 2, port, wire, 1, tr).flow(0, 1)
	for i := range int64(60) {
		fl.Recv(0)
		fl.Post(300_000, i*c.gap)
	}
	n := uint64(0)
	for now := int64(0); now != Never; n++ {
		if now = fl.Advance(now); now != Never {
			now += late(n)
		}
	}
	return fl
}

// check compares the times of the messages.
func (c windowCase) check(t testing.TB, fatalf func(string, ...any)) {
	want := c.play(t, func(uint64) int64 { return 0 })
	got := c.play(t, func(n uint64) int64 { return int64(Draw(uint64(c.lag), 0, 0, 0, n) % uint64(c.lag)) })
	for i := range uint64(60) {
		if a, b := want.Message(i), got.Message(i); a.Due != b.Due || a.Sent != b.Sent {
			fatalf("message %d: due %d sent %d when polled in time, %d and %d when polled late", i, a.Due, a.Sent,
				b.Due, b.Sent)
		}
	}
}

// The times of a long flow with a congestion window do not depend on when it is polled,
// through losses, drops, marks and time-outs.
func TestPropertyPollsDoNotMatterToTheWindow(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		windowCase{
			latency:   rapid.Int64Range(0, 5e6).Draw(r, "latency"),
			bandwidth: rapid.SampledFrom([]uint64{3e8, 1e9}).Draw(r, "bandwidth"),
			queue:     rapid.SampledFrom([]uint64{0, 64 << 10}).Draw(r, "queue"),
			ecn:       rapid.SampledFrom([]uint64{0, 30_000}).Draw(r, "ecn"),
			loss:      rapid.SampledFrom([]float64{0, 1e-3, 0.03}).Draw(r, "loss"),
			control:   Congestion(rapid.Uint32Range(1, 2).Draw(r, "control")),
			gap:       rapid.Int64Range(0, 10e6).Draw(r, "gap"),
			lag:       rapid.Int64Range(1, 50e6).Draw(r, "lag"),
		}.check(t, r.Fatalf)
	})
}

// A sender that is polled late does not learn early of what a queue dropped.
func TestDropsAreKnownInTime(t *testing.T) {
	windowCase{latency: 543_200, bandwidth: 3e8, queue: 64 << 10, control: Reno, lag: 7404}.check(t, t.Fatalf)
}

// Idle time before the first message is not counted as a pause, whatever the clock says.
func TestPausesDoNotCountIdleTime(t *testing.T) {
	const long = int64(1e15)
	port, wire := gigabit(0)
	port.QueueBytes, wire.QueueBytes = 64<<10, 64<<10
	f := newFabric(t, 3, port, wire, 1, rdma())
	a, b := f.flow(1, 0), f.flow(2, 0)
	for now := long; now < 3*long; now += long {
		for _, fl := range []*Flow{a, b} {
			fl.Recv(now)
			fl.Post(1<<20, now)
		}
		run(now, a, b)
	}
	held := int64(0)
	for _, h := range append(append([]hop{}, f.tx...), f.links[[2]int{1, 0}], f.links[[2]int{2, 0}]) {
		held += h.Counters.PausedNs
	}
	// Two messages of 9 ms each, at two ports and two links, twice.
	if held < 4e6 || held > 8*18e6 {
		t.Errorf("held for %d ns", held)
	}
}
