// SPDX-License-Identifier: Apache-2.0

package events

import (
	"context"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/nccl/player"
)

// Job plays a job. Its spans are by rank and item.
func (Player) Job(ctx context.Context, j *plan.Job, f *player.Fabric) (spans [][]player.Span, random bool, err error) {
	net := link.NewNetwork(f.Params, f.Transport, f.Tables, f.Seed)
	defer net.Close()
	if f.Occupied != nil {
		net.KeepHopRecords()
	}
	s, err := newJobSim(j, f, net)
	if err != nil {
		return nil, false, err
	}
	done := func() bool {
		return !slices.ContainsFunc(s.ranks, func(r rankRun) bool { return r.ended < r.count })
	}
	if err := s.play(ctx, done); err != nil {
		return nil, false, err
	}
	for r := range s.ranks {
		spans = append(spans, s.ranks[r].spans)
	}
	return spans, s.draws(), s.checkStalls()
}

func newJobSim(j *plan.Job, f *player.Fabric, net *link.Network) (*simulation, error) {
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
	if !f.Connected {
		b.table.orderMessages()
	}
	s := newSimulation(b.table.conns, ranks, f, 0, net)
	s.watch(f.Occupied)
	return s, nil
}

// jobBuilder checks a job and makes the items of its ranks.
type jobBuilder struct {
	job    *plan.Job
	fabric *player.Fabric
	table  *connTable
	calls  map[[2]int]*jobCall // by communicator and call
	cache  planCache
}

func (b *jobBuilder) item(rank, i int) (item, error) {
	local, err := b.job.Check(rank, i)
	if err != nil {
		return item{}, err
	}
	in := &b.job.Ranks[rank][i]
	it := item{stream: in.Stream, after: in.After}
	switch in.Kind {
	case plan.Compute:
		it.nanos = in.Nanos
	case plan.HostWait:
		it.host = true
	default:
		it.comm = in.Comm
		it.call, err = b.source(in, local)
	}
	return it, err
}

// source is what a rank, local in its communicator, calls.
func (b *jobBuilder) source(in *plan.Item, local int) (source, error) {
	if in.Kind == plan.Exchange {
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

func (b *jobBuilder) bind(p *plan.Plan, comm int) ([]int, error) {
	return b.table.bind(p, comm, func(r int) int { return b.job.Comms[comm].Ranks[r] })
}

// jobCall are the collectives of a call. Their plans are made when a rank needs them.
type jobCall struct {
	parts []plan.Part
	conns [][]int // by part: see plan.Batch
	ranks []int   // of the job
	cache *planCache

	kernels []*plan.Kernel // by rank of the communicator; nil if the plans are not there
	users   int            // kernels that were taken and not dropped
}

func (b *jobBuilder) collective(in *plan.Item) (*jobCall, error) {
	jc := &b.job.Comms[in.Comm]
	if known := b.calls[[2]int{in.Comm, in.Call}]; known != nil {
		return known, nil
	}
	jcall := &jobCall{ranks: jc.Ranks, cache: &b.cache}
	var err error
	if jcall.parts, err = b.job.Parts(in, b.fabric.Node); err != nil {
		return nil, err
	}
	b.calls[[2]int{in.Comm, in.Call}] = jcall
	for i := range jcall.parts {
		part := &jcall.parts[i]
		p, err := part.Plan()
		if err != nil {
			return nil, fmt.Errorf("%v of %d: %w", part.Coll, part.Count, err)
		}
		conns, err := b.bind(p, in.Comm)
		if err != nil {
			return nil, err
		}
		jcall.conns = append(jcall.conns, conns)
	}
	return jcall, nil
}

func (c *jobCall) take(rank int) *plan.Kernel {
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
	byRank := make([][]*plan.Kernel, len(c.ranks))
	for i := range c.parts {
		p, err := c.parts[i].Plan()
		if err != nil {
			panic(err) // the same plan was made before
		}
		for r, k := range p.KernelsOf(0, c.conns[i], len(c.ranks)) {
			byRank[r] = append(byRank[r], k)
		}
	}
	for _, kernels := range byRank {
		c.kernels = append(c.kernels, plan.Fuse(kernels...))
	}
}

func (c *jobCall) drop(int) { c.users-- }

// planCache has the calls with a plan. Plans are large: plans for many ranks have megabytes.
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
func (b *jobBuilder) exchange(in *plan.Item, local int) (*plan.Kernel, error) {
	p, err := b.job.Exchange(in, local, b.fabric.Node)
	if err != nil {
		return nil, err
	}
	conns, err := b.bind(p, in.Comm)
	if err != nil {
		return nil, err
	}
	return p.KernelsOf(0, conns, len(b.job.Comms[in.Comm].Ranks))[local], nil
}

// oneKernel is the kernel of a rank whose peers have calls of their own.
type oneKernel struct{ k *plan.Kernel }

func (o oneKernel) take(int) *plan.Kernel { return o.k }
func (o oneKernel) drop(int)              {}

// mixedCall is a group of collectives with a rank's own sends and receives, which NCCL runs after them.
type mixedCall struct {
	*jobCall
	messages *plan.Kernel
}

func (m *mixedCall) take(rank int) *plan.Kernel { return plan.Fuse(m.jobCall.take(rank), m.messages) }
