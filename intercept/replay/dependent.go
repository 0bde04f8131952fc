// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// CallTimes are when a call was begun by its first rank, and had ended for its last one.
type CallTimes struct {
	Begin, End int64
}

// Played is recorded calls, as they would have been.
type Played struct {
	Calls []CallTimes // of each call of the trace; both are link.Never if the call was not played
	Never int         // posts that never came, because what they wait for never happened
}

// Calls plays recorded calls on a fabric.
type Calls struct {
	trace    *messages.Trace
	recorded *Recorded
	graph    *graph
	first    []int32 // of each node, where its edges begin in waiting
	waiting  []int32 // nodes that wait for it
	waits    []int32 // of each node, how many it waits for
	gap      []int64 // of each node: the time after the last one that it waits for
}

// NewCalls finds out what each post of the trace waits for, if the ranks did so between their calls.
func NewCalls(t *messages.Trace, between Between) *Calls {
	r := Prepare(t)
	g := newGraph(t, r, between)
	c := &Calls{trace: t, recorded: r, graph: g, first: make([]int32, len(g.at)+1), waiting: make([]int32, len(g.from)),
		waits: make([]int32, len(g.at)), gap: make([]int64, len(g.at))}
	latest := make([]int64, len(g.at))
	for e, from := range g.from {
		c.first[from+1]++
		to := g.to[e]
		c.waits[to]++
		latest[to] = max(latest[to], g.at[from])
	}
	for i := range g.at {
		c.first[i+1] += c.first[i]
		c.gap[i] = g.at[i] - latest[i]
	}
	at := append([]int32(nil), c.first...)
	for e, from := range g.from {
		c.waiting[at[from]] = g.to[e]
		at[from]++
	}
	return c
}

// Rules counts the rules, and those of them that do not hold in the recording, so that they were left out.
func (c *Calls) Rules() (all, odd int) { return len(c.graph.from) + c.graph.late, c.graph.late }

// Computed counts the posts, and the beginnings of calls, that came later than all that they are known to
// wait for, of the rank that was late for the longest time, and sums by how much: it computed meanwhile, or waited for
// what is not known. The beginning of the recording does not count, nor do calls without messages
// or without an end.
func (c *Calls) Computed() (posts int, ns int64) {
	type late struct {
		posts int
		ns    int64
	}
	ranks := map[[2]int]late{}
	for i, gap := range c.gap {
		if key, ok := c.lateRank(int32(i)); ok && gap > 0 && c.graph.at[i] > gap {
			l := ranks[key]
			ranks[key] = late{l.posts + 1, l.ns + gap}
		}
	}
	for _, l := range ranks {
		if l.ns > ns || l.ns == ns && l.posts > posts {
			posts, ns = l.posts, l.ns
		}
	}
	return posts, ns
}

// lateRank is the job and the rank that posts or begins a call at a node. ok is false of other nodes, and of calls that
// have not ended.
func (c *Calls) lateRank(n int32) (key [2]int, ok bool) {
	g := c.graph
	if n >= g.begin(0) {
		k := int(n-g.begin(0)) / 2
		if k >= len(g.parts) || n != g.begin(k) {
			return key, false
		}
		p := &g.parts[k]
		call := &c.trace.Calls[p.call]
		return [2]int{p.job, p.rank}, len(call.Messages) > 0 && c.trace.HasEnded(call)
	}
	i := int(n) / 4
	m := &c.trace.Messages[i]
	if call := c.trace.CallOf(m); c.recorded.FlowOf[i] < 0 || call >= 0 && !c.trace.HasEnded(&c.trace.Calls[call]) ||
		!m.Received {
		return key, false
	}
	switch n {
	case posted(i):
		return [2]int{m.Job, m.Sender}, true
	case received(i):
		return [2]int{m.Job, m.Receiver}, true
	}
	return key, false
}

// LeavesOpen says whether a rank began a call, or a computation, later than what it had waited for ended, so that it
// matters whether it computed meanwhile or all the time: see Between.
func (c *Calls) LeavesOpen() bool {
	g := c.graph
	for n := g.begin(0); n < g.opsEnd; n += 2 { // the begins of calls, then those of computations
		if c.waits[n] > 0 && c.gap[n] > 0 {
			return true
		}
	}
	return false
}

// ByRules counts the calls with messages, and those of them whose plan is not known, so that rules say what waits for
// what.
func (c *Calls) ByRules() (calls, byRules int) { return c.graph.calls, c.graph.byRules }

// Skipped counts the messages that are not played.
func (c *Calls) Skipped() int { return c.recorded.Skipped }

// Play plays the calls on a fabric. Calls of the jobs in without are left out.
func (c *Calls) Play(f *Fabric, without map[int]bool) (*Played, error) {
	s, err := newSimulation(f, c.recorded.Flows, false)
	if err != nil {
		return nil, err
	}
	defer s.close()
	d := &dependent{Calls: c, at: make([]int64, len(c.waits)), waits: append([]int32(nil), c.waits...),
		latest: make([]int64, len(c.waits)), without: without}
	for i := range d.at {
		d.at[i] = link.Never
	}
	s.allActs = 2 * len(c.trace.Messages)
	if err := s.run(d); err != nil {
		return nil, fmt.Errorf("play the calls: %w", err)
	}
	return d.played(), nil
}

// dependent is a driver that posts when all that a post waits for has happened.
type dependent struct {
	*Calls
	at      []int64 // when each node happened, link.Never if it has not
	waits   []int32
	latest  []int64 // of what it waits for
	without map[int]bool
}

// start makes happen what waits for nothing.
func (d *dependent) start(s *simulation) {
	for i := range d.trace.Messages {
		m := &d.trace.Messages[i]
		if d.recorded.FlowOf[i] < 0 || d.without[m.Job] {
			continue
		}
		if d.waits[posted(i)] == 0 {
			d.happensLater(s, posted(i))
		}
		if m.HasReceive && d.waits[received(i)] == 0 {
			d.happensLater(s, received(i))
		}
	}
	for i, job := range d.graph.jobs {
		if n := d.graph.begin(0) + int32(i); d.waits[n] == 0 && !d.without[job] {
			d.happensLater(s, n)
		}
	}
}

// happensLater makes a node happen that waits for nothing any more.
func (d *dependent) happensLater(s *simulation, n int32) {
	s.at(d.latest[n]+d.gap[n], n, func() error { return d.act(s, n) })
}

// happened notes that a node happened now, and makes what waited for it happen.
func (d *dependent) happened(s *simulation, n int32) {
	d.at[n] = s.now
	for _, w := range d.waiting[d.first[n]:d.first[n+1]] {
		d.latest[w] = s.now
		if d.waits[w]--; d.waits[w] == 0 {
			d.happensLater(s, w)
		}
	}
}

// act posts what node n stands for.
func (d *dependent) act(s *simulation, n int32) error {
	var err error
	switch i := int(n) / 4; {
	case i >= len(d.trace.Messages):
	case n == posted(i):
		err = s.post(d.recorded.FlowOf[i], d.trace.Messages[i].Size)
	case n == received(i):
		err = s.receive(d.recorded.FlowOf[i])
	}
	if err != nil {
		return err
	}
	d.happened(s, n)
	return nil
}

func (d *dependent) due(s *simulation, flow, msg int) {
	d.happened(s, visible(d.recorded.Messages[flow][msg]))
}

func (d *dependent) sent(s *simulation, flow, msg int) {
	d.happened(s, complete(d.recorded.Messages[flow][msg]))
}

// played are the times of the calls.
func (d *dependent) played() *Played {
	p := &Played{Calls: make([]CallTimes, len(d.trace.Calls))}
	for i := range p.Calls {
		p.Calls[i] = CallTimes{link.Never, link.Never}
	}
	unfinished := map[int]bool{} // calls that a rank has not ended
	for k := range d.graph.parts {
		x := &d.graph.parts[k]
		begin, end := d.at[d.graph.begin(k)], d.at[d.graph.end(k)]
		c := &p.Calls[x.call]
		switch {
		case end == link.Never:
			unfinished[x.call] = true
		case c.End == link.Never || end > c.End:
			c.End = end
		}
		c.Begin = min(c.Begin, begin)
	}
	for call := range unfinished {
		p.Calls[call] = CallTimes{link.Never, link.Never}
	}
	for i := range d.trace.Messages {
		if d.recorded.FlowOf[i] >= 0 && !d.without[d.trace.Messages[i].Job] && d.at[posted(i)] == link.Never {
			p.Never++
		}
	}
	return p
}
