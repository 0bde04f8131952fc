// SPDX-License-Identifier: Apache-2.0

package parallel

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// DLRM is the training of a recommendation model (Naumov et al. 2019, arXiv:1906.00091): its embedding tables are
// distributed among the ranks, its two perceptrons are data parallel. An all-to-all brings the vectors of the tables to
// the samples, and another one their gradients back.
type DLRM struct {
	Tables, Dim int64
	// Bottom and Top are the sizes of the layers of the perceptrons. Bottom begins with the dense inputs of a sample
	// and ends with Dim. The input of Top is the products of all pairs of vectors, and the output of Bottom.
	Bottom, Top []int64
	Ranks       int
	Steps       int
	Batch       int // samples of a rank
	Compute     Compute
	Type        string
}

func (d *DLRM) validate() error {
	if err := checkJob(d.Ranks, d.Steps, d.Compute, d.Type); err != nil {
		return err
	}
	for _, size := range append(append([]int64{d.Tables, d.Dim, int64(d.Batch)}, d.Bottom...), d.Top...) {
		if size < 1 || size > 1<<24 {
			return fmt.Errorf("size %d: tables, dim, batch and the sizes of layers must be 1 to %d", size, 1<<24)
		}
	}
	if err := checkProduct("the vectors of a batch", int64(d.Batch), d.Tables, d.Dim); err != nil {
		return err
	}
	if len(d.Bottom) < 2 || len(d.Top) < 1 {
		return fmt.Errorf("%d and %d sizes of layers: the bottom perceptron has at least 2, the top one at least 1",
			len(d.Bottom), len(d.Top))
	}
	if last := d.Bottom[len(d.Bottom)-1]; last != d.Dim {
		return fmt.Errorf("the bottom perceptron ends with %d: must be the dimension of the embeddings, %d", last,
			d.Dim)
	}
	return checkOps(16, d.Steps)
}

// perceptron is the parameters and multiplications of a sample of a perceptron with these layers.
func perceptron(sizes []int64) (parameters, multiplications int64) {
	for i := range sizes[1:] {
		multiplications += sizes[i] * sizes[i+1]
		parameters += (sizes[i] + 1) * sizes[i+1]
	}
	return parameters, multiplications
}

// Workload makes the workload.
func (d *DLRM) Workload() (*workload.Workload, error) {
	if err := d.validate(); err != nil {
		return nil, err
	}
	vectors := d.Tables + 1
	bottomSize, bottom := perceptron(d.Bottom)
	topSize, top := perceptron(append([]int64{vectors*(vectors-1)/2 + d.Dim}, d.Top...))
	samples := float64(d.Batch)
	c := d.Compute.clock(float64(bottom+top) * samples)
	j := newJob(fmt.Sprintf("dlrm of %d tables, %d ranks, batch %d", d.Tables, d.Ranks, d.Batch), d.Ranks, c.note,
		fmt.Sprintf(
			"%d parameters of the bottom perceptron and %d of the top one; each rank has %d tables of vectors of %d "+
				"at most",
			bottomSize, topSize, divide(d.Tables, int64(d.Ranks)), d.Dim),
		"left out: the time of looking up embeddings, and the indices that are sent before")
	exchange := workload.Op{
		Kind: workload.Coll, Name: "embeddings", Stream: ncclStream, Func: workload.AllToAll,
		Count: int64(d.Batch) * divide(d.Tables, int64(d.Ranks)) * d.Dim, Type: d.Type,
	}
	reduce := func(name string, count int64, after int) int {
		return j.add(workload.Op{Kind: workload.Coll, Name: name, Stream: ncclStream, Func: workload.AllReduce,
			Count: count, Type: d.Type}, after)
	}
	for range d.Steps {
		var before []int
		if j.id > 0 {
			before = []int{j.id}
		}
		got := j.add(exchange, before...)
		j.calc("forward bottom", c.forward(float64(bottom)*samples))
		j.calc("forward top", c.forward(float64(top)*samples), got)
		topDone := j.calc("backward top", c.backward(float64(top)*samples))
		back := j.add(exchange, topDone)
		topReduced := reduce("top", topSize, topDone)
		bottomDone := j.calc("backward bottom", c.backward(float64(bottom)*samples))
		j.endStep(back, topReduced, reduce("bottom", bottomSize, bottomDone))
	}
	return j.done()
}
