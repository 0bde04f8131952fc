// SPDX-License-Identifier: Apache-2.0

package members

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// prefix is how many calls of each member come before the first difference: until there, all ranks have recorded the
// same collectives in one order, each number once. all says that nothing else follows.
func prefix(c []*Member) (ends []int, all bool) {
	ends = make([]int, len(c))
	next := func(m *Member, from int) int {
		for from < len(m.calls) && !m.calls[from].collective() {
			from++
		}
		return from
	}
	last := map[workload.Func]int64{}
	for {
		at := next(c[0], ends[0])
		if at == len(c[0].calls) {
			break
		}
		first := &c[0].calls[at]
		if before, ok := last[first.op.Func]; ok && first.seq <= before {
			return ends, false
		}
		for i, m := range c[1:] {
			k := next(m, ends[i+1])
			if k == len(m.calls) || m.calls[k].seq != first.seq || m.calls[k].op != first.op {
				return ends, false
			}
		}
		last[first.op.Func] = first.seq
		for i, m := range c {
			ends[i] = next(m, ends[i]) + 1
		}
	}
	for i, m := range c {
		if next(m, ends[i]) != len(m.calls) {
			return ends, false
		}
		ends[i] = len(m.calls)
	}
	return ends, true
}

// collectives are the keys of the collectives among calls.
func collectives(calls []record) iter.Seq[key] {
	return func(yield func(key) bool) {
		for i := range calls {
			if c := &calls[i]; c.collective() && !yield(c.key()) {
				return
			}
		}
	}
}

// kept are the calls that were not dropped.
func kept(calls []record) []record {
	return slices.DeleteFunc(calls, func(c record) bool { return c.drop })
}

// rest are the calls of a member after the prefix.
type rest struct {
	*Member
	calls []record
}

// order is the order of the collectives of a communicator after the prefix, on all its ranks. A recorder that had no
// room may have left out other calls on each rank, so that none has all of them. The order is the order of the rank
// with the most calls; those that it lacks come after the call that was before them on the rank that has them. numbers
// are the numbers of the last calls of the prefix.
func order(c []rest, numbers map[workload.Func]int64) ([]key, map[key]*workload.Op, error) {
	first := c[0]
	for _, m := range c {
		if len(m.calls) > len(first.calls) {
			first = m
		}
	}
	twice := func(m rest, k key) error {
		return fmt.Errorf("communicator %s: %s number %d is there twice on rank %d", m.Comm, k.f, k.seq, m.Rank)
	}
	var keys []key
	ops := map[key]*workload.Op{}
	old := func(k key) bool {
		before, ok := numbers[k.f]
		return ok && k.seq <= before
	}
	for i := range first.calls {
		call := &first.calls[i]
		if !call.collective() {
			continue
		}
		k := call.key()
		if old(k) || ops[k] != nil {
			return nil, nil, twice(first, k)
		}
		keys = append(keys, k)
		ops[k] = call.op
	}
	late := map[key][]key{} // what comes after a key; the zero key is the beginning
	for _, m := range c {
		if m.Member == first.Member {
			continue
		}
		seen := map[key]bool{}
		var before key
		for i := range m.calls {
			call := &m.calls[i]
			if !call.collective() {
				continue
			}
			k := call.key()
			if old(k) || seen[k] {
				return nil, nil, twice(m, k)
			}
			seen[k] = true
			switch known := ops[k]; {
			case known == nil:
				ops[k] = call.op
				late[before] = append(late[before], k)
			case known != call.op:
				return nil, nil, fmt.Errorf(
					"communicator %s: %s number %d has %d %s on a rank and %d %s on rank %d: give the files of "+
						"one job",
					m.Comm, k.f, k.seq, known.Count, known.Type, call.op.Count, call.op.Type, m.Rank)
			}
			before = k
		}
	}
	return insert(keys, late), ops, nil
}

// insert puts what comes late after each key, and what comes after that.
func insert(keys []key, late map[key][]key) []key {
	var out, stack []key
	push := func(k key) {
		after := late[k]
		for i := len(after) - 1; i >= 0; i-- {
			stack = append(stack, after[i])
		}
		delete(late, k)
	}
	drain := func() {
		for len(stack) > 0 {
			k := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			out = append(out, k)
			push(k)
		}
	}
	push(key{})
	drain()
	for _, k := range keys {
		out = append(out, k)
		push(k)
		drain()
	}
	return out
}

// merged appends the calls of a member after the prefix to the calls of the prefix, with the collectives that only
// other members have recorded.
func merged(calls []record, m rest, keys []key, ops map[key]*workload.Op) (out []record, added int) {
	own := make(map[key]int, len(m.calls))
	for i := range m.calls {
		if c := &m.calls[i]; c.collective() {
			own[c.key()] = i
		}
	}
	at, last := 0, int64(0)
	if len(calls) > 0 {
		last = calls[len(calls)-1].at
	} else if len(m.calls) > 0 {
		last = m.calls[0].at
	}
	messages := func(until int) {
		for ; at < until; at++ {
			if c := &m.calls[at]; !c.collective() && !c.drop {
				calls = append(calls, *c)
				last = max(last, c.at)
			}
		}
	}
	for _, k := range keys {
		i, ok := own[k]
		if !ok {
			calls = append(calls, record{op: ops[k], seq: k.seq, at: last})
			added++
			continue
		}
		messages(i)
		at = max(at, i+1)
		c := m.calls[i]
		c.at = max(c.at, last)
		last = c.at
		calls = append(calls, c)
	}
	messages(len(m.calls))
	return calls, added
}

// gaps says which numbers of calls no rank has recorded.
func gaps(name string, keys iter.Seq[key]) (notes []string) {
	type span struct{ first, last, have int64 }
	spans := map[workload.Func]*span{}
	for k := range keys {
		s := spans[k.f]
		if s == nil {
			s = &span{first: k.seq, last: k.seq}
			spans[k.f] = s
		}
		s.first, s.last, s.have = min(s.first, k.seq), max(s.last, k.seq), s.have+1
	}
	for _, f := range slices.Sorted(maps.Keys(spans)) {
		s := spans[f]
		var lacks []string
		if s.first > 0 {
			lacks = append(lacks, fmt.Sprintf("%s before number %d", units.Count(int(s.first), "call"), s.first))
		}
		if n := s.last - s.first + 1 - s.have; n > 0 {
			lacks = append(lacks, fmt.Sprintf("%s between numbers %d and %d", units.Count(int(n), "call"), s.first,
				s.last))
		}
		if len(lacks) > 0 {
			notes = append(notes, fmt.Sprintf("%s of communicator %s: not recorded, left out: %s", f, name,
				strings.Join(lacks, " and ")))
		}
	}
	return notes
}

// match drops sends without a receive and receives without a send, which a recorder has left out on one of the two
// ranks.
func match(c []*Member) (dropped int) {
	type flow struct{ from, to int }
	sent, received := map[flow][]*record{}, map[flow][]*record{}
	for _, m := range c {
		for i := range m.calls {
			switch call := &m.calls[i]; call.op.Kind {
			case workload.Send:
				sent[flow{m.Rank, call.op.Peer}] = append(sent[flow{m.Rank, call.op.Peer}], call)
			case workload.Recv:
				received[flow{call.op.Peer, m.Rank}] = append(received[flow{call.op.Peer, m.Rank}], call)
			}
		}
	}
	for f, list := range sent {
		dropped += pair(list, received[f])
		delete(received, f)
	}
	for _, list := range received {
		dropped += pair(nil, list)
	}
	return dropped
}

func bytesOf(c *record) int64 { return c.op.Bytes(1) }

// pair drops calls of two lists until the sizes in both are the same: first the last ones of sizes of which the other
// list has fewer, then all after the first difference.
func pair(a, b []*record) (dropped int) {
	same := func(x, y *record) bool { return bytesOf(x) == bytesOf(y) }
	if slices.EqualFunc(a, b, same) {
		return 0
	}
	keep := func(list, other []*record) (kept []*record) {
		room := map[int64]int{}
		for _, c := range other {
			room[bytesOf(c)]++
		}
		for _, c := range list {
			if room[bytesOf(c)]--; room[bytesOf(c)] < 0 {
				c.drop = true
				dropped++
				continue
			}
			kept = append(kept, c)
		}
		return kept
	}
	a, b = keep(a, b), keep(b, a)
	n := 0
	for n < len(a) && n < len(b) && same(a[n], b[n]) {
		n++
	}
	for _, list := range [][]*record{a[n:], b[n:]} {
		for _, c := range list {
			c.drop = true
			dropped++
		}
	}
	return dropped
}
