// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"cmp"
	"math"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/engine/sim"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/fabricfile"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
)

// Model is the fabric in the link model, in real ns: all times multiplied by the time scale.
type Model struct {
	fab       *fabric.Fabric
	scale     int
	seed      uint64
	params    []link.Params // by hop
	transport link.Transport
	shaper    string // of the kernel datapath, "" on another
	tables    *link.JitterTables
}

// NewModel is the model of the fabric of file f with its present parameters.
func NewModel(f *state.File) (*Model, error) {
	fab, err := fabricfile.Read(f)
	if err != nil {
		return nil, err
	}
	fixed := f.Fixed()
	m := &Model{fab: fab, scale: fixed.TimeScale, seed: fixed.Seed, transport: fixed.Transport, shaper: f.Shaper(),
		tables: f.Tables()}
	if fab.Config.OnKernel() { // this host's network stack is in their place
		m.transport.Overhead, m.transport.Host = 0, link.Host{}
		m.transport.Congestion = link.NoCongestion // datagrams are measured, not TCP
	}
	m.params, err = fab.Params(m.scale)
	if err != nil {
		return nil, err
	}
	return m, nil
}

// player simulates one flow and both of its ends. They post like the ends of a Runner, but in no time.
type player struct {
	Flow
	sim.Endpoints
	posts []int64        // times of the posts; nil to post as soon as the depth allows it
	later func(at int64) // makes the loop call act at a time
	waits uint64         // 1 + the post that this was called for
	end   int64          // end of posting
	trace Trace
}

// play simulates flows with the given ids on the idle fabric until a time, and returns when each message was visible.
// posts, if not nil, has the times of each flow's posts.
func (m *Model) play(flows []Flow, ids []uint64, posts [][]int64, until int64) []Trace {
	net := m.network()
	defer net.Close()
	return m.playOn(net, flows, ids, posts, until)
}

// network makes the idle fabric. The caller closes it.
func (m *Model) network() *link.Network {
	return link.NewNetwork(m.params, &m.transport, m.tables, m.seed)
}

func (m *Model) playOn(net *link.Network, flows []Flow, ids []uint64, posts [][]int64, until int64) []Trace {
	players, ends := make([]player, len(flows)), make([]*sim.Endpoints, len(flows))
	for i, f := range flows {
		p := &players[i]
		*p = player{Flow: f, end: until}
		p.Endpoints.Flow = net.NewFlow(ids[i], m.fab.Path(f.Src, f.Dst), fabric.Hops(m.fab.Path(f.Dst, f.Src)))
		p.trace.ID = ids[i]
		if posts != nil {
			p.posts = posts[i]
		}
		ends[i] = &p.Endpoints
	}
	roundRobin := m.fab.Config.IsVirtual()
	loop := sim.New(net, ends, order(flows, roundRobin), nil, sim.Rules{RoundRobin: roundRobin})
	runPlayers(loop, players, roundRobin, until)
	traces := make([]Trace, len(flows))
	for i := range players {
		traces[i] = players[i].trace
	}
	return traces
}

// order is the order of the flows: on a virtual clock by their NICs.
func order(flows []Flow, roundRobin bool) []uint64 {
	return sim.Orders(len(flows), func(a, b int) int {
		x, y := &flows[a], &flows[b]
		if !roundRobin {
			return cmp.Compare(a, b)
		}
		return cmp.Compare(sim.Order(x.Src, x.Dst, 0), sim.Order(y.Src, y.Dst, 0))
	})
}

// runPlayers plays until a time. On a virtual clock posts are read round-robin, on a real one a flow reads what its
// ends post.
func runPlayers(l *sim.Loop, players []player, roundRobin bool, until int64) {
	act := func(i int) {
		for players[i].act(l.Now()) && !roundRobin {
			l.Step(i)
		}
	}
	for i := range players {
		players[i].later = func(at int64) { l.After(at, uint64(i), func() { act(i) }) }
		players[i].start()
		act(i)
	}
	for {
		flows, stop := l.Run(until)
		if stop == sim.Reached {
			return
		}
		for _, i := range flows {
			act(int(i))
		}
		l.RunTimers()
	}
}

// long is the time before 0 at which the first receives were posted, so large that no message waits for them.
const long = math.MaxInt64 / 4

// start posts the first receives.
func (p *player) start() {
	for p.Posted < MaxDepth && p.Posted < uint64(p.Messages) {
		p.Endpoints.Flow.Recv(-long)
		p.Posted++
	}
}

// act lets both ends see what has arrived and post what they can. It reports whether they have done something.
func (p *player) act(now int64) (moved bool) {
	arrived, acked := p.Poll()
	for k := p.Arrived - arrived; k < p.Arrived; k++ {
		msg := p.Endpoints.Flow.Message(k)
		at := max(msg.Due, msg.Recv)
		p.trace.Visible, p.trace.Missing = append(p.trace.Visible, at), append(p.trace.Missing, at)
		if p.Posted < uint64(p.Messages) {
			p.Receive()
		}
	}
	moved = arrived > 0 || acked > 0
	for p.post(now) {
		moved = true
	}
	return moved
}

// post posts one message, if it is time for one.
func (p *player) post(now int64) bool {
	if p.Sent == uint64(p.Messages) {
		return false
	}
	switch {
	case p.posts != nil && p.Sent == uint64(len(p.posts)):
		return false
	case p.posts != nil && p.posts[p.Sent] > now:
		if p.waits != p.Sent+1 {
			p.waits = p.Sent + 1
			p.later(p.posts[p.Sent])
		}
		return false
	case p.posts == nil && (now >= p.end || p.Sent-p.Acked == uint64(p.Depth)):
		return false
	}
	if !p.Send(uint64(p.Size)) {
		return false
	}
	p.trace.Posted, p.trace.Returned = append(p.trace.Posted, now), append(p.trace.Returned, now)
	return true
}
