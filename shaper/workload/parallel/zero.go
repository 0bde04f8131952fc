// SPDX-License-Identifier: Apache-2.0

package parallel

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/layers"
)

// ZeRO is data parallel training with ZeRO (Rajbhandari et al. 2020, arXiv:1910.02054) as DeepSpeed does it
// (deepspeed/runtime/zero: stage_1_and_2.py, stage3.py, partitioned_param_coordinator.py). Stage 1 shares the state of
// the optimizer among the ranks, stage 2 the gradients too, stage 3 the parameters too.
type ZeRO struct {
	Training
	Stage int
	// Bucket is reduce_bucket_size and GatherBucket allgather_bucket_size of stages 1 and 2, in elements.
	Bucket, GatherBucket int64
	// Reduce is what stages 1 and 2 call for a bucket: ReduceByAllReduce, ReduceToOwners or ReduceByScatter.
	Reduce string
	// Overlap reduces a bucket beside the backward pass (overlap_comm), else the backward pass waits for it. Stage 1
	// without it reduces after the backward pass.
	Overlap bool
	// ReuseDistance is stage3_max_reuse_distance: parameters stay gathered between two uses that are at most so many
	// elements apart. Persist is stage3_param_persistence_threshold: tensors of at most so many elements stay gathered
	// until the end of the step.
	ReuseDistance, Persist int64
}

// What stages 1 and 2 call for a bucket.
const (
	// ReduceByAllReduce is DeepSpeed's default (use_multi_rank_bucket_allreduce): each rank keeps its part.
	ReduceByAllReduce = "all-reduce"
	// ReduceToOwners reduces the parts of a bucket to the ranks that own them.
	ReduceToOwners = "reduce"
	// ReduceByScatter is the reduce-scatter of the paper.
	ReduceByScatter = "reduce-scatter"
)

// ReduceKinds are the values of ZeRO.Reduce.
func ReduceKinds() []string { return []string{ReduceByAllReduce, ReduceToOwners, ReduceByScatter} }

func (z *ZeRO) validate() error {
	if err := z.check(); err != nil {
		return err
	}
	switch {
	case z.Stage < 1 || z.Stage > 3:
		return fmt.Errorf("stage %d: must be 1, 2 or 3", z.Stage)
	case z.Bucket < 1 || z.GatherBucket < 1:
		return fmt.Errorf("buckets of %d and %d elements: must be at least 1", z.Bucket, z.GatherBucket)
	case z.ReuseDistance < 0 || z.Persist < 0:
		return fmt.Errorf("reuse distance %d and persistence threshold %d: must not be negative", z.ReuseDistance,
			z.Persist)
	case z.Reduce != ReduceByAllReduce && z.Reduce != ReduceToOwners && z.Reduce != ReduceByScatter:
		return fmt.Errorf("reduce by %q: must be %s, %s or %s", z.Reduce, ReduceByAllReduce, ReduceToOwners,
			ReduceByScatter)
	}
	perStep := 5*len(z.Network.Tensors()) + 6*len(z.Network.Blocks) + 10
	if z.Reduce == ReduceToOwners {
		perStep += z.Ranks
	}
	gathers := z.Network.Elements() / z.GatherBucket
	if gathers > workload.MaxOps {
		return checkOps(workload.MaxOps, 2)
	}
	return checkOps(perStep+int(gathers), z.Steps)
}

// Workload makes the workload.
func (z *ZeRO) Workload() (*workload.Workload, error) {
	if err := z.validate(); err != nil {
		return nil, err
	}
	samples, work, c := z.clock()
	j := newJob(fmt.Sprintf("zero-%d %s, %d ranks, batch %d", z.Stage, z.Network.Name, z.Ranks, z.Batch), z.Ranks,
		z.Network.Note(), c.note)
	j.w.Head.Source.Notes = append(j.w.Head.Source.Notes, z.notes()...)
	s := &zeroStep{ZeRO: z, job: j, clock: c, samples: samples, work: work}
	for range z.Steps {
		if z.Stage == 3 {
			s.sharded()
		} else {
			s.replicated()
		}
	}
	return j.done()
}

func (z *ZeRO) notes() []string {
	when := "the backward pass waits for each (overlap_comm false)"
	if z.Overlap {
		when = "beside the backward pass (overlap_comm)"
	} else if z.Stage == 1 {
		when = "after the backward pass"
	}
	const left = "left out: the all-reduces of the overflow check and of the gradients' norm, a few bytes each"
	if z.Stage < 3 {
		return []string{
			fmt.Sprintf("gradients: buckets of at most %d elements (reduce_bucket_size), by %s, %s", z.Bucket, z.Reduce,
				when),
			fmt.Sprintf(
				"parameters: gathered after the optimizer, in calls of about %d elements (allgather_bucket_size)",
				z.GatherBucket),
			left,
		}
	}
	return []string{
		fmt.Sprintf(
			"parameters: gathered block by block, one block ahead; kept between uses at most %d elements apart "+
				"(stage3_max_reuse_distance)", z.ReuseDistance),
		fmt.Sprintf(
			"tensors of at most %d elements (stage3_param_persistence_threshold) are gathered after the optimizer",
			z.Persist),
		fmt.Sprintf("gradients: reduce-scatters of at most %d elements (reduce_bucket_size), %s", z.Bucket, when),
		left,
	}
}

// zeroBucket is a range of the tensors that are reduced together.
type zeroBucket struct {
	elements, work int64
	tensors        []layers.Tensor
	first          int64 // of the flat gradients, its place in the order of the parameters
}

// buckets are filled until the next tensor would be one too much; a tensor that is larger than a bucket has one of its
// own.
func (z *ZeRO) buckets(backward bool) (list []zeroBucket) {
	tensors, at := z.Network.Tensors(), int64(0)
	if backward {
		tensors, at = z.Network.Reversed(), z.Network.Elements()
	}
	b := zeroBucket{first: at}
	for _, t := range tensors {
		if b.elements > 0 && b.elements+t.Elements > z.Bucket {
			list = append(list, b)
			b = zeroBucket{first: at}
		}
		b.elements += t.Elements
		b.work += t.Work
		b.tensors = append(b.tensors, t)
		if backward {
			at -= t.Elements
			b.first = at
		} else {
			at += t.Elements
		}
	}
	return append(list, b)
}

// partition is the elements of a rank's part of all parameters: DeepSpeed pads them to a multiple of 2 for each rank
// (nccl_start_alignment_factor).
func (z *ZeRO) partition() int64 { return 2 * divide(z.Network.Elements(), 2*int64(z.Ranks)) }

// kept says whether a block stays gathered from its forward pass to its backward pass.
func (z *ZeRO) kept(unit int) bool {
	between := int64(0)
	for i := unit + 1; i < len(z.Network.Blocks) && between <= z.ReuseDistance; i++ {
		between += 2 * z.Network.Blocks[i].Elements()
	}
	return between <= z.ReuseDistance
}

// zeroStep adds steps.
type zeroStep struct {
	*ZeRO
	job     *job
	clock   clock
	samples float64
	work    float64 // multiplications of a forward pass
	updated []int   // what the next step waits for: the parameters of the step before
}

// stream is where the calls of gradients are: their own stream, or the stream of the computation, which then waits for
// them.
func (s *zeroStep) stream() string {
	if s.Overlap {
		return ncclStream
	}
	return computeStream
}

func (s *zeroStep) coll(stream string, fn workload.Func, count int64, root int, after ...int) int {
	return s.job.add(workload.Op{Kind: workload.Coll, Stream: stream, Func: fn, Count: count, Type: s.Type, Root: root},
		after...)
}

// replicated adds a step of stage 1 or 2: each rank has all parameters.
func (s *zeroStep) replicated() {
	work := s.work
	s.job.calc("forward", s.clock.forward(work), s.updated...)
	var reduced []int
	if s.Stage == 1 && !s.Overlap {
		done := s.job.calc("backward", s.clock.backward(work))
		for _, b := range s.buckets(false) {
			reduced = append(reduced, s.reduce(&b, done)...)
		}
	} else {
		for i, b := range s.buckets(true) {
			done := s.job.calc(fmt.Sprintf("backward of bucket %d", i), s.clock.backward(float64(b.work)*s.samples))
			reduced = append(reduced, s.reduce(&b, done)...)
		}
	}
	s.gatherAll(s.job.calc("optimizer", 0, reduced...))
}

// reduce adds the calls of a bucket.
func (s *zeroStep) reduce(b *zeroBucket, after int) (ids []int) {
	switch s.Reduce {
	case ReduceByAllReduce:
		return []int{s.coll(s.stream(), workload.AllReduce, b.elements, 0, after)}
	case ReduceByScatter:
		return []int{s.coll(s.stream(), workload.ReduceScatter, divide(b.elements, int64(s.Ranks)), 0, after)}
	}
	size := s.partition()
	for at := b.first; at < b.first+b.elements; {
		owner := at / size
		end := min((owner+1)*size, b.first+b.elements)
		ids = append(ids, s.coll(s.stream(), workload.Reduce, end-at, int(owner), after))
		at = end
	}
	return ids
}

// gatherAll gathers the parameters that the ranks have updated (all_gather_dp_groups in deepspeed/runtime/utils.py),
// and ends the step.
func (s *zeroStep) gatherAll(optimizer int) {
	part := s.partition()
	calls := max(part*int64(s.Ranks)/s.GatherBucket, 1)
	each := max(part/calls/2*2, 1)
	s.updated = nil
	for at := int64(0); at < part; {
		n := min(each, part-at)
		if int64(len(s.updated)) == calls-1 {
			n = part - at
		}
		s.updated = append(s.updated, s.coll(ncclStream, workload.AllGather, n, 0, optimizer))
		at += n
	}
	s.job.add(workload.Op{Kind: workload.Step})
}

// shard is what a rank has of a block's tensors that do not persist; each is padded by itself.
func (s *zeroStep) shard(b *layers.Block) (sum int64) {
	for _, t := range b.Tensors {
		if t.Elements > s.Persist {
			sum += divide(t.Elements, int64(s.Ranks))
		}
	}
	return sum
}

// sharded adds a step of stage 3. The passes are a list of blocks: all forward, and all backward from the last one.
func (s *zeroStep) sharded() {
	blocks := s.Network.Blocks
	n := len(blocks)
	g := gradients{zeroStep: s}
	computed := s.updated
	first := len(computed)
	for pass := range 2 * n {
		unit, backward := pass, pass >= n
		if backward {
			unit = 2*n - 1 - pass
		}
		b := &blocks[unit]
		var waits []int
		if pass == 0 {
			waits = append(waits, s.updated...)
		}
		if shard := s.shard(b); shard > 0 && !(backward && s.kept(unit)) {
			before := computed[:first] // of the step before, until so many blocks are gathered
			if k := len(computed) - gatheredUnits; k >= first {
				before = computed[k : k+1]
			}
			waits = append(waits, s.coll("gather", workload.AllGather, shard, 0, before...))
		}
		work := float64(b.Work()) * s.samples
		if !backward {
			computed = append(computed, s.job.calc("forward "+b.Name, s.clock.forward(work), waits...))
			continue
		}
		done := s.job.calc("backward "+b.Name, s.clock.backward(work), waits...)
		computed = append(computed, done)
		g.add(b, done)
	}
	g.flush(computed[len(computed)-1])
	s.endSharded(g.reduced)
}

// gradients are the gradients of a step of stage 3, which are reduced and scattered in buckets.
type gradients struct {
	*zeroStep
	waiting int64 // elements that are not reduced yet
	reduced []int // the calls
}

// add adds the gradients of a block, which are ready when its backward pass has ended.
func (g *gradients) add(b *layers.Block, ready int) {
	for i := len(b.Tensors) - 1; i >= 0; i-- {
		if g.waiting > 0 && g.waiting+b.Tensors[i].Elements > g.Bucket {
			g.flush(ready)
		}
		g.waiting += b.Tensors[i].Elements
	}
}

// flush reduces the bucket.
func (g *gradients) flush(after int) {
	if g.waiting > 0 {
		g.reduced = append(g.reduced, g.coll(g.stream(), workload.ReduceScatter, divide(g.waiting, int64(g.Ranks)), 0,
			after))
		g.waiting = 0
	}
}

// endSharded gathers the tensors that persist, and ends the step.
func (s *zeroStep) endSharded(reduced []int) {
	s.updated = []int{s.job.calc("optimizer", 0, reduced...)}
	sum := int64(0)
	for _, t := range s.Network.Tensors() {
		if t.Elements <= s.Persist {
			sum += divide(t.Elements, int64(s.Ranks))
		}
	}
	if sum > 0 {
		s.updated = []int{s.coll("gather", workload.AllGather, sum, 0, s.updated...)}
	}
	s.job.add(workload.Op{Kind: workload.Step})
}
