// SPDX-License-Identifier: Apache-2.0

// Package node says what a node costs NCCL: the launch of a kernel, what a kernel does for a message, and what a
// message occupies of the links between the GPUs of a node. Times are in ns of the fabric.
package node

import "math"

// Time is what a node of a kind costs. The zero Time costs nothing.
type Time struct {
	// Kernel is the time from the moment when a kernel could start until its channels begin, with what follows their
	// end. Channels is what it takes more if it has several channels.
	Kernel, Channels int64
	// Call is how long the host's thread takes for a call. A rank's calls cannot begin more often.
	Call int64
	// Actions of a kernel, by NCCL's protocol. Send is Simple of sends and receives.
	LL, LL128, Simple, Send Cost
	// SendNet is Send between nodes; the zero SendCost as Send.
	SendNet SendCost
	// NVLSCopy is a copy between a rank's data and the buffers of NVLS, NVLSHead the reduction and the broadcast.
	NVLSCopy, NVLSHead Cost
	// NVLSTreeCopy is NVLSCopy on the channels of NVLSTree on which the rank's node has a parent: there NCCL gives the
	// copies fewer warps. The zero Cost as NVLSCopy.
	NVLSTreeCopy Cost
}

// GPUGroup is a division of the GPUs of a node into groups of so many, which share a PCI switch or a CPU. A message to
// a GPU of another group crosses two links more: out of the one group, and into the other. The links of the groups of
// all nodes are hops from FirstHop on, two for each group. The zero GPUGroup: none. As struct ddlemu_gpu_group of
// node.h.
type GPUGroup struct{ GPUs, FirstHop uint32 }

// MostGPUGroups is how many divisions of the GPUs of a node there are at most: DDLEMU_GPU_GROUPS.
const MostGPUGroups = 2

// Scaled is t on a clock that runs by a time scale slower.
func (t *Time) Scaled(scale int) Time {
	k := int64(scale)
	out := *t
	out.Kernel, out.Channels, out.Call = t.Kernel*k, t.Channels*k, t.Call*k
	out.SendNet.PerChannel, out.SendNet.Start = t.SendNet.PerChannel*k, t.SendNet.Start*k
	for _, c := range []*Cost{&out.LL, &out.LL128, &out.Simple, &out.Send, &out.SendNet.Action, &out.NVLSCopy,
		&out.NVLSHead, &out.NVLSTreeCopy} {
		c.Step, c.PerByte = c.Step*float64(k), c.PerByte*float64(k)
	}
	return out
}

// CopyOfNVLS is what a copy of NVLS or NVLSTree costs on a channel on which the rank's node has a parent, or not.
func (t *Time) CopyOfNVLS(hasParent bool) *Cost {
	if hasParent && t.NVLSTreeCopy != (Cost{}) {
		return &t.NVLSTreeCopy
	}
	return &t.NVLSCopy
}

// Launch is how long a kernel with so many channels takes to begin.
func (t *Time) Launch(channels int) int64 {
	if channels > 1 {
		return t.Kernel + t.Channels
	}
	return t.Kernel
}

// Cost is what the actions of a kernel cost.
type Cost struct {
	// Step is how long an action takes beside its bytes: the threads wait for each other, a fence, the poll that finds
	// the data.
	Step float64
	// PerByte is how long an action takes for each byte that it moves. The flags of LL and LL128 count as bytes.
	PerByte float64
	// Links is how many bytes of the links within a node a byte of a message occupies; 0 as 1.
	Links float64
}

// SendCost is what the actions of sends and receives between nodes cost.
type SendCost struct {
	Action Cost
	// PerChannel is how much longer each action takes for each channel that NCCL divides the message over.
	PerChannel int64
	// Start is how much longer the first action of a send takes, if the send is in the first batch of sends and receives
	// of a channel of a kernel.
	Start int64
}

// Time is how long an action takes that moves so many bytes, rounded up.
func (c *Cost) Time(bytes uint64) int64 { return int64(math.Ceil(c.Step + c.PerByte*float64(bytes))) }

// OnLink is how many bytes of a link a message of so many bytes occupies, rounded up.
func (c *Cost) OnLink(bytes uint64) uint64 {
	if c.Links == 0 {
		return bytes
	}
	return uint64(math.Ceil(c.Links * float64(bytes)))
}
