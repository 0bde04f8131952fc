// SPDX-License-Identifier: Apache-2.0

package plan

import "slices"

// Kernel is one rank's part of a call: what it does on each channel.
type Kernel struct{ Channels []KernelChannel }

// KernelChannel is what a kernel does on a channel: batches one after another.
type KernelChannel struct {
	Channel int
	Batches []Batch
}

// Batch is programs that a kernel runs concurrently.
type Batch struct {
	Plan     *Plan
	Conns    []int // the caller's numbers of the plan's connections, by the plan's own
	P2P      bool
	Programs []BatchProgram
}

// BatchProgram is a program with the connections that it uses.
type BatchProgram struct {
	Program
	Sends, Recvs []Use
}

// Use is what a program does with a connection.
type Use struct {
	Conn            int // the plan's number
	Slots, Messages uint64
}

// KernelsOf are the kernels of the plan with a number, by rank; nil for a rank without work. conns are the caller's
// numbers of the plan's connections.
func (p *Plan) KernelsOf(number int, conns []int, ranks int) []*Kernel {
	out := make([]*Kernel, ranks)
	for i := range p.Blocks {
		b := &p.Blocks[i]
		if b.Kernel != number {
			continue
		}
		if out[b.Rank] == nil {
			out[b.Rank] = &Kernel{}
		}
		channel := KernelChannel{Channel: b.Channel}
		for _, programs := range b.Batches {
			channel.Batches = append(channel.Batches, p.batch(conns, programs))
		}
		out[b.Rank].Channels = append(out[b.Rank].Channels, channel)
	}
	return out
}

func (p *Plan) batch(conns []int, programs []Program) Batch {
	out := Batch{Plan: p, Conns: conns}
	for _, prog := range programs {
		kp := p.withUses(prog)
		for _, u := range slices.Concat(kp.Sends, kp.Recvs) {
			out.P2P = out.P2P || p.Conns[u.Conn].P2P
		}
		out.Programs = append(out.Programs, kp)
	}
	return out
}

// Fuse is one kernel that does on each channel what the kernels of parts do, one after another. A part may be nil.
func Fuse(parts ...*Kernel) *Kernel {
	parts = slices.DeleteFunc(parts, func(k *Kernel) bool { return k == nil })
	switch len(parts) {
	case 0:
		return nil
	case 1:
		return parts[0]
	}
	out := &Kernel{}
	at := map[int]int{} // of channels
	for _, k := range parts {
		for _, b := range k.Channels {
			i, ok := at[b.Channel]
			if !ok {
				i = len(out.Channels)
				at[b.Channel] = i
				out.Channels = append(out.Channels, KernelChannel{Channel: b.Channel})
			}
			out.Channels[i].Batches = append(out.Channels[i].Batches, b.Batches...)
		}
	}
	return out
}

// withUses adds the connections of a program.
func (p *Plan) withUses(prog Program) BatchProgram {
	out := BatchProgram{Program: prog}
	sends, recvs := map[int]int{}, map[int]int{} // places in out
	count := func(uses *[]Use, places map[int]int, i int, slots, messages uint64) {
		at, ok := places[i]
		if !ok {
			at = len(*uses)
			places[i] = at
			*uses = append(*uses, Use{Conn: i, Slots: slots})
		}
		(*uses)[at].Messages += messages
	}
	for _, l := range prog {
		for _, a := range l.Actions {
			for _, i := range a.Send {
				count(&out.Sends, sends, i, p.Conns[i].SendSlots, unless(a.KeepSend, l.Repeat))
			}
			for _, i := range a.Recv {
				count(&out.Recvs, recvs, i, p.Conns[i].RecvSlots, unless(a.KeepRecv, l.Repeat))
			}
		}
	}
	return out
}

func unless(kept bool, times int) uint64 {
	if kept {
		return 0
	}
	return uint64(times)
}
