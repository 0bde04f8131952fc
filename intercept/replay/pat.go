// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// patStage is a stage of PAT: its messages by dimension, and how far the kernel is.
type patStage struct {
	in, out  map[int][]int
	read     map[int]int // messages that are read
	written  map[int]int
	needed   map[int]int // of each dimension, 1 + the last message that the kernel has looked at
	occupied map[int]int // likewise, written to
}

// patRules says what the messages of a call with PAT wait for, and returns what the kernel waits for before
// it reads each message; nil if the messages do not fit the schedule.
func (g *graph) patRules(c *messages.Call, s schedule, stages map[stageKey]*stage) map[int][]int32 {
	reads := map[int][]int32{}
	ranks := map[[2]int]int{} // of the communicator, by job and rank
	for _, i := range c.Tasks {
		x := &g.trace.Tasks[i]
		ranks[[2]int{x.Job, x.Owner}] = x.Rank
	}
	if s.task.Ranks < 2 { // damaged
		return nil
	}
	for key, st := range stages {
		p := patOf(s, key, st, ranks)
		hops := g.patHops(s, p)
		if hops == nil {
			return nil
		}
		for !p.isDone() {
			for _, h := range hops {
				g.patHop(s, p, h, reads)
			}
		}
	}
	return reads
}

// patOf sorts the streams of a stage by their dimensions.
func patOf(s schedule, key stageKey, st *stage, ranks map[[2]int]int) *patStage {
	p := &patStage{in: map[int][]int{}, out: map[int][]int{}, read: map[int]int{}, written: map[int]int{}, needed: map[int]int{}, occupied: map[int]int{}}
	me, n := ranks[[2]int{key.job, key.rank}], s.task.Ranks
	dimension := func(from, to int) int { // of what goes from one rank to another
		away := (to - from + n) % n
		if s.task.Func == "AllGather" {
			away = (from - to + n) % n
		}
		for d := 0; 1<<d < n; d++ {
			if 1<<d == away {
				return d
			}
		}
		return -1
	}
	for _, o := range st.out {
		p.out[dimension(me, ranks[[2]int{key.job, o.peer}])] = o.messages
	}
	for _, i := range st.in {
		p.in[dimension(ranks[[2]int{key.job, i.peer}], me)] = i.messages
	}
	return p
}

func (p *patStage) isDone() bool {
	for d, all := range p.out {
		if p.written[d] < len(all) {
			return false
		}
	}
	for d, all := range p.in {
		if p.read[d] < len(all) {
			return false
		}
	}
	return true
}

// patHops finds the schedule that has these messages: as many, and of these sizes.
func (g *graph) patHops(s schedule, p *patStage) []plan.PATHop {
	const most = 1 << 14 // ranks; PAT has far fewer
	for fit := 1; fit <= s.task.Ranks && s.task.Ranks <= most; fit *= 2 {
		hops := plan.PATHops(s.task.Ranks, fit, s.task.Func == "AllGather")
		if g.fitsPAT(p, hops) {
			return hops
		}
	}
	return nil
}

func (g *graph) fitsPAT(p *patStage, hops []plan.PATHop) bool {
	sends, receives := map[int]int{}, map[int]int{}
	chunk := uint64(0)
	for _, h := range hops {
		if h.SendDim >= 0 && h.Sends {
			all := p.out[h.SendDim]
			if sends[h.SendDim] >= len(all) {
				return false
			}
			size := g.trace.Messages[all[sends[h.SendDim]]].Size
			if chunk == 0 {
				chunk = size / uint64(h.Slots)
			}
			if size != chunk*uint64(h.Slots) {
				return false
			}
			sends[h.SendDim]++
		}
		if h.RecvDim >= 0 && h.Recvs {
			receives[h.RecvDim]++
		}
	}
	loops := -1
	same := func(all map[int][]int, each map[int]int) bool {
		for d, messages := range all {
			if each[d] == 0 || len(messages)%each[d] != 0 || loops >= 0 && len(messages)/each[d] != loops {
				return false
			}
			loops = len(messages) / each[d]
		}
		return len(all) == len(each)
	}
	return same(p.out, sends) && same(p.in, receives)
}

// patHop makes one step of a kernel.
func (g *graph) patHop(s schedule, p *patStage, h plan.PATHop, reads map[int][]int32) {
	if d := h.RecvDim; d >= 0 {
		p.needed[d] = max(p.needed[d], p.read[d]+h.RecvAhead+1)
	}
	if d := h.SendDim; d >= 0 {
		p.occupied[d] = max(p.occupied[d], p.written[d]+h.SendAhead+1)
	}
	var nodes []int32
	for d, n := range p.needed {
		if n <= len(p.in[d]) {
			nodes = append(nodes, visible(p.in[d][n-1]))
		}
	}
	for d, n := range p.occupied {
		if n > len(p.out[d]) {
			continue
		}
		if before := g.placeFor(s, p.out[d][n-1]); before >= 0 {
			nodes = append(nodes, complete(before))
		}
	}
	if d := h.SendDim; d >= 0 && h.Sends {
		for _, n := range nodes {
			g.after(posted(p.out[d][p.written[d]]), n)
		}
		p.written[d]++
	}
	if d := h.RecvDim; d >= 0 && h.Recvs {
		reads[p.in[d][p.read[d]]] = nodes
		p.read[d]++
	}
}
