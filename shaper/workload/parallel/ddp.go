// SPDX-License-Identifier: Apache-2.0

package parallel

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/workload"
	"github.com/ddlemu/ddlemu/shaper/workload/layers"
)

// DDP is data parallel training with PyTorch's DistributedDataParallel, or with one fused all-reduce as Horovod does it
// with a large fusion buffer.
type DDP struct {
	Training
	// FirstBucket and BucketCap are the sizes in bytes at which the first bucket and each other one is full.
	FirstBucket, BucketCap int64
	// Fused is one all-reduce of all gradients after the backward pass.
	Fused bool
	// Overlap reduces a bucket while the backward pass goes on, else all after it.
	Overlap bool
	// Buffers broadcasts the statistics of batch normalizations before each forward pass.
	Buffers bool
}

// Bucket is gradients that are reduced together.
type Bucket struct {
	Elements, Work int64
}

// Buckets distributes the gradients among buckets as PyTorch does: in the reverse order of the parameters, a bucket is
// full when its size is the limit or more (compute_bucket_assignment_by_size in
// torch/csrc/distributed/c10d/reducer.cpp).
func Buckets(n *layers.Network, elementSize, first, limit int64) (buckets []Bucket) {
	var b Bucket
	size := first
	for _, t := range n.Reversed() {
		b.Elements += t.Elements
		b.Work += t.Work
		if b.Elements*elementSize >= size {
			buckets = append(buckets, b)
			b, size = Bucket{}, limit
		}
	}
	if b.Elements > 0 {
		buckets = append(buckets, b)
	}
	return buckets
}

// Workload makes the workload.
func (d *DDP) Workload() (*workload.Workload, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	size, _ := workload.TypeSize(d.Type) // it is known
	if d.FirstBucket < 1 || d.BucketCap < 1 {
		return nil, fmt.Errorf("buckets of %d and %d bytes: must be at least 1", d.FirstBucket, d.BucketCap)
	}
	buckets := Buckets(d.Network, size, d.FirstBucket, d.BucketCap)
	if d.Fused {
		buckets = Buckets(d.Network, size, 1<<62, 1<<62)
	}
	if err := checkOps(2*len(buckets)+6, d.Steps); err != nil {
		return nil, err
	}
	samples, work, c := d.clock()
	j := newJob(fmt.Sprintf("ddp %s, %d ranks, batch %d", d.Network.Name, d.Ranks, d.Batch), d.Ranks,
		d.Network.Note(), c.note, d.bucketNote(len(buckets)))
	for range d.Steps {
		d.step(j, c, buckets, work, samples)
	}
	return j.done()
}

func (d *DDP) bucketNote(n int) string {
	if d.Fused {
		return "one all-reduce of all gradients after the backward pass"
	}
	when := "after the backward pass"
	if d.Overlap {
		when = "each as soon as its gradients are ready"
	}
	return fmt.Sprintf("%d buckets by PyTorch's rules, the first of %d bytes and the others of %d or more, reduced %s",
		n, d.FirstBucket, d.BucketCap, when)
}

// step adds a step.
func (d *DDP) step(j *job, c clock, buckets []Bucket, work, samples float64) {
	reduce := func(b Bucket, after int) int {
		return j.add(workload.Op{Kind: workload.Coll, Stream: ncclStream, Func: workload.AllReduce, Count: b.Elements,
			Type: d.Type}, after)
	}
	j.calc("forward", c.forward(work), d.broadcastBuffers(j)...)
	var reduced []int
	if d.Overlap && !d.Fused {
		for i, b := range buckets {
			ready := j.calc(fmt.Sprintf("backward of bucket %d", i), c.backward(float64(b.Work)*samples))
			reduced = append(reduced, reduce(b, ready))
		}
	} else {
		ready := j.calc("backward", c.backward(work))
		for _, b := range buckets {
			reduced = append(reduced, reduce(b, ready))
		}
	}
	j.endStep(reduced...)
}

// broadcastBuffers adds the broadcasts of the buffers, and returns their ids.
func (d *DDP) broadcastBuffers(j *job) (ids []int) {
	if !d.Buffers {
		return nil
	}
	var before []int // the end of the step before
	if j.id > 0 {
		before = []int{j.id}
	}
	for _, b := range []struct {
		count int64
		kind  string
	}{{d.Network.Buffers, "float32"}, {d.Network.BufferCounters, "int64"}} {
		if b.count > 0 {
			o := workload.Op{Kind: workload.Coll, Name: "buffers", Stream: ncclStream, Func: workload.Broadcast,
				Count: b.count, Type: b.kind}
			ids = append(ids, j.add(o, before...))
		}
	}
	return ids
}
