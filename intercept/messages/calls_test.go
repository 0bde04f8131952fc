// SPDX-License-Identifier: Apache-2.0

package messages

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
	"github.com/ddlemu/ddlemu/shaper/fabric/ledger/ledgertest"
)

// Numbers of NCCL.
const (
	allReduce, send, receive = 4, 6, 7
	ring, simple             = 1, 2
)

func p2p(function uint8, rank, peer int32, group uint32, begun int64) ledger.Task {
	return ledger.Task{Func: function, Algo: ledger.Unknown, Proto: ledger.Unknown, Comm: 77, Group: group, Peer: peer,
		Ranks: 2, Rank: rank, Begun: begun}
}

// calls is a job of two ranks: an AllReduce, an exchange, a single send, and a message that nothing
// is known about. Each rank has one connection in each direction.
func calls() [2]ledgertest.Ledger {
	var out [2]ledgertest.Ledger
	for rank := range int32(2) {
		peer := 1 - rank
		l := ledgertest.Ledger{Info: of(uint32(rank)),
			Connections: []ledger.Connection{{Flow: uint64(10 + rank), Sends: 1, Src: uint32(rank), Dst: uint32(peer)},
				{Flow: uint64(10 + peer), Src: uint32(peer), Dst: uint32(rank)}}}
		l.Tasks = []ledger.Task{
			{Func: allReduce, Algo: ring, Proto: simple, Comm: 77, Seq: 12, Ranks: 2, Rank: rank,
				Begun: int64(100 + rank)},
			p2p(send, rank, peer, 1, 200), p2p(receive, rank, peer, 1, 200), // tasks 2 and 3
		}
		pid := int32(l.Info.PID)
		l.Tasks = append(l.Tasks, p2p([]uint8{send, receive}[rank], rank, peer, 2, 300))
		first := uint32(len(l.Tasks) + 1)
		l.Ops = []ledger.Op{
			{Task: 1, PID: pid, Peer: peer, Channel: 3, Sends: 1, Steps: 2}, {Task: 1, PID: pid, Peer: peer, Channel: 3,
				Steps: 2},
			{Task: 2, PID: pid, Peer: peer, Channel: 1, Sends: 1, Steps: 1}, {Task: 3, PID: pid, Peer: peer, Channel: 1,
				Steps: 1},
			{Task: 4, PID: pid, Peer: peer, Channel: 0, Sends: uint16(peer), Steps: 1},
		}
		add := func(kind ledger.Kind, conn, op uint32, msg uint64, posted int64) {
			l.Records = append(l.Records, ledger.Record{Kind: kind, Conn: conn, Op: op, Msg: msg, Size: 8,
				Posted: posted, Modelled: posted + 5, Returned: posted + 6})
		}
		for msg := range uint64(2) {
			add(ledger.Send, 0, first, msg, 110+int64(msg))
			add(ledger.Receive, 1, first+1, msg, 110+int64(msg))
		}
		add(ledger.Send, 0, first+2, 2, 210)
		add(ledger.Receive, 1, first+3, 2, 210)
		if rank == 0 {
			add(ledger.Send, 0, first+4, 3, 310)
			add(ledger.Send, 0, 0, 4, 400) // not attributed by the sender
		} else {
			add(ledger.Receive, 1, first+4, 3, 310)
			add(ledger.Receive, 1, 999, 4, 400) // its operation was overwritten
		}
		out[rank] = l
	}
	return out
}

// Messages find their collective or send, whoever of the two ends knows it.
func TestCalls(t *testing.T) {
	two := calls()
	tr := load(t, write(t, two[:]...))
	var got []string
	for _, c := range tr.Calls {
		got = append(got, fmt.Sprintf("%s #%d: %d tasks, %d messages, %d bytes, %d to %d", c.Name, c.Seq, len(c.Tasks),
			len(c.Messages), c.Bytes, c.Begun, c.Ended))
	}
	want := []string{
		"AllReduce #12: 2 tasks, 4 messages, 32 bytes, 100 to 116",
		"AllToAll #0: 4 tasks, 2 messages, 16 bytes, 200 to 215",
		"Send #0: 2 tasks, 1 messages, 8 bytes, 300 to 315",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if n := tr.Unattributed(); n != 1 {
		t.Errorf("%d messages without a call", n)
	}
	for _, i := range tr.Calls[0].Messages {
		m := tr.Messages[i]
		if m.Channel != 3 || m.Step != int(m.Number) || tr.CallOf(&m) != 0 || tr.Tasks[m.SendTask].Owner != m.Sender ||
			tr.Tasks[m.ReceiveTask].Owner != m.Receiver {
			t.Errorf("%+v", m)
		}
		if x := tr.Tasks[m.Task()]; x.Algo != "Ring" || x.Proto != "Simple" || x.Func != "AllReduce" {
			t.Errorf("%+v", x)
		}
	}
}

// Kernels tell numbers of their processes instead of NCCL's hash.
func TestCallsOfKernels(t *testing.T) {
	two := calls()
	for i := range two {
		for j := range two[i].Tasks {
			two[i].Tasks[j].Kind = ledger.KernelTask
			// the second rank has made another one before
			two[i].Tasks[j].Comm = uint64(two[i].Info.PID)<<32 | uint64(1+i)
		}
	}
	tr := load(t, write(t, two[:]...))
	if len(tr.Calls) != 3 || len(tr.Calls[0].Tasks) != 2 || len(tr.Calls[1].Tasks) != 4 || len(tr.Calls[2].Tasks) != 2 {
		t.Errorf("%+v", tr.Calls)
	}
}

// kernelTasks is an AllReduce of two communicators with four ranks each. Ranks 0 and 3 of each exchange
// messages, and so do ranks 1 and 2, but not these with those. order is the number of the second
// communicator in its processes.
func kernelTasks(order uint64) *Trace {
	tr := &Trace{}
	for comm := range 2 {
		for rank := range 4 {
			pid := uint64(100 + 4*comm + rank)
			number := []uint64{1, order}[comm]
			tr.Tasks = append(tr.Tasks, Task{Owner: 4*comm + rank, Comm: pid<<32 | number, local: true,
				Func: "AllReduce", Ranks: 4, Rank: rank})
		}
		for _, pair := range [][2]int{{0, 3}, {1, 2}} {
			tr.Messages = append(tr.Messages, Message{SendTask: 4*comm + pair[0], ReceiveTask: 4*comm + pair[1]})
		}
	}
	tr.joinComms()
	tr.findCalls()
	return tr
}

// Ranks of a communicator that exchange no messages are found by their places in it, if that is sure.
func TestCommunicatorsInParts(t *testing.T) {
	if tr := kernelTasks(2); len(tr.Calls) != 2 || len(tr.Calls[0].Tasks) != 4 {
		t.Errorf("%+v", tr.Calls)
	}
	if tr := kernelTasks(1); len(tr.Calls) != 4 {
		t.Errorf("%+v", tr.Calls)
	}
}

// A message whose sender's end is not known has the call of the receiver's.
func TestCallOfTheReceiver(t *testing.T) {
	two := calls()
	for i := range two[0].Records {
		two[0].Records[i].Op = 0
	}
	tr := load(t, write(t, two[:]...))
	if n := tr.Unattributed(); n != 1 {
		t.Errorf("%d messages without a call", n)
	}
}

// Sends that are not planned together are calls of their own, unless messages join them.
func TestSendsOfSeveralGroups(t *testing.T) {
	two := calls()
	for i := range two {
		two[i].Tasks[2].Group = 9 // the exchange's receive
	}
	tr := load(t, write(t, two[:]...))
	var names []string
	for _, c := range tr.Calls {
		names = append(names, fmt.Sprintf("%s #%d", c.Name, c.Seq))
	}
	if want := []string{"AllReduce #12", "Send #0", "Send #1", "Send #2"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}
