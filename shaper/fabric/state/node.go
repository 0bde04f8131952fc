// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"unsafe"

	"github.com/ddlemu/ddlemu/shaper/engine/clock"
	"github.com/ddlemu/ddlemu/shaper/engine/node"
)

// NodeTime is what the nodes of a fabric cost, for the executor of the software CUDA, which reads it from the file. The
// links within the nodes are hops of the fabric. The zero value: nothing.
type NodeTime struct {
	node.Time
	On       bool
	Mesh     bool // a link from each GPU of a node to each other one, else one out of each GPU and one into it
	GPUs     int  // of a node
	FirstHop int  // of the links within nodes
	Groups   [node.MostGPUGroups]node.GPUGroup
}

func (t *NodeTime) entry() nodeTimeEntry {
	if !t.On {
		return nodeTimeEntry{}
	}
	e := nodeTimeEntry{On: 1, GPUs: uint32(t.GPUs), FirstHop: uint32(t.FirstHop), Groups: t.Groups,
		Kernel: t.Kernel, Channels: t.Channels, Call: t.Call,
		LL: t.LL, LL128: t.LL128, Simple: t.Simple, Send: t.Send, SendNet: t.SendNet, NVLSCopy: t.NVLSCopy,
		NVLSHead: t.NVLSHead, NVLSTreeCopy: t.NVLSTreeCopy}
	if t.Mesh {
		e.Mesh = 1
	}
	return e
}

// hops is the number of links within the nodes.
func (e *nodeTimeEntry) hops(nodes int) int {
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

// plausible reports whether entry could have made it, for a fabric with so many nodes, GPUs of a node and hops.
func (e *nodeTimeEntry) plausible(nodes, gpus, hops int) bool {
	if e.On == 0 {
		return *e == nodeTimeEntry{}
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

func (t *NodeTime) check(nodes, gpus, hops int) error {
	if e := t.entry(); !e.plausible(nodes, gpus, hops) {
		return errors.New("the time of its nodes is not possible, or does not match its hops")
	}
	return nil
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
