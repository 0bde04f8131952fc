// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/internal/ctest"
)

type tester interface {
	Fatal(...any)
	Cleanup(func())
}

// world is flows on a network, moved by a loop or by the reference.
type world struct {
	net    *link.Network
	ends   []*Endpoints
	orders []uint64
}

type design struct {
	specs     []link.Spec
	transport link.Transport
	paths     [][]link.PathHop
	orders    []uint64
	records   bool
}

func (d *design) build(t tester) *world {
	params := make([]link.Params, len(d.specs))
	for i, s := range d.specs {
		var err error
		if params[i], err = link.NewParams(s, 1); err != nil {
			t.Fatal(err)
		}
	}
	w := &world{net: link.NewNetwork(params, &d.transport, nil, 7), orders: d.orders}
	t.Cleanup(w.net.Close)
	if d.records {
		w.net.KeepHopRecords()
	}
	for i, path := range d.paths {
		var back []int
		for _, h := range path {
			back = append(back, h.Hop)
		}
		e := &Endpoints{}
		if err := e.Connect(uint64(i), path, back, w.net); err != nil {
			t.Fatal(err)
		}
		w.ends = append(w.ends, e)
	}
	return w
}

// one is a flow over a hop of 1 GB/s and 1 us: a byte takes a nanosecond.
func one() *design {
	return &design{
		specs:     []link.Spec{{Bandwidth: 8e9, Latency: time.Microsecond, MTU: 4096, QueuePolicy: link.Lossless}},
		transport: link.Transport{Kind: link.RDMA, Second: 1e9, RTO: 67e6, DownTimeout: 1e9},
		paths:     [][]link.PathHop{{{Hop: 0}}},
		orders:    []uint64{0},
	}
}

func drawDesign(t *rapid.T) *design {
	const hops = 4
	d := one()
	d.specs = make([]link.Spec, hops)
	for i := range d.specs {
		d.specs[i] = link.Spec{
			Bandwidth: rapid.SampledFrom([]uint64{1e9, 8e9, 100e9}).Draw(t, "bandwidth"),
			Latency:   time.Duration(rapid.Int64Range(0, 3000).Draw(t, "latency")),
			MTU:       4096, QueuePolicy: link.Lossless, QueueBytes: rapid.SampledFrom([]uint64{0, 64 << 10}).Draw(t,
				"queue"),
		}
	}
	if rapid.Bool().Draw(t, "tcp") {
		d.transport = link.Transport{Kind: link.TCP, Second: 1e9, RTO: 200e6, DownTimeout: 1e9, SendBuffer: 256 << 10,
			Window: 256 << 10}
	}
	d.transport.Host.PerMessage = rapid.SampledFrom([]int64{0, 700}).Draw(t, "per message")
	n := rapid.IntRange(1, 6).Draw(t, "flows")
	d.orders = rapid.Permutation([]uint64{1, 2, 3, 4, 5, 6}).Draw(t, "orders")[:n]
	d.paths = nil
	for range n {
		var path []link.PathHop
		for _, h := range rapid.Permutation([]int{0, 1, 2, 3}).Draw(t, "path")[:rapid.IntRange(1, 3).Draw(t, "hops")] {
			path = append(path, link.PathHop{Hop: h})
		}
		d.paths = append(d.paths, path)
	}
	return d
}

// reference moves flows by the rules, with a plain search in place of a heap, and crosses to C at each step.
type reference struct {
	*world
	rules Rules
	now   int64
	next  []int64
	due   []uint64
	seen  []seen
	sizes [][]uint64 // to be posted at this instant
	recvs []int
}

// seen is what the ends of a flow have seen.
type seen struct{ arrived, acked uint64 }

func newReference(w *world, r Rules) *reference {
	n := len(w.ends)
	ref := &reference{world: w, rules: r, next: make([]int64, n), due: make([]uint64, n), seen: make([]seen, n),
		sizes: make([][]uint64, n), recvs: make([]int, n)}
	for i := range ref.next {
		ref.next[i] = link.Never
	}
	return ref
}

// step makes the steps of a flow and says whether an end has something to see.
func (r *reference) step(i int) bool {
	f := r.ends[i].Flow
	next, was := f.Advance(r.now), r.seen[i]
	for ; f.Message(r.due[i]).Due <= r.now; r.due[i]++ {
	}
	for ; r.seen[i].arrived < r.due[i] && f.Message(r.seen[i].arrived).Recv <= r.now; r.seen[i].arrived++ {
	}
	for ; f.Message(r.seen[i].acked).Sent <= r.now; r.seen[i].acked++ {
	}
	r.next[i] = min(next, f.Message(r.due[i]).Due, f.Message(r.seen[i].acked).Sent)
	if r.next[i] != link.Never {
		r.next[i] = max(r.next[i], r.now+1)
	}
	return r.seen[i] != was
}

// choose is the value by which a flow comes first at a point: 0 is that of steps, 1 that of posts.
func (r *reference) choose(point uint32, i int, at int64, round uint32) uint64 {
	if r.rules.Drawn {
		return link.Draw(r.rules.Seed, point, round, r.orders[i], uint64(at))
	}
	return r.orders[i]
}

// first is the flow with the next step, -1 if there is none.
func (r *reference) first() int {
	tie := func(i int) uint64 { return r.choose(0, i, r.next[i], 0) }
	best := -1
	for i, at := range r.next {
		if at != link.Never && (best < 0 || cmp.Or(cmp.Compare(at, r.next[best]), cmp.Compare(tie(i), tie(best))) < 0) {
			best = i
		}
	}
	return best
}

// run returns the flows whose ends have something to see, in ascending order.
func (r *reference) run(until int64) []int {
	woken := r.steps(until, r.rounds())
	slices.Sort(woken)
	return slices.Compact(woken)
}

// rounds reads what was posted, round-robin, and returns the flows whose ends have something to see.
func (r *reference) rounds() (woken []int) {
	order := numbers(len(r.ends))
	order = slices.DeleteFunc(order, func(i int) bool { return len(r.sizes[i]) == 0 && r.recvs[i] == 0 })
	for round := uint32(0); len(order) > 0; round++ {
		slices.SortFunc(order, func(a, b int) int {
			return cmp.Compare(r.choose(1, a, r.now, round), r.choose(1, b, r.now, round))
		})
		order = slices.DeleteFunc(order, func(i int) bool {
			f := r.ends[i].Flow
			for ; r.recvs[i] > 0; r.recvs[i]-- {
				f.Recv(r.now)
			}
			if len(r.sizes[i]) > 0 {
				f.Post(r.sizes[i][0], r.now)
				r.sizes[i] = r.sizes[i][1:]
			}
			if r.step(i) {
				woken = append(woken, i)
			}
			return len(r.sizes[i]) == 0
		})
	}
	return woken
}

// steps makes steps up to a time, or the first instant at which an end has something to see.
func (r *reference) steps(until int64, woken []int) []int {
	for i := r.first(); i >= 0 && r.next[i] <= until; i = r.first() {
		if len(woken) > 0 && (!r.rules.RoundRobin || r.next[i] > r.now) {
			break
		}
		r.now = r.next[i]
		if r.step(i) {
			woken = append(woken, i)
		}
	}
	return woken
}

// wait sets both times to one before the next step, by a timer.
func (r *reference) wait(t *rapid.T, l *Loop) {
	if at := nextOf(l) - 1; at > l.Now() && at < link.Never-1 && rapid.Bool().Draw(t, "wait") {
		waitUntil(t, l, at)
		r.now = at
	}
}

// waitUntil runs a loop in which nothing happens until the time of a timer.
func waitUntil(t tester, l *Loop, at int64) {
	rang := false
	l.After(at, 0, func() { rang = true })
	for !rang {
		if flows, stop := l.Run(link.Never); stop == Reached || len(flows) > 0 || l.Now() > at {
			t.Fatal("the loop stops for reason ", stop, " at ", l.Now(), " with flows ", flows, ", want a timer at ", at)
		}
		l.RunTimers()
	}
}

func drawSizes(t *rapid.T) []uint64 {
	return rapid.SliceOfN(rapid.Uint64Range(0, 300_000), 0, 3).Draw(t, "sizes")
}

// The loop stops at the same times as the reference, for the same flows, with the same times of all messages. The order
// in which posts of an instant are read is drawn, or that of the flows.
func TestPropertyAsPlainSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDesign(t)
		w, plain := d.build(t), d.build(t)
		rules := Rules{RoundRobin: true, Drawn: rapid.Bool().Draw(t, "drawn"), Seed: rapid.Uint64().Draw(t, "seed")}
		l := New(w.net, w.ends, w.orders, nil, rules)
		pauseOften(t, l)
		r := newReference(plain, rules)
		for range rapid.IntRange(1, 60).Draw(t, "rounds") {
			for _, i := range rapid.Permutation(numbers(len(w.ends))).Draw(t, "who posts first") {
				r.sizes[i] = drawSizes(t)
				for _, size := range r.sizes[i] {
					w.ends[i].Send(size)
				}
				r.recvs[i] = rapid.IntRange(0, 3).Draw(t, "receives")
				for range r.recvs[i] {
					w.ends[i].Receive()
				}
			}
			until := l.Now() + rapid.Int64Range(0, 200_000).Draw(t, "until")
			compare(t, w, l, r, runOn(t, l, until), r.run(until))
			r.wait(t, l)
		}
	})
}

// The same where an end acts as soon as it sees something, with an order that is drawn, or that of the flows.
func TestPropertyAsPlainSearchAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := Rules{Drawn: rapid.Bool().Draw(t, "drawn"), Seed: rapid.Uint64().Draw(t, "seed")}
		d := drawDesign(t)
		w, plain := d.build(t), d.build(t)
		l, r := New(w.net, w.ends, w.orders, nil, rules), newReference(plain, rules)
		pauseOften(t, l)
		for range rapid.IntRange(1, 60).Draw(t, "rounds") {
			i := rapid.IntRange(0, len(w.ends)-1).Draw(t, "flow")
			for _, size := range drawSizes(t) {
				w.ends[i].Receive()
				w.ends[i].Send(size)
				plain.ends[i].Flow.Recv(r.now)
				plain.ends[i].Flow.Post(size, r.now)
			}
			l.Step(i)
			r.step(i)
			until := l.Now() + rapid.Int64Range(0, 200_000).Draw(t, "until")
			compare(t, w, l, r, runOn(t, l, until), r.run(until))
			r.wait(t, l)
		}
	})
}

// pauseOften makes a loop pause behind few steps.
func pauseOften(t *rapid.T, l *Loop) {
	l.pause = rapid.Uint64Range(2, 9).Draw(t, "steps from pause to pause")
	l.setPause()
}

// runOn runs a loop until it stops for another reason than a pause, and checks what it says of that.
func runOn(t tester, l *Loop, until int64) []uint32 {
	for {
		flows, stop := l.Run(until)
		if (stop == Seen) != (len(flows) > 0) || stop == Reached && nextOf(l) <= until && nextOf(l) != link.Never {
			t.Fatal("the loop stops for reason ", stop, " with flows ", flows, ", and the next step is at ", nextOf(l))
		}
		if stop != Paused {
			return flows
		}
	}
}

func numbers(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func compare(t *rapid.T, w *world, l *Loop, r *reference, flows []uint32, want []int) {
	got := []int{}
	for _, i := range flows {
		got = append(got, int(i))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) || l.Now() != r.now {
		t.Fatalf("at %d, flows %v have something to see; want those of %d, %v", l.Now(), got, r.now, want)
	}
	if first := r.first(); first >= 0 && nextOf(l) != r.next[first] || first < 0 && nextOf(l) != link.Never {
		t.Fatalf("the next step is at %d; those of the flows are at %d", nextOf(l), r.next)
	}
	for i := range r.next {
		if l.NextOf(i) != r.next[i] {
			t.Fatalf("the next step of flow %d is at %d, want %d", i, l.NextOf(i), r.next[i])
		}
	}
	// What was made is compared before the messages are released, so all of them are still there.
	for i, e := range r.ends {
		own := w.ends[i]
		for m := own.released; m < own.Sent; m++ {
			x, y := own.Flow.Message(m), e.Flow.Message(m)
			if x.Due != y.Due || x.Sent != y.Sent {
				t.Fatalf("flow %d, message %d: due %d, sent %d; want %d and %d", i, m, x.Due, x.Sent, y.Due, y.Sent)
			}
		}
		own.Poll()
		if s := (seen{own.Arrived, own.Acked}); s != r.seen[i] {
			t.Fatalf("the ends of flow %d have seen %+v, want %+v", i, s, r.seen[i])
		}
		for e.released < own.released {
			e.Flow.Take()
			e.released++
		}
	}
}

// Time never runs backward: the loop refuses a step in the past.
func TestTimeNeverRunsBackward(t *testing.T) {
	w := one().build(t)
	l := New(w.net, w.ends, w.orders, nil, Rules{RoundRobin: true})
	waitUntil(t, l, 5000)
	w.ends[0].Receive()
	w.ends[0].Send(1000)
	if flows, stop := l.Run(5000); len(flows) > 0 || stop != Reached || nextOf(l) <= 5000 {
		t.Fatalf("flows %v have something to see (%v), and the next step is at %d", flows, stop, nextOf(l))
	}
	l.c.sim.heap.time = 4999 // as nobody may
	defer func() {
		if err := fmt.Sprint(recover()); !strings.Contains(err, "5000") || l.Now() != 5000 {
			t.Errorf("at %d: %s", l.Now(), err)
		}
	}()
	l.Run(link.Never)
}

// Each segment on each hop is reported once, however many steps are made before an end has something to see. Run pauses
// meanwhile.
func TestLongMessages(t *testing.T) {
	const size = 32 << 30
	d := one()
	d.records = true
	d.paths = slices.Repeat(d.paths, 2)
	d.orders = []uint64{0, 1}
	w := d.build(t)
	l := New(w.net, w.ends, w.orders, nil, Rules{RoundRobin: true})
	var bytes, segments uint64
	l.Watch = func(p *link.HopRecord) {
		segments++
		bytes += uint64(p.Bytes)
	}
	for _, e := range w.ends {
		e.Receive()
		e.Send(size)
	}
	seen, pauses := 0, 0
	for nextOf(l) != link.Never || l.HasPosts() {
		flows, stop := l.Run(link.Never)
		seen += len(flows)
		if stop == Paused {
			pauses++
		}
	}
	if bytes != 2*size || segments <= 4*link.MaxSegments*link.MaxHops || seen != 4 || pauses == 0 {
		t.Errorf("%d segments of %d bytes were reported, want %d bytes; ends saw something %d times, and Run paused %d times",
			segments, bytes, uint64(2*size), seen, pauses)
	}
}

// A caller with only timers is also given the chance to give up.
func TestPauseWithoutSteps(t *testing.T) {
	w := one().build(t)
	l := New(w.net, w.ends, w.orders, nil, Rules{RoundRobin: true})
	for n := int64(1); n <= stepsPerPause; n++ {
		l.After(n, 0, func() {})
		if _, stop := l.Run(link.Never); stop != Seen || l.Now() != n {
			t.Fatalf("stop %v at %d", stop, l.Now())
		}
		l.RunTimers()
	}
	if _, stop := l.Run(link.Never); stop != Paused {
		t.Errorf("stop %v, want a pause", stop)
	}
	if _, stop := l.Run(link.Never); stop != Reached {
		t.Errorf("stop %v behind the pause", stop)
	}
}

// What happens at one instant has the order of the rules: changes, steps, timers by their ties and as they were made,
// posts. With the order of a real clock timers come before steps.
func TestOrderOfAnInstant(t *testing.T) {
	for _, roundRobin := range []bool{true, false} {
		d := one() // a byte takes a nanosecond, at half of the rate two
		w := d.build(t)
		slow := d.specs[0]
		slow.Bandwidth /= 2
		params, err := link.NewParams(slow, 1)
		if err != nil {
			t.Fatal(err)
		}
		l := New(w.net, w.ends, w.orders, []Change{{Time: 5000, Params: params}}, Rules{RoundRobin: roundRobin})
		e, log := w.ends[0], []string{}
		note := func(at int64, tie uint64, text string) {
			l.After(at, tie, func() { log = append(log, text) })
		}
		send := func() {
			e.Receive()
			e.Send(1000)
			if !roundRobin {
				l.Step(0)
			}
		}
		l.After(5000, 9, send)
		note(9000, 2, "second")
		note(9000, 1, "first")
		note(9000, 2, "third")
		for {
			flows, stop := l.Run(link.Never)
			if stop == Reached {
				break
			}
			for range flows {
				arrived, acked := e.Poll()
				log = append(log, fmt.Sprintf("%d arrived, %d complete at %d", arrived, acked, l.Now()))
			}
			l.RunTimers()
		}
		// Posted at 5000, when the rate becomes half of it: 1000 ns for the clear-to-send, 2000 ns of serialization and
		// 1000 ns of latency.
		want := []string{"1 arrived, 0 complete at 9000", "first", "second", "third"}
		if !roundRobin {
			want = []string{"first", "second", "third", "1 arrived, 0 complete at 9000"}
		}
		if len(log) < 4 || !slices.Equal(log[:4], want) {
			t.Errorf("round-robin %v: %q, want %q first", roundRobin, log, want)
		}
	}
}

// Which of several flows that post at one instant is served first is drawn from the seed, for each instant anew. Without
// draws it is always the first one in the order.
func TestOrderOfPosts(t *testing.T) {
	const flows, instants = 4, 50
	first := func(r Rules) (count [flows]int) {
		d := one() // all share a hop
		d.transport = link.Transport{Kind: link.TCP, Second: 1e9, RTO: 200e6, DownTimeout: 1e9, SendBuffer: 1 << 20,
			Window: 1 << 20}
		d.paths, d.orders = slices.Repeat(d.paths, flows), []uint64{0, 1, 2, 3}
		w := d.build(t)
		l := New(w.net, w.ends, w.orders, nil, r)
		for n := range uint64(instants) {
			for _, e := range w.ends {
				e.Receive()
				e.Send(4000)
			}
			for _, stop := l.Run(link.Never); stop != Reached; _, stop = l.Run(link.Never) {
			}
			best := 0
			for i, e := range w.ends {
				if e.Flow.Message(n).Due < w.ends[best].Flow.Message(n).Due {
					best = i
				}
			}
			count[best]++
			for _, e := range w.ends {
				e.Poll()
			}
		}
		return count
	}
	if got := first(Rules{RoundRobin: true, Seed: 5}); got != [flows]int{instants} {
		t.Errorf("without draws each flow is first at %d instants", got)
	}
	one, two := Rules{RoundRobin: true, Drawn: true, Seed: 5}, Rules{RoundRobin: true, Drawn: true, Seed: 6}
	if got := first(one); got != first(one) || got == first(two) || slices.Min(got[:]) == 0 {
		t.Errorf("each flow is first at %d instants, again %d, by another seed %d", got, first(one), first(two))
	}
}

// Which channel of a kernel begins first is drawn from the seed, for each kernel anew. Without draws it is always the
// first one.
func TestOrderOfChannels(t *testing.T) {
	const channels, ranks, kernels = 4, 2, 50
	first := func(r Rules) (out []int) {
		w := one().build(t)
		l := New(w.net, w.ends, w.orders, nil, r)
		for kernel := range kernels {
			for rank := range ranks {
				out = append(out, l.FirstChannel(rank, kernel, channels))
			}
		}
		return out
	}
	if got := first(Rules{Seed: 5}); !slices.Equal(got, make([]int, ranks*kernels)) {
		t.Errorf("without draws the first channels are %v", got)
	}
	got, again, other := first(Rules{Drawn: true, Seed: 5}), first(Rules{Drawn: true, Seed: 5}),
		first(Rules{Drawn: true, Seed: 6})
	if !slices.Equal(got, again) || slices.Equal(got, other) {
		t.Errorf("the first channels are %v, again %v, by another seed %v", got, again, other)
	}
	for c := range channels {
		if !slices.Contains(got, c) {
			t.Errorf("channel %d is never first", c)
		}
	}
}

// A timer that another one sets for the same instant is called in it, and one that is set for the past, too.
func TestTimersOfAnInstant(t *testing.T) {
	w := one().build(t)
	l := New(w.net, w.ends, w.orders, nil, Rules{RoundRobin: true})
	var log []int64
	l.After(500, 0, func() {
		l.After(500, 0, func() { log = append(log, l.Now()) })
		l.After(3, 0, func() { log = append(log, l.Now()) })
		l.After(501, 0, func() { log = append(log, l.Now()) })
	})
	for {
		_, stop := l.Run(link.Never)
		if stop == Reached {
			break
		}
		l.RunTimers()
	}
	if !slices.Equal(log, []int64{500, 500, 501}) {
		t.Errorf("timers at %d", log)
	}
}

// Changes alone do not keep the loop going, and those of the past are made before what happens next.
func TestChangesAlone(t *testing.T) {
	d := one()
	w := d.build(t)
	d.specs[0].Bandwidth /= 4
	params, err := link.NewParams(d.specs[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	l := New(w.net, w.ends, w.orders, []Change{{Time: 10, Params: params}, {Time: 1 << 40, Params: params}},
		Rules{RoundRobin: true})
	if _, stop := l.Run(link.Never); stop != Reached || l.Now() != 0 {
		t.Fatalf("stop %v at %d", stop, l.Now())
	}
	waitUntil(t, l, 20)
	if got := w.net.Params(0); got != params {
		t.Errorf("in force are %+v, want %+v", got, params)
	}
	if _, stop := l.Run(link.Never); stop != Reached || l.Now() != 20 {
		t.Errorf("stop %v at %d", stop, l.Now())
	}
}

// A broken flow is reported once, and makes no more steps.
func TestBrokenFlow(t *testing.T) {
	d := one()
	d.specs[0].Down = true
	w := d.build(t)
	l := New(w.net, w.ends, w.orders, nil, Rules{RoundRobin: true})
	w.ends[0].Receive()
	w.ends[0].Send(1)
	flows := runOn(t, l, link.Never)
	if len(flows) != 1 || !w.ends[0].Flow.Broken() || nextOf(l) != link.Never || l.Now() < d.transport.DownTimeout {
		t.Errorf("at %d: flows %v, broken %v, next step at %d", l.Now(), flows, w.ends[0].Flow.Broken(), nextOf(l))
	}
}

// nextOf is the time of the first step, [link.Never] if there is none.
func nextOf(l *Loop) int64 {
	first := int64(link.Never)
	for _, x := range l.queue() {
		if x.class == ctest.SimStep {
			first = min(first, int64(x.time))
		}
	}
	return first
}
