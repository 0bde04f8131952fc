// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"math/bits"
	"slices"
	"sync"

	"github.com/ddlemu/ddlemu/intercept/messages"
	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/intercept/why"
)

// What a page can hold. The longest calls and messages are kept; the sums are of all.
const (
	MostMessages = 100_000
	mostCalls    = 20_000
	mostPaths    = 50 // calls with their critical paths
	mostParts    = 12 // of a call
)

// maker makes a document.
type maker struct {
	*replay.Replayed
	why       *why.Report
	data      *Data
	scale     int64
	first     int64 // of the fabric's clock
	last      int64
	rank      map[[2]int]int // place in Data.Ranks, by job and rank
	causes    map[Cause]int
	functions map[string]int
	hops      []int // of the fabric, by place in Map.Hops
}

// New makes the document of a job. The caller adds what the trace does not know: version, clock, notes and
// outcomes.
func New(p *replay.Replayed, r *why.Report) *Data {
	m := &maker{
		Replayed: p, why: r, scale: p.Trace.Ranks[0].TimeScale,
		data: &Data{Format: Format, Jobs: p.Trace.Jobs, TimeScale: p.Trace.Ranks[0].TimeScale, AllCalls: len(r.Calls),
			Notes: []string{}, Outcomes: []Outcome{}, Causes: []Cause{}, Ranks: []Rank{}, Functions: []Function{},
			Upgrades: Upgrades{Notes: []string{}, List: []Upgrade{}}},
		rank: map[[2]int]int{}, causes: map[Cause]int{}, functions: map[string]int{},
	}
	m.span()
	m.ranks()
	var other sync.WaitGroup
	other.Go(func() { // it shares no field with what follows
		m.fabric()
		m.load()
	})
	m.sums()
	m.calls()
	m.messages()
	other.Wait()
	m.bottleneck()
	return m.data
}

// span finds the first and the last time.
func (m *maker) span() {
	m.first, m.last = m.why.Span(m.Replayed)
	m.data.Span = m.time(m.last)
}

// time is a time of the document, ns of one.
func (m *maker) time(at int64) int64 { return m.ns(at - m.first) }
func (m *maker) ns(ns int64) int64   { return ns / m.scale }

// ranks numbers the ranks that sent or received something, or wrote a ledger.
func (m *maker) ranks() {
	seen := map[[2]int]bool{}
	for key := range m.Trace.Nodes {
		seen[key] = true
	}
	for _, c := range m.Trace.Connections {
		seen[[2]int{c.Job, c.Sender}], seen[[2]int{c.Job, c.Receiver}] = true, true
	}
	for key := range seen {
		node, known := m.Trace.Nodes[key]
		if !known {
			node = -1
		}
		m.data.Ranks = append(m.data.Ranks, Rank{Job: key[0], Rank: key[1], Node: node})
	}
	slices.SortFunc(m.data.Ranks, func(a, b Rank) int { return cmp.Or(a.Job-b.Job, a.Rank-b.Rank) })
	for i, r := range m.data.Ranks {
		m.rank[[2]int{r.Job, r.Rank}] = i
	}
}

// cause numbers a cause.
func (m *maker) cause(p why.Part) int {
	c := Cause{Kind: string(p.Cause), Text: p.String(), Link: p.LinkOf()}
	n, ok := m.causes[c]
	if !ok {
		n = len(m.data.Causes)
		m.causes[c] = n
		m.data.Causes = append(m.data.Causes, c)
	}
	return n
}

// parts lists the parts of a time.
func (m *maker) parts(all []why.Part) []Part {
	out := make([]Part, 0, len(all))
	for _, p := range all {
		out = append(out, Part{m.cause(p), m.ns(p.Ns)})
	}
	return out
}

// totals lists the first parts of a time.
func (m *maker) totals(all []why.Total, most int) []Part {
	out := make([]Part, 0, min(len(all), most))
	for _, p := range all[:min(len(all), most)] {
		out = append(out, Part{m.cause(p.Part), m.ns(p.Ns)})
	}
	return out
}

// bottleneck takes over what took most of the time.
func (m *maker) bottleneck() {
	if b := m.why.Bottleneck; b != nil {
		m.data.Bottleneck = &Bottleneck{Text: b.String(), Link: b.Link, Alike: b.Alike, Kind: string(b.Kind), Links: b.Links,
			Time: m.ns(b.Ns), All: m.ns(b.All)}
	}
}

// unknown is the function of messages whose call is not known.
const unknown = "unknown"

// sums makes the sums of each function: time, traffic and sizes.
func (m *maker) sums() {
	for _, f := range m.why.Functions {
		m.functions[f.Name] = len(m.data.Functions)
		m.data.Functions = append(m.data.Functions,
			Function{Name: f.Name, Calls: f.Calls, Time: m.ns(f.Ns), Parts: m.totals(f.Parts, len(f.Parts)),
				Traffic: []Pair{}, Sizes: []Class{}})
	}
	type pair struct{ function, from, to int }
	type class struct {
		function int
		bits     int
	}
	pairs, classes := map[pair]*Pair{}, map[class]*Class{}
	for i := range m.Trace.Messages {
		x := &m.Trace.Messages[i]
		f := m.functionOf(x)
		sum := &m.data.Functions[f]
		sum.Messages, sum.Bytes = sum.Messages+1, sum.Bytes+x.Size
		p := pair{f, m.rank[[2]int{x.Job, x.Sender}], m.rank[[2]int{x.Job, x.Receiver}]}
		if pairs[p] == nil {
			pairs[p] = &Pair{From: p.from, To: p.to}
		}
		pairs[p].Messages, pairs[p].Bytes = pairs[p].Messages+1, pairs[p].Bytes+x.Size
		c := class{f, bits.Len64(max(x.Size, 1) - 1)}
		if classes[c] == nil {
			classes[c] = &Class{Most: 1 << c.bits}
		}
		classes[c].Messages, classes[c].Bytes = classes[c].Messages+1, classes[c].Bytes+x.Size
	}
	for p, sum := range pairs {
		f := &m.data.Functions[p.function]
		f.Traffic = append(f.Traffic, *sum)
	}
	for c, sum := range classes {
		f := &m.data.Functions[c.function]
		f.Sizes = append(f.Sizes, *sum)
	}
	for i := range m.data.Functions {
		f := &m.data.Functions[i]
		slices.SortFunc(f.Traffic, func(a, b Pair) int { return cmp.Or(a.From-b.From, a.To-b.To) })
		slices.SortFunc(f.Sizes, func(a, b Class) int { return cmp.Compare(a.Most, b.Most) })
	}
}

// functionOf is the place of a message's function.
func (m *maker) functionOf(x *messages.Message) int {
	name := unknown
	if c := m.Trace.CallOf(x); c >= 0 {
		name = m.Trace.Calls[c].Name
	}
	f, ok := m.functions[name]
	if !ok {
		f = len(m.data.Functions)
		m.functions[name] = f
		m.data.Functions = append(m.data.Functions,
			Function{Name: name, Parts: []Part{}, Traffic: []Pair{}, Sizes: []Class{}})
	}
	return f
}

// calls lists the calls.
func (m *maker) calls() {
	m.data.Calls = []CallTime{}
	paths := map[*why.Explained]bool{}
	for _, c := range m.why.Worst(mostPaths) {
		paths[c] = true
	}
	kept := m.why.Worst(mostCalls)
	slices.SortStableFunc(kept, func(a, b *why.Explained) int { return cmp.Compare(a.Start, b.Start) })
	for _, c := range kept {
		x := CallTime{
			Function: m.functions[c.Name], Sequence: c.Seq, Job: m.Trace.Tasks[c.Tasks[0]].Job, Start: m.time(c.Start),
			Time: m.ns(c.Ns()), Ended: !c.Unfinished,
			Bytes: c.Bytes, Messages: len(c.Messages), LastRank: c.Rank, Parts: m.totals(why.Totals(c.Path), mostParts),
		}
		if paths[c] {
			x.Path = m.parts(c.Path)
		}
		m.data.Calls = append(m.data.Calls, x)
	}
}

// messages lists the messages with the longest transfers.
func (m *maker) messages() {
	all := m.Trace.Messages
	transfer := func(x *messages.Message) int64 { return x.Due - x.Posted }
	var kept []int
	for i := range all {
		if all[i].IsWhole() {
			kept = append(kept, i)
		}
	}
	arrived := len(kept)
	if arrived > MostMessages {
		slices.SortStableFunc(kept, func(a, b int) int { return cmp.Compare(transfer(&all[b]), transfer(&all[a])) })
		kept = kept[:MostMessages]
	}
	slices.SortStableFunc(kept, func(a, b int) int { return cmp.Compare(all[a].Posted, all[b].Posted) })
	place := m.placesOfCalls()
	out := &m.data.Messages
	*out = Messages{
		All: len(all), Arrived: arrived,
		Call: []int{}, From: []int{}, To: []int{}, Bytes: []uint64{}, Posted: []int64{}, Transfer: []int64{},
		Waited: []int64{}, Again: []uint64{},
	}
	for _, i := range kept {
		x := &all[i]
		call := -1
		if c := m.Trace.CallOf(x); c >= 0 {
			if p, ok := place[&m.Trace.Calls[c]]; ok {
				call = p
			}
		}
		waited, again := m.waited(i)
		out.Call = append(out.Call, call)
		out.From = append(out.From, m.rank[[2]int{x.Job, x.Sender}])
		out.To = append(out.To, m.rank[[2]int{x.Job, x.Receiver}])
		out.Bytes = append(out.Bytes, x.Size)
		out.Posted = append(out.Posted, m.time(x.Posted))
		out.Transfer = append(out.Transfer, m.ns(transfer(x)))
		out.Waited = append(out.Waited, m.ns(waited))
		out.Again = append(out.Again, again)
	}
}

// waited is how long the first segment of a message waited on all its hops, and how many packets of the message
// were sent again. Those of other segments wait at the same time, so they are not added.
func (m *maker) waited(i int) (ns int64, again uint64) {
	for k, n := range m.OfMessage(i) {
		p := &m.HopRecords[n]
		if k == 0 || p.Segment == m.HopRecords[m.OfMessage(i)[0]].Segment {
			ns += max(0, p.Start-p.Ready)
		}
		if p.Hop == 0 {
			again += uint64(p.Retransmitted)
		}
	}
	return ns, again
}

// placesOfCalls are the places in Data.Calls of the trace's calls.
func (m *maker) placesOfCalls() map[*messages.Call]int {
	place := map[*messages.Call]int{}
	kept := m.why.Worst(mostCalls)
	slices.SortStableFunc(kept, func(a, b *why.Explained) int { return cmp.Compare(a.Start, b.Start) })
	for i, c := range kept {
		place[c.Call] = i
	}
	return place
}
