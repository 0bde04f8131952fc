// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"context"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/nccl"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
)

// Job is what the ranks of a job launch.
type Job struct {
	Comms []JobComm
	// Connected says that a communicator's connections for sends and receives were made with those of its collectives.
	// Else they were made after all of these, at the first use.
	Connected bool
	Ranks     [][]Item // by rank of the job, in the order in which its host thread launches them
	// Occupied, if not nil, is called for each segment on each hop.
	Occupied func(hop int, p *link.HopRecord)
}

// JobComm is a communicator of a job.
type JobComm struct {
	Ranks []int // of the job, by the rank in the communicator
	// Calls are its different collectives and groups of collectives. Their Ranks and Iterations are not used.
	Calls []plan.Group
	// P2P has NCCL's version, channels and sizes for sends and receives. The other fields are not used.
	P2P plan.Decision
	// Path and Made are as in [Fabric], for ranks of the communicator.
	Path func(c Conn) (path []link.PathHop, reverse []int, err error)
	Made func(c Conn) (through, place int)
}

// ItemKind is what an Item does.
type ItemKind int

// Kinds of items.
const (
	// Compute computes for Nanos on a stream.
	Compute ItemKind = iota
	// Collective calls Calls[Call] of a communicator on a stream, in a group with Sends and Recvs if there are some.
	Collective
	// Exchange is a group of sends and receives on a stream.
	Exchange
	// HostWait makes the host thread wait until the items of After have ended. It is on no stream.
	HostWait
)

// Item is something that a rank launches. An item on a stream starts when the one before it on that stream has ended,
// and all of After. NCCL starts the calls of a communicator one after another.
type Item struct {
	Kind   ItemKind
	Stream int
	After  []int // earlier items of the rank
	Nanos  int64

	Comm int // number in Job.Comms
	Call int // number in JobComm.Calls
	// Sends and Recvs are by peer: a rank of the communicator. At most one message to and from each peer.
	Sends, Recvs map[int]uint64 // bytes
}

// JobEstimate is the model's expectation for a job.
type JobEstimate struct {
	Spans [][]Span // by rank and item
	// Random says that links of the job have random jitter or loss, or that the order of connections that are ready at
	// the same instant is random: the times are those of one run.
	Random bool
}

// End is when the last item ends.
func (e *JobEstimate) End() (end int64) {
	for _, spans := range e.Spans {
		for _, s := range spans {
			end = max(end, s.End)
		}
	}
	return end
}

// SimulateJob returns when each item of each rank starts and ends if the hosts cost nothing. Within a node, data takes
// no time. If the model does not know a schedule, it returns an error and never a guess. It returns early when ctx is
// done.
func SimulateJob(ctx context.Context, j *Job, f *Fabric) (*JobEstimate, error) {
	if f.Transport == nil || f.Node == nil {
		return nil, fmt.Errorf("expected time of the job: transport and node of the fabric must be given")
	}
	net := link.NewNetwork(f.Params, f.Transport, f.Tables, f.Seed)
	defer net.Close()
	if j.Occupied != nil {
		net.KeepHopRecords()
	}
	s, err := newJobSim(j, f, net)
	if err != nil {
		return nil, fmt.Errorf("expected time of the job: %w", err)
	}
	done := func() bool {
		return !slices.ContainsFunc(s.ranks, func(r rankRun) bool { return r.ended < r.count })
	}
	if err := s.play(ctx, done); err != nil {
		return nil, fmt.Errorf("expected time of the job: %w", err)
	}
	if n := s.stalls(); n > 0 {
		return nil, fmt.Errorf("expected time of the job: %w", errStalls(n))
	}
	e := &JobEstimate{Random: s.draws() || !f.InOrder}
	for r := range s.ranks {
		e.Spans = append(e.Spans, s.ranks[r].spans)
	}
	return e, nil
}

func newJobSim(j *Job, f *Fabric, net *link.Network) (*simulation, error) {
	b := &jobBuilder{job: j, fabric: f, table: newConnTable(f, net), calls: map[[2]int]*jobCall{}}
	ranks := make([]rankRun, len(j.Ranks))
	for r := range j.Ranks {
		items := make([]item, len(j.Ranks[r]))
		for i := range items {
			it, err := b.item(r, i)
			if err != nil {
				return nil, fmt.Errorf("rank %d, item %d: %w", r, i, err)
			}
			items[i] = it
		}
		ranks[r] = rankRun{count: len(items), item: func(i int) *item { return &items[i] }}
	}
	if !j.Connected {
		b.table.orderMessages()
	}
	s := newSimulation(b.table.conns, ranks, f.InOrder, 0, net)
	s.watch(j.Occupied)
	return s, nil
}

// jobBuilder checks a job and makes the items of its ranks.
type jobBuilder struct {
	job    *Job
	fabric *Fabric
	table  *connTable
	calls  map[[2]int]*jobCall // by communicator and call
	cache  planCache
}

func (b *jobBuilder) item(rank, i int) (item, error) {
	local, err := b.check(rank, i)
	if err != nil {
		return item{}, err
	}
	in := &b.job.Ranks[rank][i]
	it := item{stream: in.Stream, after: in.After}
	switch in.Kind {
	case Compute:
		it.nanos = in.Nanos
	case HostWait:
		it.host = true
	default:
		it.comm = in.Comm
		it.call, err = b.source(in, local)
	}
	return it, err
}

// check checks an item. local is the rank in the communicator of its call.
func (b *jobBuilder) check(rank, i int) (local int, err error) {
	in := &b.job.Ranks[rank][i]
	for _, a := range in.After {
		if a < 0 || a >= i {
			return 0, fmt.Errorf("waits for item %d, which is not before it", a)
		}
	}
	switch in.Kind {
	case Compute:
		if in.Nanos < 0 {
			return 0, fmt.Errorf("computes for %d ns", in.Nanos)
		}
		return 0, nil
	case HostWait:
		return 0, nil
	case Collective, Exchange:
	default:
		return 0, fmt.Errorf("kind %d: unknown", in.Kind)
	}
	if in.Comm < 0 || in.Comm >= len(b.job.Comms) {
		return 0, fmt.Errorf("communicator %d: there are %d", in.Comm, len(b.job.Comms))
	}
	if local = slices.Index(b.job.Comms[in.Comm].Ranks, rank); local < 0 {
		return 0, fmt.Errorf("communicator %d does not have this rank", in.Comm)
	}
	return local, nil
}

// source is what a rank, local in its communicator, calls.
func (b *jobBuilder) source(in *Item, local int) (source, error) {
	if in.Kind == Exchange {
		k, err := b.exchange(in, local)
		return oneKernel{k}, err
	}
	calls, err := b.collective(in)
	if err != nil || len(in.Sends)+len(in.Recvs) == 0 {
		return calls, err
	}
	k, err := b.exchange(in, local)
	return &mixedCall{calls, k}, err
}

// call is a decision for a communicator of the job.
func (b *jobBuilder) call(comm int, d plan.Decision) (*plan.Call, error) {
	jc := &b.job.Comms[comm]
	d.Ranks, d.Iterations = len(jc.Ranks), 0
	if err := d.Validate(); err != nil {
		return nil, err
	}
	return plan.NewCall(&d, func(r int) int { return b.fabric.Node(jc.Ranks[r]) })
}

func (b *jobBuilder) bind(p *plan.Plan, comm int) ([]int, error) {
	jc := &b.job.Comms[comm]
	return b.table.bind(p, comm, func(r int) int { return jc.Ranks[r] }, wiring{jc.Path, jc.Made})
}

// jobCall are the collectives of a call. Their plans are made when a rank needs them.
type jobCall struct {
	parts []callPart
	ranks []int // of the job
	cache *planCache

	kernels []*kernel // by rank of the communicator; nil if the plans are not there
	users   int       // kernels that were taken and not dropped
}

// callPart is a collective of a call.
type callPart struct {
	call   *plan.Call
	shares []plan.Share
	conns  []int
}

func (b *jobBuilder) collective(in *Item) (*jobCall, error) {
	jc := &b.job.Comms[in.Comm]
	if known := b.calls[[2]int{in.Comm, in.Call}]; known != nil {
		return known, nil
	}
	jcall := &jobCall{ranks: jc.Ranks, cache: &b.cache}
	var err error
	if jcall.parts, err = b.partsOf(in); err != nil {
		return nil, err
	}
	b.calls[[2]int{in.Comm, in.Call}] = jcall
	for i := range jcall.parts {
		part := &jcall.parts[i]
		p, err := part.plan()
		if err != nil {
			return nil, fmt.Errorf("%v of %d: %w", part.call.Coll, part.call.Count, err)
		}
		if part.conns, err = b.bind(p, in.Comm); err != nil {
			return nil, err
		}
	}
	return jcall, nil
}

// partsOf are the collectives of an item. There are none in a communicator of one rank.
func (b *jobBuilder) partsOf(in *Item) ([]callPart, error) {
	jc := &b.job.Comms[in.Comm]
	if in.Call < 0 || in.Call >= len(jc.Calls) {
		return nil, fmt.Errorf("call %d: communicator %d has %d", in.Call, in.Comm, len(jc.Calls))
	}
	if len(jc.Ranks) == 1 {
		return nil, nil
	}
	for _, d := range slices.Concat(jc.Calls[in.Call]...) {
		if d.Coll == nccl.HyperCube {
			return nil, fmt.Errorf("%v is not one call of NCCL: give its exchanges", d.Coll)
		}
	}
	return b.parts(in.Comm, jc.Calls[in.Call])
}

// parts are the collectives of a call, in NCCL's order, with their channels.
func (b *jobBuilder) parts(comm int, of plan.Group) ([]callPart, error) {
	var lists [][]*plan.Call
	var parts []callPart
	for _, decisions := range of {
		var list []*plan.Call
		for _, d := range decisions {
			c, err := b.call(comm, d)
			if err != nil {
				return nil, err
			}
			list = append(list, c)
			parts = append(parts, callPart{call: c})
		}
		lists = append(lists, list)
	}
	if len(parts) < 2 {
		return parts, nil
	}
	shares, err := plan.GroupShares(lists)
	if err != nil {
		return nil, err
	}
	for i := range parts {
		parts[i].shares = shares[i]
	}
	return parts, nil
}

func (p *callPart) plan() (*plan.Plan, error) {
	if p.shares == nil {
		return p.call.Plan()
	}
	return p.call.PlanOf(p.shares, nil)
}

// planOf is the plan of one rank.
func (p *callPart) planOf(rank int) (*plan.Plan, error) {
	if p.call.Coll.IsP2P() {
		return p.call.P2PPlanOf([]int{rank})
	}
	shares := p.shares
	if shares == nil {
		var err error
		if shares, err = p.call.Shares(); err != nil {
			return nil, err
		}
	}
	return p.call.PlanOf(shares, &rank)
}

func (c *jobCall) take(rank int) *kernel {
	c.users++
	if len(c.ranks) == 1 {
		return nil
	}
	if c.kernels == nil {
		c.makeKernels()
		c.cache.add(c)
	}
	return c.kernels[slices.Index(c.ranks, rank)]
}

func (c *jobCall) makeKernels() {
	byRank := make([][]*kernel, len(c.ranks))
	for i := range c.parts {
		p, err := c.parts[i].plan()
		if err != nil {
			panic(err) // the same plan was made before
		}
		for r, k := range kernelsOf(p, 0, c.parts[i].conns, len(c.ranks)) {
			byRank[r] = append(byRank[r], k)
		}
	}
	for _, kernels := range byRank {
		c.kernels = append(c.kernels, fuse(kernels...))
	}
}

func (c *jobCall) drop(int) { c.users-- }

// planCache has the calls with a plan. Plans are large: those of many ranks have megabytes.
type planCache struct{ calls []*jobCall }

// cachedPlans is the number of plans that are kept although no rank uses them.
const cachedPlans = 16

// add adds a call, and removes the plans of the oldest ones that no rank uses.
func (p *planCache) add(c *jobCall) {
	p.calls = append(p.calls, c)
	surplus := len(p.calls) - cachedPlans
	p.calls = slices.DeleteFunc(p.calls, func(c *jobCall) bool {
		if surplus <= 0 || c.users > 0 {
			return false
		}
		surplus--
		c.kernels = nil
		return true
	})
}

// exchange makes the kernel of a rank's group of sends and receives.
func (b *jobBuilder) exchange(in *Item, local int) (*kernel, error) {
	c, p, err := b.exchangePlan(in, local)
	if err != nil {
		return nil, err
	}
	conns, err := b.bind(p, in.Comm)
	if err != nil {
		return nil, err
	}
	return kernelsOf(p, 0, conns, c.Ranks)[local], nil
}

// exchangePlan makes the plan of a rank's group of sends and receives.
func (b *jobBuilder) exchangePlan(in *Item, local int) (*plan.Call, *plan.Plan, error) {
	jc := &b.job.Comms[in.Comm]
	d := jc.P2P
	d.Coll, d.Count, d.ElemSize = nccl.SendRecv, 0, 1
	c, err := b.call(in.Comm, d)
	if err != nil {
		return nil, nil, err
	}
	for peer := range in.Sends {
		if peer < 0 || peer >= c.Ranks {
			return nil, nil, fmt.Errorf("sends to rank %d of %d", peer, c.Ranks)
		}
	}
	for peer := range in.Recvs {
		if peer < 0 || peer >= c.Ranks {
			return nil, nil, fmt.Errorf("receives from rank %d of %d", peer, c.Ranks)
		}
	}
	c.Messages = func(rank, peer int) int64 {
		of := in.Sends
		switch local {
		case rank:
		case peer:
			of, peer = in.Recvs, rank
		default:
			return -1
		}
		if bytes, ok := of[peer]; ok {
			return int64(bytes)
		}
		return -1
	}
	p, err := c.P2PPlanOf([]int{local})
	return c, p, err
}

// oneKernel is the kernel of a rank whose peers have calls of their own.
type oneKernel struct{ k *kernel }

func (o oneKernel) take(int) *kernel { return o.k }
func (o oneKernel) drop(int)         {}

// mixedCall is a group of collectives with a rank's own sends and receives, which NCCL runs after them.
type mixedCall struct {
	*jobCall
	messages *kernel
}

func (m *mixedCall) take(rank int) *kernel { return fuse(m.jobCall.take(rank), m.messages) }
