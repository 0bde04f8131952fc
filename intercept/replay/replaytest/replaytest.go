// SPDX-License-Identifier: Apache-2.0

// Package replaytest has fabrics and recorded jobs for tests.
package replaytest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ddlemu/ddlemu/configs"
	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// Fabric is a fabric of so many nodes with links of 100 Gb/s and 1 us, without overheads, and what else
// the lines of a fabric file say.
func Fabric(t testing.TB, nodes int, lines ...string) *replay.Fabric {
	t.Helper()
	text := fmt.Sprintf("base: loopback\nnodes: %d\nlink:\n  bandwidth: 100Gbps\n  latency: 1us\n%s\n", nodes,
		strings.Join(lines, "\n"))
	c, err := configs.Decode("test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	f, err := fabric.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &replay.Fabric{Fabric: f, TimeScale: 1}
}

// TwoJobs is a job of ranks on nodes 0 and 1 and one of ranks on nodes 2 and 1. Each sends one message
// of 1.25 MB (100 us on a link), in a call of its own, and the first one a second one, 30 us after the first
// one was complete.
func TwoJobs(t testing.TB, f *replay.Fabric) *messages.Trace {
	t.Helper()
	tr := &messages.Trace{Jobs: []string{"A", "B"}, Nodes: map[[2]int]int{{0, 0}: 0, {0, 1}: 1, {1, 0}: 2, {1, 1}: 1}}
	tr.Ranks = []ledger.Info{{World: 2, Virtual: true, TimeScale: 1}}
	for job, from := range []int{0, 2} {
		tr.Connections = append(tr.Connections, messages.Connection{Job: job, Flow: uint64(job), Sender: 0, Receiver: 1,
			Src: from, Dst: 1, Order: uint64(job)})
	}
	add := func(job, from int, number uint64, posted int64) {
		c := messages.Call{Name: "Send", Comm: uint64(job), Seq: int(number),
			Tasks: []int{len(tr.Tasks), len(tr.Tasks) + 1}, Messages: []int{len(tr.Messages)}}
		for rank, function := range []string{"Send", "Recv"} {
			tr.Tasks = append(tr.Tasks, messages.Task{Job: job, Owner: rank, Rank: rank, Comm: uint64(job),
				Func: function, Ranks: 2, Begun: posted, Call: len(tr.Calls)})
		}
		tr.Messages = append(tr.Messages, messages.Message{
			Job: job, Flow: uint64(job), Number: number, Sender: 0, Receiver: 1, Src: from, Dst: 1, Size: 1_250_000,
			HasSend: true, Posted: posted, HasReceive: true,
			SendTask: c.Tasks[0], ReceiveTask: c.Tasks[1],
		})
		tr.Calls = append(tr.Calls, c)
	}
	add(0, 0, 0, 0)
	add(1, 2, 0, 0)
	times := Play(t, f, tr)
	add(0, 0, 1, times[0].Sent+30_000)
	Play(t, f, tr)
	return tr
}

// Play sets what the model says of the messages that are posted, and returns their times.
func Play(t testing.TB, f *replay.Fabric, tr *messages.Trace) []replay.Times {
	t.Helper()
	r, err := replay.AsPosted(f, tr, replay.Prepare(tr))
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range r.Times {
		m := &tr.Messages[i]
		m.Sent, m.Received, m.Due, m.Complete, m.SendEnds, m.ReceiveEnds = true, true, x.Due, x.Sent, x.Sent, x.Due
	}
	return r.Times
}

// Ring is a job with one rank per NIC. Each sends messages of 1.25 MB to the same NIC of the next node, as many as
// rounds says, each in a call of its own.
func Ring(t testing.TB, f *replay.Fabric, rounds int) *messages.Trace {
	t.Helper()
	nics, perNode := f.NICs(), f.Config.NICsPerNode
	tr := &messages.Trace{Jobs: []string{"ring"}, Nodes: map[[2]int]int{},
		Ranks: []ledger.Info{{World: uint32(nics), Virtual: true, TimeScale: 1}}}
	for n := range nics {
		next := (n + perNode) % nics
		tr.Nodes[[2]int{0, n}] = f.NodeOfNIC(n)
		tr.Connections = append(tr.Connections, messages.Connection{Flow: uint64(n), Sender: n, Receiver: next, Src: n,
			Dst: next, Order: uint64(n)})
	}
	for round := range rounds {
		for n, c := range tr.Connections {
			tasks := []int{len(tr.Tasks), len(tr.Tasks) + 1}
			posted := int64(round) * 300_000
			for i, rank := range []int{c.Sender, c.Receiver} {
				tr.Tasks = append(tr.Tasks, messages.Task{Owner: rank, Rank: rank, Comm: uint64(n),
					Func: []string{"Send", "Recv"}[i], Ranks: 2, Begun: posted, Call: len(tr.Calls)})
			}
			tr.Calls = append(tr.Calls, messages.Call{Name: "Send", Comm: uint64(n), Seq: round, Tasks: tasks,
				Messages: []int{len(tr.Messages)}})
			tr.Messages = append(tr.Messages, messages.Message{Flow: c.Flow, Number: uint64(round), Sender: c.Sender,
				Receiver: c.Receiver, Src: c.Src, Dst: c.Dst, Size: 1_250_000, HasSend: true, Posted: posted,
				HasReceive: true, ReceivePosted: posted, SendTask: tasks[0], ReceiveTask: tasks[1]})
		}
	}
	Play(t, f, tr)
	return tr
}
