// SPDX-License-Identifier: Apache-2.0

package state

import (
	"unsafe"

	"github.com/ddlemu/ddlemu/shaper/engine/clock"
	"github.com/ddlemu/ddlemu/shaper/engine/node"
)

// hops is the number of links within the nodes.
func (e *NodeTime) hops(nodes int) int {
	switch {
	case e.On == 0:
		return 0
	case e.Mesh != 0:
		return nodes * int(e.GPUs) * int(e.GPUs)
	}
	n := nodes * int(e.GPUs) * 2
	for _, g := range e.Groups {
		if g.GPUs > 0 {
			n += nodes * (int(e.GPUs+g.GPUs-1) / int(g.GPUs)) * 2
		}
	}
	return n
}

// mostNs bounds times in the file. An action of a kernel takes less by far.
const mostNs = 1e15

// plausible reports whether it is possible in a fabric with so many nodes, GPUs of a node and hops.
func (e *NodeTime) plausible(nodes, gpus, hops int) bool {
	if e.On == 0 {
		return *e == NodeTime{}
	}
	if e.On > 1 || e.Mesh > 1 || e.GPUs == 0 || int(e.GPUs) != gpus || int(e.FirstHop)+e.hops(nodes) != hops {
		return false
	}
	for _, g := range e.Groups {
		if g.GPUs > 0 &&
			(g.FirstHop < e.FirstHop || int(g.FirstHop)+2*nodes*(int(e.GPUs+g.GPUs-1)/int(g.GPUs)) > hops) {
			return false
		}
	}
	for _, ns := range []int64{e.Kernel, e.Channels, e.Call, e.SendNet.PerChannel, e.SendNet.Start} {
		if ns < 0 || ns > mostNs {
			return false
		}
	}
	for _, c := range []node.Cost{e.LL, e.LL128, e.Simple, e.Send, e.SendNet.Action, e.NVLSCopy, e.NVLSHead,
		e.NVLSTreeCopy} {
		for _, x := range []float64{c.Step, c.PerByte, c.Links} {
			if !(x >= 0 && x <= mostNs) {
				return false
			}
		}
	}
	return true
}

// What a node does that takes time. On a real clock a job counts each of them for each GPU.
const (
	Launches     = clock.Launches
	Actions      = clock.Actions
	NodeMessages = clock.NodeMessages
	NodeParts    = clock.NodeParts
)

// HasNodeTime says whether the nodes of the fabric cost time.
func (f *File) HasNodeTime() bool { return f.head().NodeTime.On != 0 }

// NodeTime is a struct ddlemu_node_time in the file, for C code; nil if nodes cost nothing.
func (f *File) NodeTime() unsafe.Pointer {
	if !f.HasNodeTime() {
		return nil
	}
	return unsafe.Pointer(&f.head().NodeTime)
}
