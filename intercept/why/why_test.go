// SPDX-License-Identifier: Apache-2.0

package why

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/intercept/replay/replaytest"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// job is messages on a fabric, whose times the model says.
type job struct {
	messages.Trace
	fabric *replay.Fabric
	posted map[[2]int]uint64 // on each connection
}

func newJob(f *replay.Fabric) *job {
	j := &job{fabric: f, posted: map[[2]int]uint64{}}
	j.Jobs = []string{"A"}
	for sender := range 4 {
		j.Ranks = append(j.Ranks, ledger.Info{Rank: uint32(sender), Node: uint32(sender), World: 4, Virtual: true,
			TimeScale: 1})
		for receiver := range 4 {
			if sender != receiver {
				flow := uint64(len(j.Connections))
				j.Connections = append(j.Connections,
					messages.Connection{Flow: flow, Sender: sender, Receiver: receiver, Src: sender, Dst: receiver,
						Order: flow})
			}
		}
	}
	return j
}

// call adds a call of all ranks.
func (j *job) call(name string, begun ...int64) int {
	c := messages.Call{Name: name, Comm: 1, Seq: len(j.Calls), Begun: slices.Min(begun)}
	for rank, t := range begun {
		c.Tasks = append(c.Tasks, len(j.Tasks))
		j.Tasks = append(j.Tasks, messages.Task{Owner: rank, Comm: 1, Func: name, Ranks: 4, Rank: rank, Begun: t,
			Call: len(j.Calls)})
	}
	j.Calls = append(j.Calls, c)
	return len(j.Calls) - 1
}

// send adds a message of a call. Messages of a connection are added in their order.
func (j *job) send(call, from, to int, size uint64, posted, received int64) {
	key := [2]int{from, to}
	m := messages.Message{Sender: from, SentBy: from, Receiver: to, Src: from, Dst: to, Size: size,
		Number: j.posted[key], HasSend: true, Posted: posted, HasReceive: true, ReceivePosted: received,
		SendTask: j.Calls[call].Tasks[from], ReceiveTask: j.Calls[call].Tasks[to]}
	for _, c := range j.Connections {
		if c.Sender == from && c.Receiver == to {
			m.Flow = c.Flow
		}
	}
	j.posted[key]++
	j.Calls[call].Messages = append(j.Calls[call].Messages, len(j.Messages))
	j.Messages = append(j.Messages, m)
}

// play sets the times that the model says.
func (j *job) play(t interface{ Fatal(...any) }) {
	result, err := replay.AsPosted(j.fabric, &j.Trace, replay.Prepare(&j.Trace))
	if err != nil {
		t.Fatal(err)
	}
	for i := range j.Messages {
		m, times := &j.Messages[i], result.Times[i]
		if times.Due == link.Never || times.Sent == link.Never {
			t.Fatal("a message has not arrived")
		}
		m.Sent, m.Received, m.Due, m.Complete, m.SendEnds, m.ReceiveEnds = true, true, times.Due, times.Sent,
			times.Sent, times.Due
	}
}

// explain explains the only call.
func (j *job) explain(t interface{ Fatal(...any) }) *Report {
	played, err := replay.Play(j.fabric, &j.Trace)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Of(played)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const chunk = 64 << 10

// Each planted cause is found, and is the largest one.
func TestPlantedCauses(t *testing.T) {
	for name, tc := range map[string]struct {
		lines []string
		plant func(j *job)
		want  string
		share float64 // of the call, at least
	}{
		"late receive": {nil, func(j *job) {
			j.send(j.call("Send", 0, 0, 0, 0), 0, 1, chunk, 0, 10_000_000)
		}, "waiting until rank 1 posted its receive", 0.99},
		"slow link": {[]string{"links:", "  - match: node0:node1", "    bandwidth: 1Gbps"}, func(j *job) {
			c := j.call("AllReduce", 0, 0, 0, 0)
			j.send(c, 2, 3, chunk, 0, 0)
			j.send(c, 0, 1, chunk, 0, 0)
		}, "serializing on node0:node1", 0.99},
		"behind another call": {nil, func(j *job) {
			other, c := j.call("AllToAll", 0, 0, 0, 0), j.call("AllReduce", 1000, 1000, 1000, 1000)
			for range 20 {
				j.send(other, 0, 1, chunk, 0, 0)
			}
			j.send(c, 2, 1, chunk, 1000, 0)
		}, "queueing on node1 rx behind another AllToAll", 0.3},
		"rank that is late": {nil, func(j *job) {
			c := j.call("AllReduce", 0, 0, 50_000, 0)
			j.send(c, 0, 1, chunk, 0, 0)
			j.send(c, 2, 1, chunk, 50_000, 0)
		}, "rank 2 began the call late", 0.8},
		"rank that has nothing to send": {nil, func(j *job) {
			c := j.call("AllReduce", 0, 0, 0, 0)
			j.send(c, 0, 1, chunk, 0, 0)
			j.send(c, 1, 2, chunk, 100_000, 0)
		}, "rank 1 had nothing ready to send", 0.8},
		"link that is down": {[]string{"transport:", "  kind: rdma", "  rto: 1s"}, func(j *job) {
			hop := j.fabric.Link(0, 1)
			up := j.fabric.Hops[hop].Spec
			down := up
			down.Down = true
			j.fabric.Changes = []ledger.Change{{Time: 0, Hop: hop, Spec: down}, {Time: 20_000_000, Hop: hop, Spec: up}}
			j.send(j.call("Send", 0, 0, 0, 0), 0, 1, chunk, 1000, 0)
		}, "node0:node1 was down", 0.99},
		"lossy link": {[]string{"transport:", "  rto: 4ms", "links:", "  - match: node0:node1", "    loss: 50%"},
			func(j *job) {
				c := j.call("AllReduce", 0, 0, 0, 0)
				for range 10 {
					j.send(c, 0, 1, chunk, 0, 0)
					j.send(c, 2, 3, chunk, 0, 0)
				}
			}, "recovery of losses from node0:node1", 0.4},
		"emulator": {nil, func(j *job) {
			j.send(j.call("Send", 0, 0, 0, 0), 0, 1, chunk, 0, 0)
			j.Messages[0].Late = 2_000_000
		}, "the emulator was late at rank 1", 0.99},
		"thread that did not run": {nil, func(j *job) {
			c := j.call("AllReduce", 0, 0, 0, 0)
			j.send(c, 0, 1, chunk, 0, 0)
			j.send(c, 1, 2, chunk, 2_000_000, 0)
			j.Messages[1].Stalled = 1_950_000
		}, "rank 1's thread of NCCL did not run", 0.95},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(replaytest.Fabric(t, 4, tc.lines...))
			tc.plant(j)
			j.play(t)
			r := j.explain(t)
			if r.Different != 0 || r.Skipped != 0 || len(r.Calls) != len(j.Calls) {
				t.Fatalf("%+v", r)
			}
			c := r.Calls[len(r.Calls)-1]
			first := Totals(c.Path)[0]
			if share := float64(first.Ns) / float64(c.Ns()); first.String() != tc.want || share < tc.share {
				t.Errorf("%.1f %% %s, want %q, at least %.0f %%\n%v", 100*share, first, tc.want, 100*tc.share, c.Path)
			}
			if Sum(c.Path) != c.Ns() {
				t.Errorf("the causes sum to %d of %d ns", Sum(c.Path), c.Ns())
			}
		})
	}
}

// A full window and a paused link are explained by the link at which the bytes wait, and by those whose bytes they are.
func TestCongestedLink(t *testing.T) {
	small := []string{"transport:", "  kind: tcp", "  send_buffer: 128KiB", "  window: 128KiB"}
	slow := []string{"links:", "  - match: node0:node1", "    bandwidth: 1Gbps"}
	lossless := func(more ...string) []string {
		return append([]string{"  queue: lossless:64K", "transport:", "  kind: rdma"}, more...)
	}
	switches := []string{"topology:", "  kind: leaf-spine", "  leaves: 2", "  spines: 1", "  trunk:",
		"    bandwidth: 10Gbps", "    latency: 1us", "    queue: lossless:64K"}
	const others = 40
	for name, tc := range map[string]struct {
		lines []string
		plant func(j *job)
		want  string
		share float64 // of the call, at least
		by    []Pair
	}{
		"own bytes in the window": {append(slices.Clone(small), slow...), func(j *job) {
			j.send(j.call("Send", 0, 0, 0, 0), 0, 1, 16*chunk, 0, 0)
		}, "full window or send buffer: its bytes queue at node0:node1 behind this message's own bytes", 0.8,
			[]Pair{{"rank 0", "rank 1"}}},
		"another call fills the port": {small, func(j *job) {
			other, c := j.call("AllToAll", 0, 0, 0, 0), j.call("AllReduce", 1000, 1000, 1000, 1000)
			for range others {
				j.send(other, 0, 1, chunk, 0, 0)
				j.send(other, 3, 1, chunk, 0, 0)
			}
			j.send(c, 2, 1, 16*chunk, 1000, 0)
		}, "full window or send buffer: its bytes queue at node1 rx behind another AllToAll", 0.3,
			[]Pair{{"rank 0", "rank 1"}, {"rank 3", "rank 1"}}},
		"window that is shorter than the round trip": {[]string{"transport:", "  kind: tcp", "  send_buffer: 1MiB",
			"  window: 16KiB", "links:", "  - match: node0:node1", "    latency: 10ms"}, func(j *job) {
			j.send(j.call("Send", 0, 0, 0, 0), 0, 1, 8*chunk, 0, 0)
		}, "full window or send buffer", 0.8, nil},
		"incast pauses the senders": {lossless(), func(j *job) {
			c := j.call("AllToAll", 0, 0, 0, 0)
			for range others {
				j.send(c, 0, 1, chunk, 0, 0)
				j.send(c, 2, 1, chunk, 0, 0)
			}
			j.send(j.call("Send", 0, 0, 0, 0), 3, 1, 64*chunk, 1000, 0)
		}, "node3 tx paused by the full queue at node1 rx behind another AllToAll", 0.2,
			[]Pair{{"rank 0", "rank 1"}, {"rank 2", "rank 1"}}},
		"tcp whose window is open": {[]string{"  queue: lossless:64K", "transport:", "  kind: tcp", "  send_buffer: 16MiB",
			"  window: 16MiB"}, func(j *job) {
			c := j.call("AllToAll", 0, 0, 0, 0)
			for range others {
				j.send(c, 0, 1, chunk, 0, 0)
				j.send(c, 2, 1, chunk, 0, 0)
			}
			j.send(j.call("Send", 0, 0, 0, 0), 3, 1, 64*chunk, 1000, 0)
		}, "node3 tx paused by the full queue at node1 rx behind another AllToAll", 0.2,
			[]Pair{{"rank 0", "rank 1"}, {"rank 2", "rank 1"}}},
		"queues of others do not count": {append([]string{"  queue: fair:1M"}, append(slices.Clone(small), slow...)...),
			func(j *job) {
				other, c := j.call("AllToAll", 0, 0, 0, 0), j.call("Send", 0, 0, 0, 0)
				for range 10 * others {
					j.send(other, 2, 1, chunk, 0, 0)
					j.send(other, 3, 1, chunk, 0, 0)
				}
				j.send(c, 0, 1, 4*chunk, 0, 0)
			}, "full window or send buffer: its bytes queue at node0:node1 behind this message's own bytes", 0.4,
			[]Pair{{"rank 0", "rank 1"}}},
		"a trunk pauses two hops before it": {lossless(switches...), func(j *job) {
			c := j.call("AllToAll", 0, 0, 0, 0)
			for range others {
				j.send(c, 1, 3, 4*chunk, 0, 0)
			}
			j.send(j.call("Send", 0, 0, 0, 0), 0, 2, 64*chunk, 1000, 0)
		}, "node0 tx paused by the full queue at leaf0:spine0 behind another AllToAll", 0.2,
			[]Pair{{"rank 1", "rank 3"}}},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(replaytest.Fabric(t, 4, tc.lines...))
			tc.plant(j)
			j.play(t)
			c := j.explain(t).Calls[len(j.Calls)-1]
			totals := Totals(c.Path)
			i := slices.IndexFunc(totals, func(p Total) bool { return p.String() == tc.want })
			if i < 0 || float64(totals[i].Ns) < tc.share*float64(c.Ns()) {
				t.Fatalf("no %q with %.0f %% of %d ns:\n%#v", tc.want, 100*tc.share, c.Ns(), totals)
			}
			var by []Pair
			sum := int64(0)
			for _, s := range totals[i].By {
				by, sum = append(by, s.Pair), sum+s.Ns
			}
			slices.SortFunc(by, func(a, b Pair) int { return strings.Compare(a.From+a.To, b.From+b.To) })
			if !slices.Equal(by, tc.by) || by != nil && sum != totals[i].Ns {
				t.Errorf("%v, want %v: %d of %d ns", totals[i].By, tc.by, sum, totals[i].Ns)
			}
			if Sum(c.Path) != c.Ns() {
				t.Errorf("the causes sum to %d of %d ns", Sum(c.Path), c.Ns())
			}
		})
	}
}

// A call that has not ended lasts until the ledgers end, and what it waits for is its cause.
func TestUnfinishedCalls(t *testing.T) {
	const end = 5_000_000
	for name, tc := range map[string]struct {
		lines     []string
		down      bool // the link from node 0 to node 1, from 2000 on
		noReceive bool
		want      string
	}{
		"link that is down": {[]string{"transport:", "  kind: rdma", "  rto: 1s"}, true, false, "node0:node1 was down"},
		"tcp":               {[]string{"transport:", "  kind: tcp"}, true, false, "node0:node1 was down"},
		"no receive": {[]string{"transport:", "  kind: rdma"}, false, true,
			"waiting until rank 1 posted its receive"},
		"unknown": {nil, false, false, "not explained by the recorded messages"},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(replaytest.Fabric(t, 4, tc.lines...))
			if tc.down {
				hop := j.fabric.Link(0, 1)
				down := j.fabric.Hops[hop].Spec
				down.Down = true
				j.fabric.Changes = []ledger.Change{{Time: 2000, Hop: hop, Spec: down}}
			}
			c := j.call("AllReduce", 0, 0, 0, 0)
			j.send(c, 2, 3, chunk, 0, 0)
			j.send(c, 0, 1, 4*chunk, 1000, 0)
			j.send(c, 0, 1, chunk, 1500, 0)
			played := j.Messages
			j.Messages = played[:1]
			j.play(t)
			j.Messages = played
			for i := 1; i < 3; i++ {
				j.Messages[i].HasReceive = !tc.noReceive
				j.Messages[i].Failed = end
			}
			r := j.explain(t)
			got := r.Calls[0]
			first := Totals(got.Path)[0]
			if !got.Unfinished || r.Functions[0].Unfinished != 1 || got.End != end || got.Rank != "rank 1" ||
				first.String() != tc.want {
				t.Errorf("%+v; first cause %v", got, first)
			}
			if Sum(got.Path) != got.Ns() || got.Ns() != end {
				t.Errorf("the causes sum to %d of %d ns", Sum(got.Path), got.Ns())
			}
		})
	}
}

// Whatever is sent when, the causes of each call are positive and sum to its time.
func TestPropertyCausesSumUp(t *testing.T) {
	fabrics := []*replay.Fabric{
		replaytest.Fabric(t, 4), replaytest.Fabric(t, 4, "transport:", "  kind: tcp", "  send_buffer: 128KiB",
			"  window: 128KiB"),
		replaytest.Fabric(t, 4, "links:", "  - match: node0:*", "    bandwidth: 3Gbps", "    loss: 1%"),
		replaytest.Fabric(t, 4, "endpoint:", "  overhead: 700ns", "  gap: 2us"),
		replaytest.Fabric(t, 4, "  queue: lossless:64K"), replaytest.Fabric(t, 4, "  queue: fair:64K"),
	}
	rapid.Check(t, func(t *rapid.T) {
		j := newJob(rapid.SampledFrom(fabrics).Draw(t, "fabric"))
		now := int64(0)
		for range rapid.IntRange(1, 5).Draw(t, "calls") {
			c := j.call("AllReduce", now, now, now+rapid.Int64Range(0, 9000).Draw(t, "late"), now)
			at := now
			for range rapid.IntRange(1, 12).Draw(t, "messages") {
				from := rapid.IntRange(0, 3).Draw(t, "from")
				to := (from + rapid.IntRange(1, 3).Draw(t, "to")) % 4
				at += rapid.Int64Range(0, 8000).Draw(t, "after")
				j.send(c, from, to, uint64(rapid.IntRange(0, 200_000).Draw(t, "bytes")), at,
					at+rapid.Int64Range(-4000, 8000).Draw(t, "receive"))
			}
			now = at + rapid.Int64Range(0, 20_000).Draw(t, "pause")
		}
		orderReceives(j)
		j.play(t)
		for _, c := range j.explain(t).Calls {
			if Sum(c.Path) != c.Ns() {
				t.Fatalf("%s #%d: the causes sum to %d of %d ns", c.Name, c.Seq, Sum(c.Path), c.Ns())
			}
			for _, p := range c.Path {
				if p.Ns <= 0 || (p.Congested != "") != (p.Behind != "" && (p.Cause == Window || p.Cause == Paused)) {
					t.Fatalf("%s #%d: %+v", c.Name, c.Seq, p)
				}
			}
		}
	})
}

// orderReceives makes the receives of each connection come in its order, from time 0 on.
func orderReceives(j *job) {
	last := map[uint64]int64{}
	for i := range j.Messages {
		m := &j.Messages[i]
		m.ReceivePosted = max(m.ReceivePosted, last[m.Flow], 0)
		last[m.Flow] = m.ReceivePosted
	}
}

// What another job sends is named with the job.
func TestOtherJob(t *testing.T) {
	j := newJob(replaytest.Fabric(t, 4))
	j.Jobs = []string{"A", "B"}
	other := j.call("AllToAll", 0, 0, 0, 0)
	for range 20 {
		j.send(other, 0, 1, chunk, 0, 0)
	}
	for i := range j.Messages {
		j.Messages[i].Job = 1
	}
	for _, c := range j.Connections {
		c.Job, c.Order = 1, c.Order+100
		j.Connections = append(j.Connections, c)
	}
	for i := range j.Tasks {
		j.Tasks[i].Job = 1
	}
	j.Calls[other].Comm = 2
	j.send(j.call("AllReduce", 0, 0, 0, 0), 2, 1, chunk, 1000, 0)
	j.play(t)
	for _, c := range j.explain(t).Calls {
		if c.Name != "AllReduce" {
			continue
		}
		if first := Totals(c.Path)[0]; first.String() != "queueing on node1 rx behind job B's AllToAll" ||
			c.Rank != "rank 1 of A" {
			t.Errorf("%s; the last byte was at %s", first, c.Rank)
		}
	}
}
