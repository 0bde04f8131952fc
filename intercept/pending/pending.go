// SPDX-License-Identifier: Apache-2.0

// Package pending says what a job was waiting for when its ledgers ended: which ranks had not begun which
// call, and which messages were on their way.
package pending

import (
	"cmp"
	"slices"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/replay"
)

// Report is what was not finished.
type Report struct {
	Calls       []Unfinished
	Connections []Connection
	Last        int64 // the last time that the ledgers know, ns of the fabric's clock
}

// Unfinished is a call that some rank has begun and not all have finished.
type Unfinished struct {
	*messages.Call
	Size    int   // ranks of the communicator, 0 if unknown
	Begun   []int // ranks, those of the job
	Missing []int // ranks that have not begun it; -1 - n for rank n of the communicator, which has no ledger
	Waiting int   // messages that are not at their receiver
}

// Connection is a connection with messages that one of its ends has not got back.
type Connection struct {
	Job, Sender, Receiver int
	Call                  int // of the first one, place in Trace.Calls; -1 if unknown
	Channel               int
	// The messages that are not at their receiver.
	Sends      int    // posted by the sender
	SendBytes  uint64 // of these
	Receives   int    // posted by the receiver
	First      uint64 // number of the first one
	Since      int64  // the first post of these
	Unfinished int    // messages that have arrived, and that their sender has not got back
	Arrived    int    // messages that both ends have got back
	LastAt     int64  // when the last of those was there; 0 if there was none
	// A link that is down, over which the messages must go that were posted by the sender; "" if there is none.
	Down      string
	DownSince int64
	Failed    int64 // when the plugin first reported to NCCL that the connection has failed; 0: it did not
	src, dst  int   // NICs
	path      uint64
}

// State says in a phrase what the connection waits for.
func (c *Connection) State() string {
	switch {
	case c.Down != "" && c.Failed != 0:
		return "failed: " + c.Down + " was down"
	case c.Down != "":
		return c.Down + " is down"
	case c.Sends > 0 && c.Receives > 0:
		return "on its way"
	case c.Sends > 0:
		return "the receiver has posted no receive for it"
	case c.Receives > 0:
		return "the sender has not sent it"
	}
	return "arrived, the sender has not got it back"
}

// Of finds what a trace has not finished. f is the fabric of the job; if it is nil, no link is known to be down.
func Of(t *messages.Trace, f *replay.Fabric) *Report {
	r := &Report{Last: t.Last()}
	if f != nil && len(f.Changes) > 0 {
		r.Last = max(r.Last, f.Changes[len(f.Changes)-1].Time)
	}
	waiting := make([]int, len(t.Calls))
	byFlow := map[messages.FlowKey][]int{}
	for i := range t.Messages {
		m := &t.Messages[i]
		byFlow[m.Key()] = append(byFlow[m.Key()], i)
		if call := t.CallOf(m); call >= 0 && !m.Received {
			waiting[call]++
		}
	}
	for _, c := range t.Connections {
		if x, any := connectionOf(t, c, byFlow[c.Key()]); any {
			x.findDown(f, r.Last)
			r.Connections = append(r.Connections, x)
		}
	}
	slices.SortStableFunc(r.Connections, func(a, b Connection) int { return cmp.Compare(a.Since, b.Since) })
	r.addCalls(t, waiting)
	return r
}

// connectionOf sums the messages of a connection; any says whether some are not finished.
func connectionOf(t *messages.Trace, c messages.Connection, all []int) (x Connection, any bool) {
	x = Connection{Job: c.Job, Sender: c.Sender, Receiver: c.Receiver, Call: -1, Channel: -1, src: c.Src, dst: c.Dst,
		path: c.Path}
	slices.SortFunc(all, func(a, b int) int { return cmp.Compare(t.Messages[a].Number, t.Messages[b].Number) })
	// waits says whether the first message has not been received; otherwise only its sender lacks the acknowledgement.
	waits := false
	for _, i := range all {
		m := &t.Messages[i]
		if m.IsWhole() {
			x.Arrived++
			x.LastAt = max(x.LastAt, m.VisibleAt())
			continue
		}
		if !any || !waits && !m.Received {
			x.First, x.Since, x.Channel, x.Call = m.Number, m.First(), m.Channel, t.CallOf(m)
			any, waits = true, !m.Received
		}
		if m.Failed != 0 && (x.Failed == 0 || m.Failed < x.Failed) {
			x.Failed = m.Failed
		}
		switch {
		case m.Received:
			x.Unfinished++
			continue
		case m.HasSend:
			x.Sends++
			x.SendBytes += m.Size
		}
		if m.HasReceive {
			x.Receives++
		}
	}
	return x, any
}

// findDown finds the link that stops what the sender has posted: it was down when the connection failed, or is at time
// now.
func (c *Connection) findDown(f *replay.Fabric, now int64) {
	if f == nil || c.Sends == 0 {
		return
	}
	if c.Failed != 0 {
		now = c.Failed
	}
	if hop, since := f.Down(c.src, c.dst, c.path, now); hop >= 0 {
		c.Down, c.DownSince = f.HopName(hop), since
	}
}

// memberKey is a rank of a communicator.
type memberKey struct {
	comm uint64
	rank int
}

// addCalls adds the calls that are not finished.
func (r *Report) addCalls(t *messages.Trace, waiting []int) {
	owners := map[memberKey]int{}
	for i := range t.Tasks {
		owners[memberKey{t.Tasks[i].Comm, t.Tasks[i].Rank}] = t.Tasks[i].Owner
	}
	for i := range t.Calls {
		c := &t.Calls[i]
		x := Unfinished{Call: c, Waiting: waiting[i]}
		begun := map[int]bool{}
		for _, task := range c.Tasks {
			x.Size = t.Tasks[task].Ranks
			begun[t.Tasks[task].Rank] = true
			x.Begun = append(x.Begun, t.Tasks[task].Owner)
		}
		slices.Sort(x.Begun)
		x.Begun = slices.Compact(x.Begun)
		if c.Everyone {
			for rank := range x.Size {
				if begun[rank] {
					continue
				}
				owner, ok := owners[memberKey{c.Comm, rank}]
				if !ok {
					owner = -1 - rank
				}
				x.Missing = append(x.Missing, owner)
			}
		}
		if len(x.Missing) > 0 || x.Waiting > 0 {
			r.Calls = append(r.Calls, x)
		}
	}
}
