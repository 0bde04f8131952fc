// SPDX-License-Identifier: Apache-2.0

package clock_test

import (
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/shaper/engine/clock"
	"github.com/ddlemu/ddlemu/shaper/engine/clock/clocktest"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/engine/sim"
)

const start = int64(clock.Start)

// gigabyte is a hop of 1 GB/s: a byte takes a nanosecond.
func gigabyte(latency time.Duration) link.Spec {
	return link.Spec{Bandwidth: 8e9, Latency: latency, MTU: 4096, QueuePolicy: link.Lossless}
}

func rdma() link.Transport {
	return link.Transport{Kind: link.RDMA, Second: 1e9, RTO: 67e6, DownTimeout: 1e9}
}

func open(t interface {
	Fatal(...any)
	Cleanup(func())
}, nodes int, specs []link.Spec) *clocktest.World {
	return openWith(t, nodes, specs, rdma())
}

func openWith(t interface {
	Fatal(...any)
	Cleanup(func())
}, nodes int, specs []link.Spec, transport link.Transport) *clocktest.World {
	w, err := clocktest.New(nodes, specs, transport, 7)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// One message: the clock jumps to its due time, wakes the receiver and nobody else, then
// jumps to its completion and wakes the sender.
func TestJumpsToWhatAnEndMustSee(t *testing.T) {
	w := open(t, 2, []link.Spec{gigabyte(5 * time.Microsecond)})
	x := w.Flow(0, 1, 1, []int{0})
	w.Receive(x)
	w.Post(x, 1000)
	w.Idle(0)
	w.Run(0)
	if w.Now() != start {
		t.Fatalf("the clock moved to %d while rank 1 worked", w.Now())
	}
	if d := cmp.Diff([]clock.Actor{{0, "application", os.Getpid(), clock.Polls},
		{1, "application", os.Getpid(), clock.Works}}, w.Status().Actors); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	w.Idle(1)
	w.Run(1)
	due, complete := w.Times(x, 0)
	if w.Now() != due || due <= start+6000 || due > start+20000 {
		t.Errorf("the time is %d, the message is due at %d", w.Now(), due)
	}
	if w.Events(0) != 0 || w.Events(1) != 1 {
		t.Errorf("events %d and %d, want those of the receiver's node raised", w.Events(0), w.Events(1))
	}
	w.Run(0)
	if w.Now() != due {
		t.Errorf("the clock moved to %d while rank 1 was to look", w.Now())
	}
	w.Idle(1)
	w.Run(1)
	if w.Now() != complete || w.Events(0) != 1 || w.Events(1) != 1 {
		t.Errorf("the time is %d, the send is complete at %d; events %d and %d", w.Now(), complete, w.Events(0),
			w.Events(1))
	}
	w.Idle(0)
	w.Run(0)
	if w.Now() != complete || w.Status().Stuck != 1 {
		t.Errorf("the clock moved to %d with nothing left to happen; stuck %d times", w.Now(), w.Status().Stuck)
	}
}

// A rank that dies keeps nobody waiting, also if it died while it ran the clock.
func TestADeadRankKeepsNobodyWaiting(t *testing.T) {
	for _, holding := range []bool{false, true} {
		w := open(t, 3, []link.Spec{gigabyte(time.Microsecond)})
		x := w.Flow(0, 1, 1, []int{0})
		w.Receive(x)
		w.Post(x, 1000)
		w.Idle(0)
		w.Idle(1)
		w.Run(0)
		if w.Now() != start {
			t.Fatalf("the clock moved while rank 2 worked")
		}
		w.Die(2, holding)
		w.Idle(0) // who was idle looks again
		w.Idle(1)
		w.Run(0)
		if due, _ := w.Times(x, 0); w.Now() != due || due == start || (w.Status().Repairs == 1) != holding {
			t.Errorf("holding %v: the time is %d, the message is due at %d; %d repairs", holding, w.Now(), due,
				w.Status().Repairs)
		}
	}
}

// A rank dies while it runs the clock. It has taken the posts of all flows from their list, has
// left the heap half changed, and is making the steps of the second flow. The others run the
// clock as if it had not been there, and only this flow is broken.
func TestADeadRankLeavesTheClockHalfRun(t *testing.T) {
	w := open(t, 3, []link.Spec{gigabyte(time.Microsecond), gigabyte(time.Microsecond), gigabyte(time.Microsecond)})
	var flows [3]*clocktest.Flow
	for i := range flows {
		flows[i] = w.Flow(0, 1, uint64(1+i), []int{i})
		w.Receive(flows[i])
		w.Post(flows[i], 1000*uint64(1+i))
	}
	w.Idle(0)
	w.Idle(1)
	w.Interrupt(2, flows[1])
	w.Run(0)
	if w.Now() != start || w.IsBroken(flows[1]) {
		t.Fatalf("rank 0 ran the clock although the dead rank has it")
	}
	w.Die(2, true)
	w.Run(0)
	if w.Now() != start {
		t.Fatalf("the clock moved before the ranks that may have something to see have looked")
	}
	for range 8 {
		w.Idle(0)
		w.Idle(1)
		w.Run(0)
	}
	_, first := w.Times(flows[0], 0)
	_, third := w.Times(flows[2], 0)
	if first <= start || third <= first || w.Now() != third {
		t.Errorf("the messages complete at %d and %d, and the time is %d", first, third, w.Now())
	}
	if w.IsBroken(flows[0]) || !w.IsBroken(flows[1]) || w.IsBroken(flows[2]) || w.Status().Repairs != 1 {
		t.Errorf("broken: %v, %v, %v; %d repairs", w.IsBroken(flows[0]), w.IsBroken(flows[1]), w.IsBroken(flows[2]),
			w.Status().Repairs)
	}
	if n := w.Read(flows[1]); n != 0 {
		t.Errorf("the model has read %d messages of the flow whose state is not known", n)
	}
	w.CloseFlow(flows[1])
	w.Run(0)
	if !w.IsFree(flows[1]) {
		t.Error("the broken flow is not freed")
	}
}

// A process writes a step in the past to the heap. The time does not go back: the flow is broken, and both of its ends
// are told.
func TestAStepInThePastBreaksItsFlow(t *testing.T) {
	w := open(t, 2, []link.Spec{gigabyte(5 * time.Microsecond)})
	x := w.Flow(0, 1, 1, []int{0})
	w.Receive(x)
	w.Post(x, 1000)
	w.Idle(0)
	w.Idle(1)
	w.Run(0)
	due, _ := w.Times(x, 0)
	w.Idle(1)
	w.Corrupt()
	w.Run(0)
	if w.Now() != due || !w.IsCorrupt(x) || w.Events(0) != 1 || w.Events(1) != 2 {
		t.Errorf("the time is %d, want %d; corrupt %v; events %d and %d", w.Now(), due, w.IsCorrupt(x), w.Events(0),
			w.Events(1))
	}
}

// A process writes a hop that does not exist to the path of a flow. The flow is broken, and both of its ends are told:
// one of them may wait for a message.
func TestAPathOfOtherHopsBreaksItsFlow(t *testing.T) {
	w := open(t, 2, []link.Spec{gigabyte(5 * time.Microsecond)})
	x := w.Flow(0, 1, 1, []int{0})
	w.Receive(x)
	w.Post(x, 1000)
	clocktest.CorruptPath(x)
	w.Idle(0)
	w.Idle(1)
	w.Run(0)
	if !w.IsCorrupt(x) || w.Events(0) != 1 || w.Events(1) != 1 {
		t.Errorf("corrupt %v; events %d and %d, want one of each node", w.IsCorrupt(x), w.Events(0), w.Events(1))
	}
}

// Ranks died with a message under way, and nobody is left. The next job finds no flow, no
// deadlock, and nothing to repair.
func TestResetRemovesWhatTheDeadLeft(t *testing.T) {
	w := open(t, 2, []link.Spec{gigabyte(time.Microsecond)})
	x := w.Flow(0, 1, 1, []int{0})
	w.Receive(x)
	w.Post(x, 1<<20)
	w.Interrupt(1, x)
	w.Die(1, true)
	w.Die(0, false)
	w.Reset(start + 77)
	w.Join(0)
	w.Join(1)
	w.Idle(0)
	w.Idle(1)
	w.Run(0)
	if s := w.Status(); !w.IsFree(x) || s.Now != start+77 || s.Repairs != 0 || s.Stuck != 1 {
		t.Errorf("free %v, %+v", w.IsFree(x), s)
	}
	w.Reset(start)
	if w.Now() != start+77 {
		t.Errorf("the time went back to %d", w.Now())
	}
}

// A rank that waits for a time: what happens before is seen first, then time stops there, and
// does not go on before the rank waits again.
func TestTimesThatRanksWaitFor(t *testing.T) {
	w := open(t, 2, []link.Spec{gigabyte(5 * time.Microsecond)})
	x := w.Flow(0, 1, 1, []int{0})
	w.Receive(x)
	w.Post(x, 1000)
	w.SleepUntil(0, start+50_000)
	w.Idle(1)
	w.Run(0)
	if due, _ := w.Times(x, 0); w.Now() != due || due >= start+50_000 {
		t.Fatalf("the time is %d, want that of the message, %d", w.Now(), due)
	}
	w.Idle(1)
	w.Run(1) // the acknowledgement
	w.Idle(1)
	w.Run(1)
	if w.Now() != start+50_000 || w.Status().Actors[0].State != clock.Computes {
		t.Fatalf("the time is %d, want %d", w.Now(), start+50_000)
	}
	w.Idle(1)
	w.Run(1)
	if w.Now() != start+50_000 {
		t.Errorf("the time is %d although rank 0 may work", w.Now())
	}
}

// Nothing is left to happen only if nobody sleeps outside of our calls: he may yet act.
func TestSettles(t *testing.T) {
	w := open(t, 2, []link.Spec{gigabyte(time.Microsecond)})
	w.Settle(0)
	w.Sleep(1)
	w.Run(1)
	if w.Settled() != 0 {
		t.Errorf("it settled although a rank sleeps outside")
	}
	w.Settle(1)
	w.Run(1)
	if w.Settled() != 1 {
		t.Errorf("it settled %d times, want 1", w.Settled())
	}
}

// A rank that leaves does not begin to run the clock, and does not break it.
func TestARankThatHasLeftRunsNothing(t *testing.T) {
	w := open(t, 2, []link.Spec{gigabyte(time.Microsecond)})
	x := w.Flow(0, 1, 1, []int{0})
	w.Receive(x)
	w.Post(x, 1000)
	w.Idle(0)
	w.Leave(1)
	w.Idle(0)
	w.Run(1)
	if w.Now() != start {
		t.Errorf("the rank that had left ran the clock")
	}
	w.Run(0)
	if s := w.Status(); s.Now == start || s.Repairs != 0 {
		t.Errorf("the time is %d, %d repairs", s.Now, s.Repairs)
	}
}

// A flow that both ends have closed is free, and has no steps any more.
func TestClosedFlowsAreFreed(t *testing.T) {
	w := open(t, 2, []link.Spec{gigabyte(time.Microsecond)})
	x := w.Flow(0, 1, 1, []int{0})
	w.Receive(x)
	w.Post(x, 1<<20)
	w.CloseFlow(x)
	w.Idle(0)
	w.Idle(1)
	w.Run(0)
	if !w.IsFree(x) || w.Now() != start || w.Status().Stuck != 1 {
		t.Errorf("free %v, time %d, stuck %d", w.IsFree(x), w.Now(), w.Status().Stuck)
	}
}

// maxPosts is the most messages that a flow posts at one moment.
const maxPosts = 3

// reference plays the same posts on link.Network, with a plain search in place of the heap.
type reference struct {
	net   *link.Network
	flows []*link.Flow
	order []uint64
	next  []int64
	now   int64
	due   []int // messages of each flow that the receiver has seen
	sent  []int
}

// run posts the messages of these sizes, of each flow in turn, and makes the steps up to the
// first that an end must see.
func (r *reference) run(sizes map[int][]uint64) {
	posting := slices.SortedFunc(maps.Keys(sizes), func(a, b int) int { return int(r.order[a]) - int(r.order[b]) })
	woke := false
	for turn := range maxPosts {
		for _, i := range posting {
			if turn < len(sizes[i]) {
				r.flows[i].Post(sizes[i][turn], r.now)
				woke = r.step(i) || woke
			}
		}
	}
	for {
		first := -1
		for i, at := range r.next {
			if at != link.Never &&
				(first < 0 || at < r.next[first] || at == r.next[first] && r.order[i] < r.order[first]) {
				first = i
			}
		}
		if first < 0 || woke && r.next[first] > r.now {
			return
		}
		r.now = max(r.now, r.next[first])
		woke = r.step(first) || woke
	}
}

func (r *reference) step(i int) (woke bool) {
	f := r.flows[i]
	before := f.Arrived()
	r.next[i] = f.Advance(r.now)
	woke = f.Arrived() != before
	for ; f.Message(uint64(r.due[i])).Due <= r.now; r.due[i]++ {
		woke = true
	}
	for ; f.Message(uint64(r.sent[i])).Sent <= r.now; r.sent[i]++ {
		woke = true
	}
	r.next[i] = min(r.next[i], f.Message(uint64(r.due[i])).Due, f.Message(uint64(r.sent[i])).Sent)
	if r.next[i] != link.Never {
		r.next[i] = max(r.next[i], r.now+1)
	}
	return woke
}

// The clock stops at the same times, with the same times of all messages, as a plain search
// for the next step does, whatever the order in which ranks post.
func TestPropertyStepsAreInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const nodes, hops = 4, 5
		specs, params := make([]link.Spec, hops), make([]link.Params, hops)
		for i := range specs {
			specs[i] = gigabyte(time.Duration(rapid.Int64Range(0, 3000).Draw(t, "latency")))
			specs[i].Bandwidth = rapid.SampledFrom([]uint64{1e9, 8e9, 100e9}).Draw(t, "bandwidth")
			specs[i].QueueBytes = rapid.SampledFrom([]uint64{0, 64 << 10}).Draw(t, "queue")
			var err error
			if params[i], err = link.NewParams(specs[i], 1); err != nil {
				t.Fatal(err)
			}
		}
		tr := rdma()
		tr.Host.PerMessage = rapid.SampledFrom([]int64{0, 700}).Draw(t, "per message")
		w := openWith(t, nodes, specs, tr)
		r := &reference{net: link.NewNetwork(params, &tr, nil, 7), now: start}
		t.Cleanup(r.net.Close)
		for i := range r.net.Hops {
			r.net.Hops[i].ID = uint32(i)
		}
		n := rapid.IntRange(1, 6).Draw(t, "flows")
		orders := rapid.Permutation([]uint64{1, 2, 3, 4, 5, 6}).Draw(t, "orders")
		flows := make([]int, n)
		for i := range flows {
			flows[i] = i
			path := rapid.Permutation([]int{0, 1, 2, 3, 4}).Draw(t, "path")[:rapid.IntRange(1, 3).Draw(t, "hops")]
			var steps []link.PathHop
			for _, h := range path {
				steps = append(steps, link.PathHop{Hop: h})
			}
			w.Flow(i%nodes, (i+1)%nodes, orders[i], path)
			r.flows, r.order = append(r.flows, r.net.NewFlow(orders[i], steps, path)), append(r.order, orders[i])
			r.next, r.due, r.sent = append(r.next, link.Never), append(r.due, 0), append(r.sent, 0)
		}
		for range rapid.IntRange(1, 60).Draw(t, "rounds") {
			sizes := map[int][]uint64{}
			for _, i := range rapid.Permutation(flows).Draw(t, "turn")[:rapid.IntRange(0, n).Draw(t, "posting")] {
				sizes[i] = rapid.SliceOfN(rapid.Uint64Range(0, 300_000), 1, maxPosts).Draw(t, "sizes")
				for _, size := range sizes[i] {
					w.Receive(w.At(i))
					w.Post(w.At(i), size)
					r.flows[i].Recv(r.now)
				}
			}
			for i := range nodes {
				w.Idle(i)
			}
			w.Run(rapid.IntRange(0, nodes-1).Draw(t, "scheduler"))
			r.run(sizes)
			if w.Now() != r.now {
				t.Fatalf("the time is %d, want %d", w.Now(), r.now)
			}
			for i, f := range r.flows {
				for k := range r.due[i] {
					due, complete := w.Times(w.At(i), k)
					if m := f.Message(uint64(k)); due != m.Due || complete != m.Sent {
						t.Fatalf("flow %d, message %d: due %d and complete %d, want %d and %d", i, k, due, complete,
							m.Due, m.Sent)
					}
				}
			}
		}
	})
}

// The clock puts blocks in force in C and `ddlemu shape` in Go: any changes, some of which take the hop down, leave the
// same hop and blocks.
func TestPutInForceIsOneRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		down := rapid.SliceOfN(rapid.Bool(), 2, 6).Draw(t, "down")
		var inC, inGo link.Hop
		inC.NextFree = rapid.Int64Range(0, 1000).Draw(t, "free")
		inGo.NextFree = inC.NextFree
		blocksC := make([]link.Block, len(down))
		for i, is := range down {
			blocksC[i].Params.Down = is
		}
		blocksGo := slices.Clone(blocksC)
		now := int64(0)
		for range rapid.IntRange(1, 12).Draw(t, "changes") {
			now += rapid.Int64Range(1, 500).Draw(t, "later")
			n := rapid.Uint32Range(0, uint32(len(down)-1)).Draw(t, "block")
			if n == inGo.Block {
				continue // a block that a hop uses is not written again
			}
			clocktest.PutInForce(&inC, blocksC, n, now, 7*now)
			link.PutInForce(&inGo, blocksGo, n, now, 7*now)
			if d := cmp.Diff(inGo, inC, cmpopts.IgnoreUnexported(link.Hop{})); d != "" {
				t.Fatalf("hop (-Go +C):\n%s", d)
			}
			if d := cmp.Diff(blocksGo, blocksC, cmpopts.IgnoreUnexported(link.Params{})); d != "" {
				t.Fatalf("blocks (-Go +C):\n%s", d)
			}
		}
	})
}

// A planned change is in force from its time on: the clock makes it, between two steps. The messages have the times that
// they have in private memory (sim.Loop). A change of the past is made at once, and one that nothing can meet is not.
func TestPlannedChange(t *testing.T) {
	const ms = 1_000_000
	specs := []link.Spec{gigabyte(1000), gigabyte(1000)}
	half := specs[0]
	half.Bandwidth /= 2
	changes := []link.PlannedChange{{Time: start + 3*ms}, {Time: start + 1000*ms}}
	tr := rdma()
	w := openWith(t, 2, specs, tr)
	if err := w.Plan(changes, []link.Spec{half, specs[0]}); err != nil {
		t.Fatal(err)
	}
	x := w.Flow(0, 1, 1, []int{0, 1})

	var params []link.Params
	for _, s := range []link.Spec{specs[0], specs[1], half} {
		p, err := link.NewParams(s, 1)
		if err != nil {
			t.Fatal(err)
		}
		params = append(params, p)
	}
	net := link.NewNetwork(params[:2], &tr, nil, 7)
	t.Cleanup(net.Close)
	var end sim.Endpoints
	if err := end.Connect(1, []link.PathHop{{Hop: 0}, {Hop: 1}}, []int{0, 1}, net); err != nil {
		t.Fatal(err)
	}
	loop := sim.New(net, []*sim.Endpoints{&end}, []uint64{1}, []sim.Change{{Time: 3 * ms, Params: params[2]}},
		sim.Rules{RoundRobin: true})

	const messages, size = 6, ms // bytes; a byte takes a nanosecond
	for range messages {
		w.Receive(x)
		w.Post(x, size)
		end.Receive()
		end.Send(size)
	}
	for w.Read(x) < messages || w.Status().Stuck == 0 {
		w.Idle(0)
		w.Idle(1)
		w.Run(0)
	}
	for stop := sim.Seen; stop != sim.Reached; {
		_, stop = loop.Run(link.Never)
	}
	for i := range messages {
		due, complete := w.Times(x, i)
		if m := end.Flow.Message(uint64(i)); due-start != m.Due || complete-start != m.Sent {
			t.Errorf("message %d: due at %d and complete at %d, want %d and %d", i, due-start, complete-start, m.Due,
				m.Sent)
		}
	}
	last, _ := w.Times(x, messages-1)
	// The segments that have begun at 3 ms keep their rate.
	if off := last - start - (3*ms + 2*3*ms); max(off, -off) > 2*link.MaxSegment {
		t.Errorf("the last message is due at %d, half of the rate from 3 ms on gives %d", last-start, 9*ms)
	}
	if w.Now() >= start+1000*ms {
		t.Errorf("the time is %d: a change alone moved it", w.Now())
	}
}
