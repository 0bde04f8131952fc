// SPDX-License-Identifier: Apache-2.0

package why

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/intercept/replay"
	"github.com/ddlemu/ddlemu/shaper/engine/link"
)

// Report is where the time of all recorded calls went.
type Report struct {
	Calls     []Explained // in the order of their starts
	Functions []Function  // without the calls of a warm-up
	// Bottleneck is what took most of the time of Functions; nil if no call took time.
	Bottleneck *Bottleneck
	// How the model's times fit the recorded ones.
	Played    int   // messages
	Different int   // of these, those whose times differ
	Largest   int64 // difference, ns
	Skipped   int   // messages that could not be played, because an earlier one is missing
}

// Function is the calls with one name.
type Function struct {
	Name  string
	Calls int
	// Unfinished counts the calls that had not ended when the ledgers ended.
	Unfinished int
	Ns         int64   // summed
	Parts      []Total // the largest first
}

// Of explains all calls of a trace.
func Of(p *replay.Replayed) (*Report, error) {
	x := newIndex(p)
	var err error
	if x.params, err = p.Fabric.Params(p.Fabric.TimeScale); err != nil {
		return nil, fmt.Errorf("prepare the fabric: %w", err)
	}
	x.transport = p.Fabric.Transport().Scaled(int64(p.Fabric.TimeScale))
	r := &Report{Calls: x.calls(), Skipped: p.Skipped}
	r.compare(p)
	r.sum()
	r.setBottleneck(x)
	return r, nil
}

// Span is the first and the last time of the calls and of what was recorded and played, ns of the fabric's clock.
func (r *Report) Span(p *replay.Replayed) (first, last int64) {
	first, last = p.Trace.Span()
	for i := range r.Calls {
		first, last = min(first, r.Calls[i].Start), max(last, r.Calls[i].End)
	}
	for i := range p.HopRecords {
		last = max(last, p.HopRecords[i].Finish)
	}
	return first, last
}

// compare holds the model's times against the recorded ones.
func (r *Report) compare(p *replay.Replayed) {
	for i := range p.Trace.Messages {
		m := &p.Trace.Messages[i]
		if !m.Received || p.Times[i].Due == link.Never {
			continue
		}
		r.Played++
		if d := max(m.Due, m.ReceivePosted) - p.Times[i].Due; d != 0 {
			r.Different++
			r.Largest = max(r.Largest, d, -d)
		}
	}
}

// sum makes the sums of each function, the longest first.
func (r *Report) sum() {
	slices.SortStableFunc(r.Calls, func(a, b Explained) int { return cmp.Compare(a.Start, b.Start) })
	at := map[string]int{}
	var parts [][]Part // of each function
	for i := range r.Calls {
		c := &r.Calls[i]
		if c.Warmup {
			continue
		}
		k, ok := at[c.Name]
		if !ok {
			k = len(r.Functions)
			at[c.Name] = k
			r.Functions = append(r.Functions, Function{Name: c.Name})
			parts = append(parts, nil)
		}
		f := &r.Functions[k]
		f.Calls++
		if c.Unfinished {
			f.Unfinished++
		}
		f.Ns += c.Ns()
		parts[k] = append(parts[k], c.Path...)
	}
	for i := range r.Functions {
		r.Functions[i].Parts = Totals(parts[i])
	}
	slices.SortStableFunc(r.Functions, func(a, b Function) int { return cmp.Compare(b.Ns, a.Ns) })
}

// Measured counts the calls that are not of a warm-up.
func (r *Report) Measured() (n int) {
	for i := range r.Functions {
		n += r.Functions[i].Calls
	}
	return n
}

// Worst are the n longest calls, without the calls of a warm-up.
func (r *Report) Worst(n int) []*Explained {
	var all []*Explained
	for i := range r.Calls {
		if !r.Calls[i].Warmup {
			all = append(all, &r.Calls[i])
		}
	}
	slices.SortStableFunc(all, func(a, b *Explained) int { return cmp.Compare(b.Ns(), a.Ns()) })
	return all[:min(n, len(all))]
}

// rankOf names a rank, with its job if there are several.
func (x *index) rankOf(job, rank int) string {
	name := "an unknown rank"
	if rank >= 0 {
		name = fmt.Sprintf("rank %d", rank)
	}
	if len(x.Trace.Jobs) > 1 {
		name += " of " + x.Trace.Jobs[job]
	}
	return name
}

// between are the ranks of a message.
func (x *index) between(i int) Pair {
	m := &x.Trace.Messages[i]
	return Pair{x.rankOf(m.Job, m.Sender), x.rankOf(m.Job, m.Receiver)}
}

// behind names whose message another one waits for.
func (x *index) behind(i, other int) string {
	m, o := &x.Trace.Messages[i], &x.Trace.Messages[other]
	call := x.Trace.CallOf(o)
	name := "messages of unknown purpose"
	if call >= 0 {
		name = x.Trace.Calls[call].Name
	}
	switch {
	case m.Job != o.Job:
		return fmt.Sprintf("job %s's %s", x.Trace.Jobs[o.Job], name)
	case call >= 0 && call == x.Trace.CallOf(m):
		return "this call's other messages"
	case call >= 0 && x.Trace.CallOf(m) >= 0 && x.Trace.Calls[call].Comm != x.Trace.Calls[x.Trace.CallOf(m)].Comm:
		return fmt.Sprintf("another communicator's %s", name)
	}
	return "another " + name
}
