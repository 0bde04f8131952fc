// SPDX-License-Identifier: Apache-2.0

// Package messages joins the ledgers of a job's processes: each message with what its sender and
// its receiver noted, and with the collective or the send of the program that it belongs to.
package messages

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/ledger"
)

// Message is one message over a connection. Times are ns of the fabric's clock, already multiplied
// by the time scale. What is not known is 0: see Sent and Received.
type Message struct {
	Flow     uint64 `json:"flow"` // the connection
	Number   uint64 `json:"message"`
	Sender   int    `json:"sender"` // rank, -1 if unknown
	Receiver int    `json:"receiver"`
	Src      int    `json:"src_nic"` // NIC of the fabric
	Dst      int    `json:"dst_nic"`
	Size     uint64 `json:"bytes"` // of a message that the sender has not noted, the receive's capacity

	// The sender's end.
	HasSend  bool  `json:"send_posted"`
	Sent     bool  `json:"sent"`             // test has returned the send
	Posted   int64 `json:"posted_ns"`        // by the sender
	Stalled  int64 `json:"stalled_ns"`       // the longest time before that for which NCCL did not call although it had requests
	Complete int64 `json:"complete_ns"`      // the send, in the model
	SendEnds int64 `json:"send_returned_ns"` // when test returned it

	// The receiver's end.
	HasReceive    bool  `json:"receive_posted"`
	Received      bool  `json:"received"` // test has returned the receive
	ReceivePosted int64 `json:"receive_posted_ns"`
	Due           int64 `json:"due_ns"`  // at the receiver, in the model
	Late          int64 `json:"late_ns"` // how much later its bytes were visible
	ReceiveEnds   int64 `json:"receive_returned_ns"`

	// What it is for: places in Trace.Tasks, -1 if unknown.
	SendTask    int `json:"-"`
	ReceiveTask int `json:"-"`
	Channel     int `json:"channel"` // of NCCL, -1 if unknown
	Step        int `json:"step"`    // of the messages of its task on its connection
}

// Task is the place of the message's task, the sender's if it is known; -1 if none is.
func (m *Message) Task() int {
	if m.SendTask >= 0 {
		return m.SendTask
	}
	return m.ReceiveTask
}

// Trace is what the ledgers of a job say.
type Trace struct {
	Ranks    []ledger.Info // in the order of ranks
	Messages []Message     // in the order of their first time
	Tasks    []Task        // of all ranks
	Calls    []Call        // in the order of their first time
	// What is missing, summed over the ledgers.
	Overwritten, Unreadable, Unnoted uint64
	Cut                              []string // files that end too early
}

// Load reads all ledgers in a folder. They must be of one job.
func Load(dir string) (*Trace, error) {
	paths, err := ledger.Files(dir)
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no ledger in %s: run a job with --trace %s", dir, dir)
	}
	var all []*ledger.Content
	t := &Trace{}
	for _, path := range paths {
		c, err := ledger.Read(path)
		if err != nil {
			return nil, err
		}
		if c.Cut {
			t.Cut = append(t.Cut, path)
		}
		all = append(all, c)
	}
	first := all[0].Info
	for i, c := range all {
		if c.FabricID != first.FabricID || c.Job != first.Job {
			return nil, fmt.Errorf("%s and %s are of two jobs: keep the ledgers of each job in a folder of its own", paths[0], paths[i])
		}
	}
	slices.SortFunc(all, func(a, b *ledger.Content) int { return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.PID, b.PID)) })
	t.join(all)
	t.joinComms()
	t.findCalls()
	return t, nil
}

// key names a message.
type key struct{ flow, msg uint64 }

// join makes the tasks and the messages.
func (t *Trace) join(all []*ledger.Content) {
	flows := connections(all)
	tasks := t.addTasks(all)
	at := map[key]int{}
	for _, c := range all {
		t.Ranks = append(t.Ranks, c.Info)
		t.Overwritten += c.Overwritten
		t.Unreadable += c.Unreadable
		t.Unnoted += c.Unnoted
		ops := operationsOf(c)
		for _, r := range c.Records {
			if int(r.Conn) >= len(c.Connections) {
				continue // counted in Unnoted
			}
			flow := c.Connections[r.Conn].Flow
			k := key{flow, r.Msg}
			i, ok := at[k]
			if !ok {
				i = len(t.Messages)
				at[k] = i
				e := flows[flow]
				t.Messages = append(t.Messages, Message{
					Flow: flow, Number: r.Msg, Sender: e.sender, Receiver: e.receiver, Src: int(e.src), Dst: int(e.dst),
					SendTask: -1, ReceiveTask: -1, Channel: -1,
				})
			}
			t.Messages[i].add(r)
			t.Messages[i].addOperation(r, ops.of(r.Op), tasks)
		}
	}
	slices.SortFunc(t.Messages, func(a, b Message) int {
		return cmp.Or(cmp.Compare(a.first(), b.first()), cmp.Compare(a.Flow, b.Flow), cmp.Compare(a.Number, b.Number))
	})
}

// ends are the ranks and NICs of a connection.
type ends struct {
	sender, receiver int
	src, dst         uint32
}

// connections finds the ends of each connection.
func connections(all []*ledger.Content) map[uint64]*ends {
	flows := map[uint64]*ends{}
	for _, c := range all {
		for _, x := range c.Connections {
			e := flows[x.Flow]
			if e == nil {
				e = &ends{sender: -1, receiver: -1, src: x.Src, dst: x.Dst}
				flows[x.Flow] = e
			}
			if x.Sends == 1 {
				e.sender = int(c.Rank)
			} else {
				e.receiver = int(c.Rank)
			}
		}
	}
	return flows
}

// add notes what one end says.
func (m *Message) add(r ledger.Record) {
	if r.Kind == ledger.Send {
		m.Size = r.Size
		m.HasSend, m.Sent, m.Posted, m.Stalled, m.Complete, m.SendEnds = true, r.Returned != 0, r.Posted, int64(r.Late), r.Modelled, r.Returned
		return
	}
	if !m.HasSend {
		m.Size = r.Size
	}
	m.HasReceive, m.Received, m.ReceivePosted, m.ReceiveEnds = true, r.Returned != 0, r.Posted, r.Returned
	m.Due, m.Late = r.Modelled, int64(r.Late)
}

// IsWhole says whether both ends have got the message back.
func (m *Message) IsWhole() bool { return m.Sent && m.Received }

// first is the earliest time that is known of a message.
func (m *Message) first() int64 {
	switch {
	case !m.HasSend:
		return m.ReceivePosted
	case !m.HasReceive:
		return m.Posted
	}
	return min(m.Posted, m.ReceivePosted)
}
