// SPDX-License-Identifier: Apache-2.0

package ncclcalls

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// pair leaves out the calls of a communicator that not all ranks have in their logs, because a log may begin late
// (tail, rotation) or end early. Calls belong together by opCount, the number of the launch on the communicator; the
// calls of a group have the same one, and are in order.
//
// Each rank counts its own launches, so opCounts are the same on all ranks unless some ranks alone send and receive.
// There they say which calls belong together only if what they pair matches; else all calls are kept.
func (l *log) pair(name string, members []*member) {
	if whole(members) {
		return
	}
	p2p := slices.ContainsFunc(members, func(m *member) bool {
		return slices.ContainsFunc(m.calls, func(c call) bool { return c.op.Kind != workload.Coll })
	})
	var missing []string
	if p2p {
		missing = overlap(members)
		if !matched(members) {
			for _, m := range members {
				for i := range m.calls {
					m.calls[i].left = false
				}
			}
			l.pairing = append(l.pairing,
				fmt.Sprintf(
					"communicator %s: the opCounts of its ranks do not pair their sends and receives: all calls are "+
						"kept", name))
			return
		}
	} else {
		missing = common(members)
	}
	for _, text := range missing {
		l.pairing = append(l.pairing, fmt.Sprintf("communicator %s: %s: left out on all ranks", name, text))
	}
}

// whole says whether the logs of all ranks begin at the same opCount, and have calls that match in their order.
func whole(members []*member) bool {
	for _, m := range members {
		if (len(m.calls) == 0) != (len(members[0].calls) == 0) || len(m.calls) > 0 &&
			m.calls[0].opCount != members[0].calls[0].opCount {
			return false
		}
	}
	return matched(members)
}

// matched says whether the calls that are kept match in their order: the same collectives, and a receive for each send.
func matched(members []*member) bool {
	first := collectives(members[0])
	for _, m := range members[1:] {
		if !slices.EqualFunc(first, collectives(m), sameCollective) {
			return false
		}
	}
	type flow struct{ from, to int }
	sent, received := map[flow][]int64{}, map[flow][]int64{}
	for at, m := range members {
		if m.rank >= 0 {
			at = m.rank
		}
		for i := range m.calls {
			switch c := &m.calls[i]; {
			case c.left:
			case c.op.Kind == workload.Send:
				sent[flow{at, c.op.Peer}] = append(sent[flow{at, c.op.Peer}], c.op.Bytes(m.size))
			case c.op.Kind == workload.Recv:
				received[flow{c.op.Peer, at}] = append(received[flow{c.op.Peer, at}], c.op.Bytes(m.size))
			}
		}
	}
	return maps.EqualFunc(sent, received, slices.Equal[[]int64])
}

func collectives(m *member) (calls []*call) {
	for i := range m.calls {
		if c := &m.calls[i]; !c.left && c.op.Kind == workload.Coll {
			calls = append(calls, c)
		}
	}
	return calls
}

func sameCollective(a, b *call) bool {
	return a.op.Func == b.op.Func && a.op.Count == b.op.Count && a.op.Type == b.op.Type && a.op.Root == b.op.Root &&
		a.op.RedOp == b.op.RedOp
}

// overlap leaves out the calls before the opCount at which the last log begins, and after that at which the first one
// ends.
func overlap(members []*member) (missing []string) {
	begin, end := uint64(0), ^uint64(0)
	for _, m := range members {
		if len(m.calls) == 0 {
			begin, end = 1, 0
			break
		}
		begin, end = max(begin, m.calls[0].opCount), min(end, m.calls[len(m.calls)-1].opCount)
	}
	left := map[uint64]bool{}
	for _, m := range members {
		for i := range m.calls {
			if c := &m.calls[i]; c.opCount < begin || c.opCount > end {
				c.left, left[c.opCount] = true, true
			}
		}
	}
	for _, m := range members {
		var lacks []uint64
		for n := range left {
			if len(m.calls) == 0 || n < m.calls[0].opCount || n > m.calls[len(m.calls)-1].opCount {
				lacks = append(lacks, n)
			}
		}
		missing = appendMissing(missing, m, lacks)
	}
	return missing
}

// common keeps the opCounts that all ranks have, and of the calls of each as many as all have: the last ones in the
// launch at which the shorter log begins, else the first ones.
func common(members []*member) (missing []string) {
	byCount := make([]map[uint64][]*call, len(members))
	all := map[uint64]bool{}
	for k, m := range members {
		byCount[k] = map[uint64][]*call{}
		for i := range m.calls {
			c := &m.calls[i]
			byCount[k][c.opCount] = append(byCount[k][c.opCount], c)
			all[c.opCount] = true
		}
	}
	lacks := make([][]uint64, len(members))
	for n := range all {
		least, most, fromEnd := 1<<62, 0, false
		for k, m := range members {
			calls := len(byCount[k][n])
			least, most = min(least, calls), max(most, calls)
			if calls == least {
				fromEnd = len(m.calls) > 0 && m.calls[0].opCount == n
			}
		}
		for k := range members {
			calls := byCount[k][n]
			if len(calls) < most {
				lacks[k] = append(lacks[k], n)
			}
			out := calls[min(least, len(calls)):]
			if fromEnd {
				out = calls[:len(calls)-least]
			}
			for _, c := range out {
				c.left = true
			}
		}
	}
	for k, m := range members {
		missing = appendMissing(missing, m, lacks[k])
	}
	return missing
}

// appendMissing says which opCounts are not in the log of a rank, in hexadecimal as the log has them.
func appendMissing(missing []string, m *member, lacks []uint64) []string {
	slices.Sort(lacks)
	lacks = slices.Compact(lacks)
	if len(lacks) == 0 {
		return missing
	}
	var ranges []string
	for i := 0; i < len(lacks); {
		j := i
		for j+1 < len(lacks) && lacks[j+1] == lacks[j]+1 {
			j++
		}
		text := fmt.Sprintf("%x", lacks[i])
		if j > i {
			text += fmt.Sprintf("-%x", lacks[j])
		}
		ranges = append(ranges, text)
		i = j + 1
	}
	const most = 6
	more := ""
	if len(ranges) > most {
		more = fmt.Sprintf(" and %s more", units.Count(len(ranges)-most, "range"))
		ranges = ranges[:most]
	}
	word := "opCounts"
	if len(lacks) == 1 {
		word = "opCount"
	}
	return append(missing, fmt.Sprintf("calls of %s %s%s of rank %d are not in its log", word,
		strings.Join(ranges, ", "), more, m.caller.rank))
}

// shift makes the first call that is kept the beginning of the job, if calls before it were left out.
func (l *log) shift() {
	var first *call
	left := false
	for _, c := range l.callers {
		for _, one := range c.calls {
			left = left || one.left
			if !one.left && (first == nil || one.at < first.at) {
				first = one
			}
		}
	}
	if !left || first == nil {
		return
	}
	begin := first.at
	for _, c := range l.callers {
		for _, one := range c.calls {
			one.at -= begin
		}
	}
}

// order sorts the calls of each rank into the order of the log.
func (l *log) order() {
	for _, m := range l.members {
		if m.caller == nil {
			continue
		}
		for i := range m.calls {
			m.caller.calls = append(m.caller.calls, &m.calls[i])
		}
	}
	for _, c := range l.callers {
		slices.SortFunc(c.calls, func(a, b *call) int { return cmp.Compare(a.number, b.number) })
	}
}
