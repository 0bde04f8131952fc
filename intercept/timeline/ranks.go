// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/intercept/messages"
)

// rankKey is a rank of a job.
type rankKey struct{ job, rank int }

// Ranks draws the calls of each rank, and both ends of each connection.
func (t *Timeline) Ranks(s Sink) {
	d := &drawing{Sink: s, Timeline: t}
	flows := d.messagesOfFlows()
	calls := d.callsOfRanks()
	phases := d.phasesOfRanks()
	for _, key := range d.allRanks() {
		name := fmt.Sprintf("rank %d", key.rank)
		if len(d.Trace.Jobs) > 1 {
			name = fmt.Sprintf("%s of %s", name, d.Trace.Jobs[key.job])
		}
		parent := 0
		if node := t.Trace.Nodes[[2]int{key.job, key.rank}]; node < len(t.nodes) {
			parent = t.nodes[node]
		}
		group := d.track(parent, name, tracksOfHop*len(t.Fabric.Hops)+key.job<<20+key.rank)
		d.phases(group, phases[key])
		d.calls(group, calls[key])
		order := 1
		for i := range d.Trace.Connections {
			c := &d.Trace.Connections[i]
			all := flows[c.Key()]
			if c.Job != key.job || len(all) == 0 {
				continue
			}
			if c.Sender == key.rank {
				d.sends(group, order, c, all)
				order++
			}
			if c.Receiver == key.rank {
				d.receives(group, order, c, all)
				order++
			}
		}
	}
}

// allRanks are the ranks with a ledger, in order.
func (d *drawing) allRanks() []rankKey {
	var all []rankKey
	for key := range d.Trace.Nodes {
		all = append(all, rankKey{key[0], key[1]})
	}
	slices.SortFunc(all,
		func(a, b rankKey) int { return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.rank, b.rank)) })
	return all
}

// messagesOfFlows are the messages of each connection, in the order of their numbers.
func (d *drawing) messagesOfFlows() map[messages.FlowKey][]int32 {
	flows := map[messages.FlowKey][]int32{}
	for i := range d.Trace.Messages {
		key := d.Trace.Messages[i].Key()
		flows[key] = append(flows[key], int32(i))
	}
	for _, all := range flows {
		slices.SortFunc(all,
			func(a, b int32) int { return cmp.Compare(d.Trace.Messages[a].Number, d.Trace.Messages[b].Number) })
	}
	return flows
}

// part is what one rank does in one call: from the first of its tasks until it has its last byte and the
// sends are complete.
type part struct {
	call       int
	task       int
	begin, end int64
}

// callsOfRanks are the calls that each rank took part in, in the order of their begins.
func (d *drawing) callsOfRanks() map[rankKey][]part {
	out := map[rankKey][]part{}
	for i := range d.Trace.Calls {
		c := &d.Trace.Calls[i]
		parts := map[rankKey]*part{}
		for _, k := range c.Tasks {
			x := &d.Trace.Tasks[k]
			key := rankKey{x.Job, x.Owner}
			if parts[key] == nil {
				parts[key] = &part{call: i, task: k, begin: x.Begun}
			}
			parts[key].begin = min(parts[key].begin, x.Begun)
		}
		end := func(key rankKey, t int64) {
			if p := parts[key]; p != nil {
				p.end = max(p.end, t)
			}
		}
		for _, k := range c.Messages {
			m := &d.Trace.Messages[k]
			if m.Sent {
				end(rankKey{m.Job, m.Sender}, max(m.Complete, m.Posted))
			}
			if m.Received {
				end(rankKey{m.Job, m.Receiver}, m.VisibleAt())
			}
		}
		for key, p := range parts {
			p.end = max(p.end, p.begin)
			out[key] = append(out[key], *p)
		}
	}
	for _, all := range out {
		slices.SortStableFunc(all, func(a, b part) int { return cmp.Compare(a.begin, b.begin) })
	}
	return out
}

// calls draws the calls of one rank.
func (d *drawing) calls(group int, all []part) {
	lanes := newLanes(d, group, "calls", 0)
	for _, p := range all {
		lane := lanes.take(p.begin, p.end)
		x, c := &d.Trace.Tasks[p.task], &d.Trace.Calls[p.call]
		d.args = append(d.args[:0], Arg{Name: "communicator", Text: fmt.Sprintf("%#x", x.Comm)},
			Arg{Name: "bytes on links", Value: int64(c.Bytes)}, Arg{Name: "elements", Value: int64(x.Count)})
		for _, a := range []Arg{{Name: "algorithm", Text: x.Algo}, {Name: "protocol", Text: x.Proto},
			{Name: "datatype", Text: x.Datatype}} {
			if a.Text != "" {
				d.args = append(d.args, a)
			}
		}
		d.Begin(Event{Track: lane, At: d.at(p.begin), Name: d.names[p.call], Args: d.args})
		d.End(lane, d.at(p.end))
	}
}

// channelOf is NCCL's channel of a connection, -1 if it is not known.
func (d *drawing) channelOf(all []int32) int {
	for _, i := range all {
		if c := d.Trace.Messages[i].Channel; c >= 0 {
			return c
		}
	}
	return -1
}

// endName names one end of a connection.
func (d *drawing) endName(way string, peer int, all []int32) string {
	name := fmt.Sprintf("%s rank %d", way, peer)
	if peer < 0 {
		name = way + " an unknown rank"
	}
	if channel := d.channelOf(all); channel >= 0 {
		return fmt.Sprintf("%s, channel %d", name, channel)
	}
	return name
}

// describe makes the arguments of a message.
func (d *drawing) describe(m *messages.Message) []Arg {
	d.args = append(d.args[:0], Arg{Name: "bytes", Value: int64(m.Size)}, Arg{Name: "message", Value: int64(m.Number)})
	if t := m.Task(); t >= 0 {
		x := &d.Trace.Tasks[t]
		d.args = append(d.args, Arg{Name: "step", Value: int64(m.Step)})
		if x.Algo != "" {
			d.args = append(d.args, Arg{Name: "algorithm", Text: x.Algo})
		}
		if x.Proto != "" {
			d.args = append(d.args, Arg{Name: "protocol", Text: x.Proto})
		}
	}
	return d.args
}

// arrowOf is the number of a message's arrow. It has one if it was posted and has arrived.
func (d *drawing) arrowOf(i int32) uint64 {
	if m := &d.Trace.Messages[i]; m.HasSend && m.Received {
		return uint64(i) + 1
	}
	return 0
}

// span is a message at one end of its connection.
type span struct {
	begin, end int64
	done       bool
}

// sent is a message at its sender: from its post until it is complete.
func sent(m *messages.Message) (span, bool) {
	x := span{begin: m.Posted, end: m.Posted, done: m.Sent}
	if m.Sent {
		x.end = max(x.end, m.Complete)
	}
	return x, m.HasSend
}

// received is a message at its receiver: from the post of its receive until its bytes were visible.
func received(m *messages.Message) (span, bool) {
	x := span{begin: m.ReceivePosted, end: m.ReceivePosted, done: m.Received}
	if m.Received {
		x.end = max(x.end, m.VisibleAt())
	}
	return x, m.HasReceive
}

// sends draws the sender's end of a connection.
func (d *drawing) sends(group, order int, c *messages.Connection, all []int32) {
	d.connectionEnd(newLanes(d, group, d.endName("to", c.Receiver, all), order), all, sent,
		func(lane int, x span, arrow uint64) {
			if arrow != 0 {
				d.Instant(Event{Track: lane, At: d.at(x.begin), Name: "posted", Arrow: arrow})
			}
			if !x.done {
				d.Instant(Event{Track: lane, At: d.at(x.end), Name: "never complete"})
			}
		})
}

// receives draws the receiver's end.
func (d *drawing) receives(group, order int, c *messages.Connection, all []int32) {
	d.connectionEnd(newLanes(d, group, d.endName("from", c.Sender, all), order), all, received,
		func(lane int, x span, arrow uint64) {
			if arrow != 0 {
				d.Instant(Event{Track: lane, At: d.at(x.end), Name: "arrived", Arrow: arrow, Last: true})
			}
			if !x.done {
				d.Instant(Event{Track: lane, At: d.at(x.end), Name: "never arrived"})
			}
		})
}

// connectionEnd draws the messages of one end of a connection, only messages known to of. mark draws the instants in a
// message.
func (d *drawing) connectionEnd(lanes *lanes, all []int32, of func(*messages.Message) (span, bool),
	mark func(lane int, x span, arrow uint64)) {
	for _, i := range all {
		m := &d.Trace.Messages[i]
		x, known := of(m)
		if !known {
			continue
		}
		lane := lanes.take(x.begin, x.end)
		d.Begin(Event{Track: lane, At: d.at(x.begin), Name: d.nameOf(m), Args: d.describe(m)})
		mark(lane, x, d.arrowOf(i))
		d.End(lane, d.at(x.end))
	}
}
