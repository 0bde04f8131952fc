// SPDX-License-Identifier: Apache-2.0

// Package messages joins the ledgers of a job's processes: each message with what its sender and
// its receiver noted, and with the collective or the send of the program that it belongs to.
package messages

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/ddlemu/ddlemu/shaper/fabric/ledger"
)

// Message is one message over a connection. Times are ns of the fabric's clock, already multiplied
// by the time scale. What is not known is 0: see Sent and Received.
type Message struct {
	Job      int    `json:"-"`    // place in Trace.Jobs
	Flow     uint64 `json:"flow"` // the connection
	Number   uint64 `json:"message"`
	Sender   int    `json:"sender"`  // rank whose call sends it, -1 if unknown
	SentBy   int    `json:"sent_by"` // rank whose process sends it: by PXN, NCCL may use another one of the node
	Receiver int    `json:"receiver"`
	Src      int    `json:"src_nic"` // NIC of the fabric
	Dst      int    `json:"dst_nic"`
	Size     uint64 `json:"bytes"` // of a message that the sender has not noted, the receive's capacity

	// The sender's end.
	HasSend bool  `json:"send_posted"`
	Sent    bool  `json:"sent"`      // test has returned the send
	Posted  int64 `json:"posted_ns"` // by the sender
	// the longest time before that for which NCCL did not call although it had requests
	Stalled  int64 `json:"stalled_ns"`
	Complete int64 `json:"complete_ns"`      // the send, in the model
	SendEnds int64 `json:"send_returned_ns"` // when test returned it

	// The receiver's end.
	HasReceive    bool  `json:"receive_posted"`
	Received      bool  `json:"received"` // test has returned the receive
	ReceivePosted int64 `json:"receive_posted_ns"`
	Due           int64 `json:"due_ns"`  // at the receiver, in the model
	Late          int64 `json:"late_ns"` // how much later its bytes were visible
	ReceiveEnds   int64 `json:"receive_returned_ns"`

	// when test first reported to one of the ends that the connection has failed; 0: it did not
	Failed int64 `json:"failed_ns"`

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
	Jobs     []string      // names: the folders' own
	Ranks    []ledger.Info // in the order of jobs and ranks
	Messages []Message     // in the order of their first time
	Tasks    []Task        // of all ranks
	Calls    []Call        // in the order of their first time
	Ranges   []Range       // of the programs, in the order of ranks and begins
	Kernels  []Kernel      // of all ranks, each in the order of launches
	// Connections, in their order at equal times.
	Connections []Connection
	Nodes       map[[2]int]int // by job and rank
	jobOf       []int          // of each of Ranks
	measured    map[int]int64  // by job: the end of its warm-up, 0 without one
	// What is missing, summed over the ledgers.
	Overwritten, Unreadable, Unnoted uint64
	LostRanges                       uint64 // or without their name
	// communicators within a node whose ranks are supposed to be in the order of the job
	Supposed int
	Cut      []string // files that end too early
}

// Connection is one connection between two ranks.
type Connection struct {
	Job              int
	Flow             uint64
	Sender, Receiver int // ranks whose calls use it, -1 if unknown
	Src, Dst         int // NICs of the fabric
	Order            uint64
	Path             uint64 // what its path is drawn by, if each flow has its own
}

// FlowKey names a connection: two jobs may have the same flows.
type FlowKey struct {
	Job  int
	Flow uint64
}

// Key is the message's connection.
func (m *Message) Key() FlowKey { return FlowKey{m.Job, m.Flow} }

// Key is the connection's name.
func (c *Connection) Key() FlowKey { return FlowKey{c.Job, c.Flow} }

// ErrNoLedger says that a folder has no ledger.
var ErrNoLedger = errors.New("no ledger")

// Load reads all ledgers in the folders. Each has the ledgers of one job, and all jobs are of one fabric.
func Load(dirs ...string) (*Trace, error) {
	t := &Trace{measured: map[int]int64{}}
	var all []recorded
	for job, dir := range dirs {
		var err error
		if t.measured[job], err = ledger.ReadMeasured(dir); err != nil {
			return nil, err
		}
		ledgers, err := t.read(dir)
		if err != nil {
			return nil, err
		}
		for _, l := range ledgers {
			all = append(all, recorded{l, job})
			if l.FabricID != all[0].FabricID {
				return nil, fmt.Errorf("%s and %s are of two fabrics", dirs[0], dir)
			}
		}
		path, err := filepath.Abs(dir)
		if err != nil {
			return nil, fmt.Errorf("name the job of %s: %w", dir, err)
		}
		t.Jobs = append(t.Jobs, filepath.Base(path))
	}
	t.join(all)
	t.joinComms()
	t.findCalls()
	return t, nil
}

// recorded is a ledger, and the place of its job in Trace.Jobs.
type recorded struct {
	*ledger.Content
	job int
}

// read reads the ledgers of one job, in the order of ranks.
func (t *Trace) read(dir string) ([]*ledger.Content, error) {
	paths, err := ledger.Files(dir)
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%w in %s: run a job with --trace %s", ErrNoLedger, dir, dir)
	}
	all, errs := make([]*ledger.Content, len(paths)), make([]error, len(paths))
	var reads sync.WaitGroup
	for i, path := range paths {
		reads.Go(func() { all[i], errs[i] = ledger.Read(path) })
	}
	reads.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for i, path := range paths {
		c := all[i]
		if c.Cut {
			t.Cut = append(t.Cut, path)
		}
		if c.FabricID != all[0].FabricID || c.Job != all[0].Job {
			return nil, fmt.Errorf("%s and %s are of two jobs: keep the ledgers of each job in a folder of its own",
				paths[0], paths[i])
		}
	}
	slices.SortFunc(all,
		func(a, b *ledger.Content) int { return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.PID, b.PID)) })
	return all, nil
}

// flowPlaces are the places of a flow's messages in Trace.Messages, by their numbers.
type flowPlaces struct {
	*Connection
	first uint64  // number
	at    []int32 // -1: no message with that number is known
}

// of is the place of a message; add makes one if there is none.
func (p *flowPlaces) of(msg uint64, add func() int) int {
	const most = 1 << 22 // messages of a connection that are kept: far more than ledgers have
	if p.at == nil {
		p.first = msg
	}
	if msg < p.first { // the other end's ledger begins earlier
		more := make([]int32, min(p.first-msg, most))
		for i := range more {
			more[i] = -1
		}
		p.first -= uint64(len(more))
		p.at = append(more, p.at...)
	}
	k := msg - p.first
	if k >= most {
		return -1
	}
	for uint64(len(p.at)) <= k {
		p.at = append(p.at, -1)
	}
	if p.at[k] < 0 {
		p.at[k] = int32(add())
	}
	return int(p.at[k])
}

// join makes the tasks and the messages.
func (t *Trace) join(all []recorded) {
	flows := t.addConnections(all)
	tasks := t.addTasks(all)
	t.addKernels(all)
	t.addChannels(all, tasks)
	ends := 0
	for _, c := range all {
		ends += len(c.Records)
	}
	t.Messages = make([]Message, 0, ends/2+1) // most have two
	t.Nodes = map[[2]int]int{}
	for _, c := range all {
		t.Nodes[[2]int{c.job, int(c.Rank)}] = int(c.Node)
		t.Ranks = append(t.Ranks, c.Info)
		t.jobOf = append(t.jobOf, c.job)
		t.Overwritten += c.Overwritten
		t.Unreadable += c.Unreadable
		t.Unnoted += c.Unnoted
		t.addRanges(c)
		ops := operationsOf(c.Content)
		for _, r := range c.Records {
			if int(r.Conn) >= len(c.Connections) {
				continue // counted in Unnoted
			}
			e := flows[FlowKey{c.job, c.Connections[r.Conn].Flow}]
			i := e.of(r.Msg, func() int {
				t.Messages = append(t.Messages, Message{
					Job: c.job, Flow: e.Flow, Number: r.Msg, Sender: e.Sender, SentBy: e.Sender, Receiver: e.Receiver,
					Src: e.Src, Dst: e.Dst,
					SendTask: -1, ReceiveTask: -1, Channel: -1,
				})
				return len(t.Messages) - 1
			})
			if i < 0 {
				t.Unreadable++
				continue
			}
			t.Messages[i].add(r)
			t.Messages[i].addOperation(r, ops, tasks)
		}
	}
	t.findSenders()
	t.sortMessages()
}

// findSenders finds the ranks whose calls send the messages, where these are not the ranks whose processes do.
func (t *Trace) findSenders() {
	senders := map[FlowKey]int{} // -1: several
	for i := range t.Messages {
		m := &t.Messages[i]
		if m.SendTask < 0 {
			continue
		}
		m.Sender = t.Tasks[m.SendTask].Owner
		if sender, ok := senders[m.Key()]; ok && sender != m.Sender {
			senders[m.Key()] = -1
		} else {
			senders[m.Key()] = m.Sender
		}
	}
	for i := range t.Connections {
		if sender, ok := senders[t.Connections[i].Key()]; ok && sender >= 0 {
			t.Connections[i].Sender = sender
		}
	}
}

// sortMessages puts the messages in the order of their first time.
func (t *Trace) sortMessages() {
	type entry struct {
		time  int64
		place int
	}
	order := make([]entry, len(t.Messages))
	for i := range t.Messages {
		order[i] = entry{t.Messages[i].First(), i}
	}
	slices.SortFunc(order, func(x, y entry) int {
		if x.time != y.time {
			return cmp.Compare(x.time, y.time)
		}
		a, b := &t.Messages[x.place], &t.Messages[y.place]
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Flow, b.Flow), cmp.Compare(a.Number, b.Number))
	})
	sorted := make([]Message, len(order))
	for i, e := range order {
		sorted[i] = t.Messages[e.place]
	}
	t.Messages = sorted
}

// addConnections adds the connections, and returns them by their flows.
func (t *Trace) addConnections(all []recorded) map[FlowKey]*flowPlaces {
	flows := map[FlowKey]*flowPlaces{}
	for _, c := range all {
		for _, x := range c.Connections {
			key := FlowKey{c.job, x.Flow}
			e := flows[key]
			if e == nil {
				e = &flowPlaces{Connection: &Connection{Job: c.job, Flow: x.Flow, Sender: -1, Receiver: -1,
					Src: int(x.Src), Dst: int(x.Dst), Order: x.Order, Path: x.Path}}
				flows[key] = e
			}
			if x.Sends == 1 {
				e.Sender = int(c.Rank)
			} else {
				e.Receiver = int(c.Rank)
			}
		}
	}
	for _, e := range flows {
		t.Connections = append(t.Connections, *e.Connection)
	}
	slices.SortFunc(t.Connections, func(a, b Connection) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Sender, b.Sender),
			cmp.Compare(a.Receiver, b.Receiver), cmp.Compare(a.Flow, b.Flow))
	})
	for i := range t.Connections {
		t.Connections[i].Order = uint64(i)
	}
	return flows
}

// add notes what one end says.
func (m *Message) add(r ledger.Record) {
	if r.Returned == 0 {
		if r.Modelled != 0 && (m.Failed == 0 || r.Modelled < m.Failed) {
			m.Failed = r.Modelled
		}
		r.Modelled = 0
	}
	if r.Kind == ledger.Send {
		m.Size = r.Size
		m.HasSend, m.Sent, m.Posted, m.Stalled, m.Complete, m.SendEnds = true, r.Returned != 0, r.Posted, int64(r.Late),
			r.Modelled, r.Returned
		return
	}
	if !m.HasSend {
		m.Size = r.Size
	}
	m.HasReceive, m.Received, m.ReceivePosted, m.ReceiveEnds = true, r.Returned != 0, r.Posted, r.Returned
	m.Due, m.Late = r.Modelled, int64(r.Late)
}

// VisibleAt is when the receiver could read the message. It must be received.
func (m *Message) VisibleAt() int64 { return max(m.Due, m.ReceivePosted) + m.Late }

// At is a time of a message, a place in Trace.Messages.
type At struct {
	Time    int64
	Message int
}

// Ledgers counts the ledgers of a job, and its ranks.
func (t *Trace) Ledgers(job int) (ledgers, ranks int) {
	for i, r := range t.Ranks {
		if t.jobOf[i] == job {
			ledgers++
			ranks = max(ranks, int(r.World))
		}
	}
	return ledgers, ranks
}

// IsWhole says whether both ends have got the message back.
func (m *Message) IsWhole() bool { return m.Sent && m.Received }

// IsStuck says whether an end has posted the message, and neither has the receiver got it nor has the sender got it
// back.
func (m *Message) IsStuck() bool { return !m.Received && (m.HasReceive || m.HasSend && !m.Sent) }

// First is the earliest time that is known of a message.
func (m *Message) First() int64 {
	switch {
	case !m.HasSend:
		return m.ReceivePosted
	case !m.HasReceive:
		return m.Posted
	}
	return min(m.Posted, m.ReceivePosted)
}

// Span is the first and the last time that is known, ns of the fabric's clock; both 0 if there is no
// message.
func (t *Trace) Span() (first, last int64) {
	for i := range t.Messages {
		m := &t.Messages[i]
		if i == 0 {
			first = m.First()
		}
		last = max(last, m.Posted, m.ReceivePosted)
		if m.Sent {
			last = max(last, m.Complete)
		}
		if m.Received {
			last = max(last, m.VisibleAt())
		}
	}
	return first, last
}

// Last is the last time that the ledgers know, ns of the fabric's clock.
func (t *Trace) Last() int64 {
	_, last := t.Span()
	for i := range t.Messages {
		m := &t.Messages[i]
		last = max(last, m.SendEnds, m.ReceiveEnds, m.Failed)
	}
	for i := range t.Tasks {
		last = max(last, t.Tasks[i].Begun)
	}
	return last
}
