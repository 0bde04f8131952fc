// SPDX-License-Identifier: Apache-2.0

// Package messages joins the ledgers of a job's processes: each message with what its sender and
// its receiver noted.
package messages

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/ledger"
)

// Message is one message over a connection. Times are ns of the fabric's clock, already multiplied
// by the time scale. What an end has not noted is 0: see HasSent and HasReceived.
type Message struct {
	Flow     uint64 `json:"flow"` // the connection
	Number   uint64 `json:"message"`
	Sender   int    `json:"sender"` // rank, -1 if unknown
	Receiver int    `json:"receiver"`
	Src      int    `json:"src_nic"` // NIC of the fabric
	Dst      int    `json:"dst_nic"`
	Size     uint64 `json:"bytes"`

	HasSent  bool  `json:"sent"`
	Posted   int64 `json:"posted_ns"`        // by the sender
	Complete int64 `json:"complete_ns"`      // the send, in the model
	SendEnds int64 `json:"send_returned_ns"` // when test returned it

	HasReceived   bool   `json:"received"`
	ReceivePosted int64  `json:"receive_posted_ns"`
	Due           int64  `json:"due_ns"`  // at the receiver, in the model
	Late          uint32 `json:"late_ns"` // how much later its bytes were visible
	ReceiveEnds   int64  `json:"receive_returned_ns"`
}

// Trace is what the ledgers of a job say.
type Trace struct {
	Ranks    []ledger.Info // in the order of ranks
	Messages []Message     // in the order of their first time
	// What is missing, summed over the ledgers.
	Overwritten, Unreadable, Unnoted uint64
	Cut                              []string // files that end too early
}

// key names a message.
type key struct{ flow, msg uint64 }

// ends are the ranks and NICs of a connection.
type ends struct {
	sender, receiver int
	src, dst         uint32
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
	t.join(all)
	return t, nil
}

// join makes the messages.
func (t *Trace) join(all []*ledger.Content) {
	flows := connections(all)
	at := map[key]int{}
	for _, c := range all {
		t.Ranks = append(t.Ranks, c.Info)
		t.Overwritten += c.Overwritten
		t.Unreadable += c.Unreadable
		t.Unnoted += c.Unnoted
		for _, r := range c.Records {
			k := key{r.Flow, r.Msg}
			i, ok := at[k]
			if !ok {
				i = len(t.Messages)
				at[k] = i
				e, known := flows[r.Flow]
				if !known {
					e = &ends{sender: -1, receiver: -1}
				}
				t.Messages = append(t.Messages, Message{Flow: r.Flow, Number: r.Msg, Sender: e.sender, Receiver: e.receiver, Src: int(e.src), Dst: int(e.dst)})
			}
			t.Messages[i].add(r)
		}
	}
	slices.SortFunc(t.Ranks, func(a, b ledger.Info) int { return cmp.Compare(a.Rank, b.Rank) })
	slices.SortFunc(t.Messages, func(a, b Message) int {
		return cmp.Or(cmp.Compare(a.first(), b.first()), cmp.Compare(a.Flow, b.Flow), cmp.Compare(a.Number, b.Number))
	})
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
	m.Size = r.Size
	if r.Kind == ledger.Sent {
		m.HasSent, m.Posted, m.Complete, m.SendEnds = true, r.Posted, r.Modelled, r.Returned
	} else {
		m.HasReceived, m.ReceivePosted, m.Due, m.Late, m.ReceiveEnds = true, r.Posted, r.Modelled, r.Late, r.Returned
	}
}

// first is the earliest time that is known of a message.
func (m *Message) first() int64 {
	switch {
	case !m.HasSent:
		return m.ReceivePosted
	case !m.HasReceived:
		return m.Posted
	}
	return min(m.Posted, m.ReceivePosted)
}
