// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"math"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
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
	m := &Model{fab: fab, scale: fixed.TimeScale, seed: fixed.Seed, transport: fixed.Transport, shaper: f.Shaper(), tables: f.Tables()}
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

// player simulates one flow and both of its ends. They post like those of a Runner, but in no time.
type player struct {
	Flow
	flow  *link.Flow
	posts []int64 // times of the posts; nil to post as soon as the depth allows it
	end   int64   // end of posting

	posted, complete, receives, received, released uint64
	trace                                          Trace

	// For takeTurns: when the flow makes its next step, when it or one of its ends goes on, and whether an end has
	// just seen something.
	step, next int64
	acted      bool
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
	players, next := make([]player, len(flows)), make([]int64, len(flows))
	for i, f := range flows {
		p := &players[i]
		*p = player{Flow: f, end: until, flow: net.NewFlow(ids[i], m.fab.Path(f.Src, f.Dst), fabric.Hops(m.fab.Path(f.Dst, f.Src)))}
		p.trace.ID = ids[i]
		if posts != nil {
			p.posts = posts[i]
		}
		next[i] = p.start()
	}
	if m.fab.Config.IsVirtual() {
		takeTurns(players, next, until)
	} else {
		takeFirst(players, next, until)
	}
	traces := make([]Trace, len(flows))
	for i := range players {
		traces[i] = players[i].trace
	}
	return traces
}

// takeFirst plays the flow that goes on next, again and again: next says when each does.
func takeFirst(players []player, next []int64, until int64) {
	for {
		first := 0
		for i := range next {
			if next[i] < next[first] {
				first = i
			}
		}
		now := next[first]
		if now > until { // or Never
			return
		}
		next[first] = max(players[first].play(now), now+1)
	}
}

// long is the time before 0 at which the first receives were posted, so large that no message waits for them.
const long = math.MaxInt64 / 4

// start posts the first receives and returns the time of the first step.
func (p *player) start() int64 {
	for p.receives < MaxDepth && p.receives < uint64(p.Messages) {
		p.flow.Recv(-long)
		p.receives++
	}
	if len(p.posts) > 0 {
		return p.posts[0]
	}
	return 0
}

// play does everything that is due by now and returns when the flow goes on.
func (p *player) play(now int64) int64 {
	for {
		next := p.flow.Advance(now)
		moved := p.take(now, &next)
		for p.post(now, &next) {
			moved = true
		}
		if !moved {
			return next
		}
	}
}

// take lets both ends see what is due: messages that have arrived, and sends that are complete.
func (p *player) take(now int64, next *int64) (moved bool) {
	moved = p.receive(now, next)
	for p.complete < p.posted && p.due(p.flow.Message(p.complete).Sent, now, next) {
		p.complete++
		moved = true
	}
	for ; p.released < min(p.complete, p.received); p.released++ {
		p.flow.Take()
	}
	return moved
}

// due says whether the time t has come. If not, next due at most t.
func (p *player) due(t, now int64, next *int64) bool {
	if t > now {
		*next = min(*next, t)
		return false
	}
	return true
}

func (p *player) receive(now int64, next *int64) (moved bool) {
	for p.received < min(p.posted, p.receives) && p.due(p.flow.Message(p.received).Due, now, next) {
		msg := p.flow.Message(p.received)
		at := max(msg.Due, msg.Recv)
		p.trace.Visible, p.trace.Missing = append(p.trace.Visible, at), append(p.trace.Missing, at)
		p.received++
		if p.receives < uint64(p.Messages) && p.flow.Recv(now) {
			p.receives++
		}
		moved = true
	}
	return moved
}

// post posts one message, if it is time for one.
func (p *player) post(now int64, next *int64) bool {
	if p.posted == uint64(p.Messages) {
		return false
	}
	at := now
	switch {
	case p.posts != nil && p.posted == uint64(len(p.posts)):
		return false
	case p.posts != nil:
		at = p.posts[p.posted]
	case now >= p.end || p.posted-p.complete == uint64(p.Depth):
		return false
	}
	if !p.due(at, now, next) {
		return false
	}
	if _, ok := p.flow.Post(uint64(p.Size), at); !ok {
		return false
	}
	p.trace.Posted, p.trace.Returned = append(p.trace.Posted, at), append(p.trace.Returned, at)
	p.posted++
	return true
}
