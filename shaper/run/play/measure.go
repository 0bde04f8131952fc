// SPDX-License-Identifier: Apache-2.0

package play

import (
	"time"

	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/run/bench"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// Step is how a step went. It begins when the last rank has ended the step before it, or with the job, and ends when
// the last rank has ended it. So the times of the steps add up to the time of the job.
type Step struct {
	Time time.Duration
	// Slowest is the rank that ended the step last, the lowest of those that ended it together. The other times are
	// its.
	Slowest int
	// Compute is for how long it computed on at least one stream.
	Compute time.Duration
	// Exposed is Time without Compute: communication that no computation hid, and waiting.
	Exposed time.Duration
	// Waiting is the part of Exposed in which its calls waited for ranks that were not ready for them: see [Share].
	Waiting time.Duration
	// Hidden is for how long it computed and communicated at once. A call of NCCL communicates from when the rank is
	// ready for it until it ends, so waiting for other ranks is part of that.
	Hidden time.Duration
	// Idle is the part of Exposed in which it did neither.
	Idle time.Duration
}

// Calls are the equal calls of a function: of one size, on communicators of one name and one number of ranks.
type Calls struct {
	Func string // a collective, or SendRecv for a message
	Comm string // the name of the communicators
	// Ranks is the number of ranks of a communicator.
	Ranks int
	Size  int64 // bytes, as in nccl-tests: the larger of one rank's input and output
	Count int   // how many calls there were, each of which all ranks made together
	// Mean, Min and Max are times from when the last rank was ready until the last one had ended.
	Mean, Min, Max time.Duration
	// Waiting is the part of Mean in which a rank of another call of the group was not ready: the calls of a group
	// begin and end together. In it, data of this call may have moved or not. 0 if none was in a group.
	Waiting time.Duration
	// BusBW is the bus bandwidth in GB/s (10^9 bytes), by Mean; 0 if that is 0.
	BusBW float64
	// Grouped says that some of them were in groups, whose calls begin and end together.
	Grouped bool
	// Algo and Proto are NCCL's choice, "" if not known. Channels is 0 if not known.
	Algo, Proto string
	Channels    int
	// Expected is the mean by the model, if Known.
	Known    bool
	Expected time.Duration
}

// ends are the times at which a rank ended its steps.
func (p *plan) ends(spans []bench.Span) []int64 {
	ends := make([]int64, len(p.marks))
	latest, i := int64(0), 0
	for step, mark := range p.marks {
		for ; i < mark; i++ {
			latest = max(latest, spans[i].End)
		}
		ends[step] = latest
	}
	return ends
}

// measureSteps returns the steps. Times of the clock are divided by scale.
func measureSteps(plans []*plan, spans [][]bench.Span, scale float64) []Step {
	var ends [][]int64
	count := 0
	for r, p := range plans {
		ends = append(ends, p.ends(spans[r]))
		count = max(count, len(p.marks))
	}
	ranks := map[int]*divider{}
	steps := make([]Step, count)
	begin := int64(0)
	stated := func(ns int64) time.Duration { return time.Duration(float64(ns) / scale) }
	for k := range steps {
		end, slowest := begin, 0
		for r := range plans {
			if k < len(ends[r]) && ends[r][k] > end {
				end, slowest = ends[r][k], r
			}
		}
		if ranks[slowest] == nil {
			ranks[slowest] = newDivider(plans[slowest], spans[slowest], nil)
		}
		sums, hidden := map[part]float64{}, ranks[slowest].hidden
		ranks[slowest].divide(begin, end, sums)
		total, computed := end-begin, int64(sums[part{Computation, false}])
		steps[k] = Step{
			Time: stated(total), Slowest: slowest, Compute: stated(computed), Exposed: stated(total - computed),
			Hidden: stated(ranks[slowest].hidden - hidden), Idle: stated(int64(sums[part{Idle, false}])),
		}
		begin = end
	}
	return steps
}

// kind are the properties that equal calls share.
type kind struct {
	name  string // of the function
	comm  string
	ranks int
	size  int64
}

// instance is a call that all its ranks make together.
type instance struct {
	kind       kind
	what       Call
	ready, end int64
	until      int64 // when all ranks were ready that the operations with this call wait for
	grouped    bool
}

// flow is the messages from one rank to another.
type flow struct {
	comm     int32
	from, to int
}

// meeting joins the calls of the ranks.
type meeting struct {
	ix          *workload.Index
	collectives map[int32][]*instance // by communicator
	messages    map[flow][]*instance
	all         []*instance
	ofRank      [][]*instance // the calls of each rank, in the order of its plan
	// until is, by rank and item, when all ranks were ready that it waited for.
	until [][]int64
}

// meet joins the n-th collective of each rank of a communicator, and the n-th send with the n-th receive.
func meet(ix *workload.Index, plans []*plan, spans [][]bench.Span) *meeting {
	m := &meeting{ix: ix, collectives: map[int32][]*instance{}, messages: map[flow][]*instance{},
		ofRank: make([][]*instance, len(plans))}
	for r, p := range plans {
		calls, sends, receives := map[int32]int{}, map[flow]int{}, map[flow]int{}
		for i := range p.items {
			for _, c := range p.items[i].calls {
				var in *instance
				switch at := (flow{c.what.Comm, c.what.From, c.what.To}); c.what.Kind {
				case workload.Send:
					in = nth(m, m.messages, at, sends, c.what)
				case workload.Recv:
					in = nth(m, m.messages, at, receives, c.what)
				default:
					in = nth(m, m.collectives, c.what.Comm, calls, c.what)
				}
				in.ready, in.end = max(in.ready, spans[r][i].Ready), max(in.end, spans[r][i].End)
				in.grouped = in.grouped || p.items[i].op.Kind == workload.Group
				m.ofRank[r] = append(m.ofRank[r], in)
			}
		}
	}
	m.findUntil(plans, spans)
	return m
}

// findUntil sets until of the items and of the instances. An operation that ended before a rank was ready did not wait
// for it: NCCL's buffers took the data.
func (m *meeting) findUntil(plans []*plan, spans [][]bench.Span) {
	m.until = make([][]int64, len(plans))
	for r, p := range plans {
		m.until[r] = make([]int64, len(p.items))
		next := 0
		for i := range p.items {
			calls := m.ofRank[r][next : next+len(p.items[i].calls)]
			next += len(calls)
			for _, in := range calls {
				if in.ready <= spans[r][i].End {
					m.until[r][i] = max(m.until[r][i], in.ready)
				}
			}
			for _, in := range calls {
				in.until = max(in.until, m.until[r][i])
			}
		}
	}
}

// nth is the next instance of a rank at key.
func nth[K comparable](m *meeting, of map[K][]*instance, key K, counts map[K]int, what Call) *instance {
	n := counts[key]
	counts[key]++
	if n == len(of[key]) {
		in := &instance{what: what.matched(), kind: m.kindOf(what)}
		of[key] = append(of[key], in)
		m.all = append(m.all, in)
	}
	return of[key][n]
}

// sendRecv is the name of the function of a message.
const sendRecv = "SendRecv"

func (m *meeting) kindOf(c Call) kind {
	comm := &m.ix.Comms[c.Comm]
	k := kind{name: string(c.Func), comm: comm.Name, ranks: len(comm.Ranks)}
	op := workload.Op{Kind: c.Kind, Func: c.Func, Count: c.Count, Type: c.Type}
	k.size = op.Bytes(k.ranks)
	if c.Kind != workload.Coll {
		k.name = sendRecv
	}
	return k
}

// busFactor is the bus factor of nccl-tests.
func (k kind) busFactor() float64 {
	c, err := nccl.ParseCollective(k.name)
	if err != nil {
		return 1
	}
	return c.BusFactor(k.ranks)
}

// measureCalls returns the calls in the order of their first ones. Times of the clock are divided by scale.
func measureCalls(all []*instance, scale float64) []Calls {
	var out []Calls
	place := map[kind]int{}
	stated := func(ns int64) time.Duration { return time.Duration(float64(ns) / scale) }
	sums, waited := []int64{}, []int64{}
	for _, in := range all {
		i, ok := place[in.kind]
		took := in.end - in.ready
		if !ok {
			i = len(out)
			place[in.kind] = i
			out = append(out, Calls{Func: in.kind.name, Comm: in.kind.comm, Ranks: in.kind.ranks, Size: in.kind.size,
				Min: stated(took)})
			sums, waited = append(sums, 0), append(waited, 0)
		}
		c := &out[i]
		c.Count++
		sums[i] += took
		waited[i] += max(min(in.until, in.end)-in.ready, 0)
		c.Min, c.Max = min(c.Min, stated(took)), max(c.Max, stated(took))
		c.Grouped = c.Grouped || in.grouped
	}
	for k, i := range place {
		c := &out[i]
		mean := float64(sums[i]) / float64(c.Count) / scale
		c.Mean, c.Waiting = time.Duration(mean), time.Duration(float64(waited[i])/float64(c.Count)/scale)
		if mean > 0 {
			c.BusBW = float64(c.Size) * k.busFactor() / mean
		}
	}
	return out
}
