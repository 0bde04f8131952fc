// SPDX-License-Identifier: Apache-2.0

package messages

import (
	"cmp"
	"slices"
)

// Call is a collective as all of its ranks execute it, or sends and receives that belong together:
// operations that one rank has planned together, and operations of other ranks that they exchange messages with.
type Call struct {
	Name     string // NCCL's name of a collective; AllToAll, Send or SendRecv
	Comm     uint64
	Seq      int   // of the calls with this name on this communicator, from 0
	Tasks    []int // places in Trace.Tasks
	Messages []int // places in Trace.Messages
	Bytes    uint64
	Begun    int64 // when the first rank had planned it; without that, the first post
	Ended    int64 // when the last message was there; 0 if none was
	Everyone bool  // all ranks of the communicator take part: it is a collective
	Warmup   bool  // it was before what the job measures: see ledger.WriteMeasured
}

// groupKey names what belongs together before messages are looked at.
type groupKey struct {
	comm   uint64
	name   string // of a collective
	number int    // of a collective: its number; else the group
	ledger int    // of a group
	task   int    // of a task without a group
}

func (t *Trace) keyOf(i int) groupKey {
	x := &t.Tasks[i]
	switch {
	case !x.IsP2P():
		return groupKey{comm: x.Comm, name: x.Func, number: x.Seq}
	case x.group == 0:
		return groupKey{comm: x.Comm, task: 1 + i}
	}
	return groupKey{comm: x.Comm, number: int(x.group), ledger: x.fromGroup}
}

// findCalls makes the calls.
func (t *Trace) findCalls() {
	s := sets{}
	first := map[groupKey]int{}
	for i := range t.Tasks {
		s.add()
		if j, ok := first[t.keyOf(i)]; ok {
			s.join(i, j)
		} else {
			first[t.keyOf(i)] = i
		}
	}
	for i := range t.Messages {
		if m := &t.Messages[i]; m.SendTask >= 0 && m.ReceiveTask >= 0 && t.Tasks[m.SendTask].IsP2P() {
			s.join(m.SendTask, m.ReceiveTask)
		}
	}
	byRoot := map[int]*Call{}
	var calls []*Call
	before := map[*Call][]*Call{} // the calls that a rank has planned before
	last := map[int]*Call{}       // by ledger
	for i := range t.Tasks {
		c := byRoot[s.root(i)]
		if c == nil {
			c = &Call{Comm: t.Tasks[i].Comm, Seq: t.Tasks[i].Seq, Begun: t.Tasks[i].Begun}
			byRoot[s.root(i)] = c
			calls = append(calls, c)
		}
		c.Tasks = append(c.Tasks, i)
		c.Begun = min(c.Begun, t.Tasks[i].Begun)
		ledger := t.Tasks[i].fromGroup
		if l := last[ledger]; l != nil && l != c {
			before[c] = append(before[c], l)
		}
		last[ledger] = c
	}
	t.addMessages(byRoot, s)
	t.nameCalls(inOrder(calls, before))
}

// inOrder sorts calls by their begins, but so that those of each rank come in its order: before are the calls that
// ranks have planned before.
func inOrder(calls []*Call, before map[*Call][]*Call) []*Call {
	slices.SortStableFunc(calls, func(a, b *Call) int { return cmp.Compare(a.Begun, b.Begun) })
	sorted, done := make([]*Call, 0, len(calls)), make(map[*Call]bool, len(calls))
	var add func(c *Call)
	add = func(c *Call) {
		if done[c] {
			return
		}
		done[c] = true
		for _, b := range before[c] {
			add(b)
		}
		sorted = append(sorted, c)
	}
	for _, c := range calls {
		add(c)
	}
	return sorted
}

// addMessages adds each message to its call.
func (t *Trace) addMessages(byRoot map[int]*Call, s sets) {
	for i := range t.Messages {
		m := &t.Messages[i]
		if m.Task() < 0 {
			continue
		}
		c := byRoot[s.root(m.Task())]
		c.Messages = append(c.Messages, i)
		c.Bytes += m.Size
		if m.Received {
			c.Ended = max(c.Ended, m.Due+m.Late, m.ReceivePosted)
		}
	}
}

// nameCalls names the calls, which are in order, and numbers the calls of sends and receives.
func (t *Trace) nameCalls(calls []*Call) {
	type named struct {
		comm uint64
		name string
	}
	numbers := map[named]int{}
	for i, c := range calls {
		x := &t.Tasks[c.Tasks[0]]
		c.Warmup = c.Begun < t.measured[x.Job]
		c.Name, c.Everyone = cmp.Or(x.Func, "?"), x.Func != "" && !x.IsP2P() && x.Ranks > 0
		if x.IsP2P() {
			c.Name = t.nameOfSends(c)
			c.Seq = numbers[named{c.Comm, c.Name}]
			numbers[named{c.Comm, c.Name}]++
		}
		for _, task := range c.Tasks {
			t.Tasks[task].Call = i
		}
		t.Calls = append(t.Calls, *c)
	}
}

// nameOfSends is AllToAll if every rank sends to every other one.
func (t *Trace) nameOfSends(c *Call) string {
	type pair struct{ from, to int }
	pairs := map[pair]bool{}
	ranks := 0
	for _, i := range c.Tasks {
		x := &t.Tasks[i]
		ranks = x.Ranks
		switch from := cmp.Or(x.Rank+1, x.Owner+1) - 1; {
		case x.Func == "Send" && from != x.Peer:
			pairs[pair{from, x.Peer}] = true
		case x.Func == "Recv" && from != x.Peer:
			pairs[pair{x.Peer, from}] = true
		}
	}
	switch {
	case ranks > 1 && len(pairs) == ranks*(ranks-1) && len(pairs) > 1:
		return "AllToAll"
	case len(pairs) == 1:
		return "Send"
	}
	return "SendRecv"
}

// CallOf is the place of a message's call, -1 if it is not known.
func (t *Trace) CallOf(m *Message) int {
	if m.Task() < 0 {
		return -1
	}
	return t.Tasks[m.Task()].Call
}

// HasEnded says whether no message of a call is stuck.
func (t *Trace) HasEnded(c *Call) bool {
	return !slices.ContainsFunc(c.Messages, func(i int) bool { return t.Messages[i].IsStuck() })
}

// Ended counts the calls with messages that have ended, and those that have not.
func (t *Trace) Ended() (ended, unfinished int) {
	for i := range t.Calls {
		switch c := &t.Calls[i]; {
		case !t.HasEnded(c):
			unfinished++
		case len(c.Messages) > 0:
			ended++
		}
	}
	return ended, unfinished
}

// Warmups counts the calls of the jobs' warm-ups.
func (t *Trace) Warmups() (n int) {
	for i := range t.Calls {
		if t.Calls[i].Warmup {
			n++
		}
	}
	return n
}

// Unattributed counts the messages whose call is not known.
func (t *Trace) Unattributed() int {
	n := 0
	for i := range t.Messages {
		if t.Messages[i].Task() < 0 {
			n++
		}
	}
	return n
}

// sets are disjoint sets of numbers, each with a root.
type sets []int

func (s *sets) add() { *s = append(*s, len(*s)) }

func (s sets) root(i int) int {
	for s[i] != i {
		s[i] = s[s[i]]
		i = s[i]
	}
	return i
}

func (s sets) join(i, j int) { s[s.root(i)] = s.root(j) }
