// SPDX-License-Identifier: Apache-2.0

package desync

import (
	"cmp"
	"maps"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload/formats/flightrec"
)

// Message is a send or receive that has no other half, that differs from it, or that has not ended.
type Message struct {
	flightrec.GroupName
	From     int     `json:"from"` // rank of the job
	To       int     `json:"to"`
	Sequence uint32  `json:"sequence"`
	Tensors  string  `json:"tensors"`
	Where    string  `json:"where,omitempty"`
	Problem  Problem `json:"problem"`
	Has      string  `json:"receiver_has,omitempty"` // if the halves differ
	Later    int     `json:"later_messages_pending"` // of this pair after this one, not finished either
}

// Problem is a mistake of a message.
type Problem string

// The problems.
const (
	NoReceive  Problem = "the receiver has not called"
	NoSend     Problem = "the sender has not called"
	NoDumpPeer Problem = "no dump of the other rank"
	Differ     Problem = "the receiver expects something else"
	NotEnded   Problem = "both have called, it has not ended"
)

// half is a send or a receive.
type half struct {
	entry *flightrec.Entry
	done  bool
}

// flow is a pair of ranks of the group.
type flow struct{ from, to int }

// messages adds the first message of each pair of ranks that is not right. It notes the ranks that have not called.
func (x *examiner) messages(missing map[int]bool) {
	sends, receives := map[flow][]half{}, map[flow][]half{}
	all := map[flow]bool{}
	for rank, calls := range x.group.Calls {
		d := x.dumps[rank]
		for i := range calls {
			l := &calls[i]
			for _, e := range l.Entries(d) {
				f := flow{e.Func.From, e.Func.To}
				if !e.Func.P2P() || min(f.from, f.to) < 0 || max(f.from, f.to) >= len(x.group.Ranks) {
					continue
				}
				all[f] = true
				to := sends
				if e.Func.Name == "recv" {
					to = receives
				}
				to[f] = append(to[f], half{e, l.Done(d)})
			}
		}
	}
	order := slices.SortedFunc(maps.Keys(all), func(a, b flow) int { return cmp.Or(a.from-b.from, a.to-b.to) })
	for _, f := range order {
		if m := x.message(f, sends[f], receives[f]); m != nil {
			switch m.Problem {
			case NoReceive:
				missing[m.To] = true
			case NoSend:
				missing[m.From] = true
			}
			x.Messages = append(x.Messages, *m)
		}
	}
}

// message is the first message of a pair that is not right, nil if there is none. The k-th send belongs to the k-th
// receive. If a recorder has overwritten calls, only those that have not ended are paired.
func (x *examiner) message(f flow, sends, receives []half) *Message {
	from, to := x.group.Ranks[f.from], x.group.Ranks[f.to]
	sender, receiver := x.dumps[from], x.dumps[to]
	if sender == nil || receiver == nil || sender.BeginsLate()+receiver.BeginsLate() > 0 {
		done := func(h half) bool { return h.done }
		sends, receives = slices.DeleteFunc(sends, done), slices.DeleteFunc(receives, done)
	}
	var first *Message
	for k := range max(len(sends), len(receives)) {
		m := &Message{GroupName: x.group.GroupName, From: from, To: to}
		switch {
		case k >= len(receives):
			m.Problem = NoReceive
			if receiver == nil {
				m.Problem = NoDumpPeer
			}
			m.half(sends[k].entry, sends[k].entry.In)
		case k >= len(sends):
			m.Problem = NoSend
			if sender == nil {
				m.Problem = NoDumpPeer
			}
			m.half(receives[k].entry, receives[k].entry.Out)
		default:
			if m = pairOf(m, sends[k], receives[k]); m == nil {
				continue
			}
		}
		if first != nil {
			first.Later++
			continue
		}
		first = m
	}
	return first
}

// pairOf names the problem of a message that both ranks have called; nil if it has none.
func pairOf(m *Message, send, receive half) *Message {
	s, r := tensorsOf(send.entry), tensorsOf(receive.entry)
	m.half(send.entry, s)
	switch {
	case s.Elements() != r.Elements() || s.Type() != r.Type():
		m.Problem, m.Has = Differ, r.String()
	case !send.done || !receive.done:
		m.Problem = NotEnded
	default:
		return nil
	}
	return m
}

// tensorsOf are the tensors of a send or receive: some backends record them on one side alone.
func tensorsOf(e *flightrec.Entry) *flightrec.Tensors {
	if len(e.In.Sizes) > 0 {
		return e.In
	}
	return e.Out
}

func (m *Message) half(e *flightrec.Entry, t *flightrec.Tensors) {
	if len(t.Sizes) == 0 {
		t = tensorsOf(e)
	}
	m.Sequence, m.Tensors, m.Where = e.P2P, t.String(), where(e)
}
