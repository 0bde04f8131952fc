// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/kernel/tc"
	"github.com/ddlemu/ddlemu/shaper/state"
)

// Wire shapes a fabric. Follow, Count and Close are for one goroutine.
type Wire struct {
	file    *state.File
	fabric  *fabric.Fabric
	part    *state.Participant
	senders *tc.Senders
	ended   chan struct{}
	failed  error // the thread's end, once ended is closed
	wake    int   // eventfd
	closing atomic.Bool

	// The thread's.
	clock       clock
	socket      *socket
	model       *model
	flows       flows
	cells       []state.Cell
	scale       int64
	lastArrived []int64 // by NIC
	lead        lead
	reaction    histogram // from a packet's arrival until this process has it
	writing     histogram // to write it

	// Packets that were dropped although the model would not, besides those for which
	// it has no memory: malformed or tagged, no room in the socket, no NIC.
	strange, overran, refused atomic.Uint64

	told  uint64 // how many drops of these kinds have been told
	below bool   // a latency below the floor has been told
}

// Start connects the ports of p by a delay line that shapes by what file says.
func Start(file *state.File, f *fabric.Fabric, p *netns.Plan) (w *Wire, err error) {
	fixed := file.Fixed()
	w = &Wire{
		file: file, fabric: f, scale: int64(fixed.TimeScale), ended: make(chan struct{}), clock: newClock(),
		model: newModel(f, fixed.Seed, file.Tables(), file.Entry), lastArrived: make([]int64, f.NICs()),
	}
	for i := range w.model.hops {
		w.refresh(i)
	}
	if w.socket, err = openSocket(p); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			unix.Close(w.socket.fd)
		}
	}()
	if w.senders, err = tc.NewSenders(f, p, slowed(file.Hops())); err != nil {
		return nil, err
	}
	if w.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, fmt.Errorf("make an eventfd: %w", err)
	}
	if err := w.join(); err != nil {
		return nil, errors.Join(err, unix.Close(w.wake))
	}
	// Collecting garbage takes a CPU from whoever emulates and is emulated.
	debug.SetGCPercent(400)
	go func() {
		defer close(w.ended)
		w.failed = w.run()
	}()
	return w, nil
}

// join makes the job that stands for all traffic.
func (w *Wire) join() error {
	job, err := w.file.JoinJob(state.TrafficKey)
	if err != nil {
		return err
	}
	if w.part, err = w.file.Join(job, state.Rank{Rank: state.DaemonRank, Node: state.DaemonRank}); err != nil {
		return err
	}
	w.cells = w.part.Job().Cells()
	return nil
}

// refresh publishes what is in force on hop i.
func (w *Wire) refresh(i int) {
	p, framing := w.file.InForce(i)
	w.model.hops[i].params.Store(&inForce{p, framing})
}

// Follow puts changed parameters into force. Packets under way keep their times.
func (w *Wire) Follow() error {
	for i := range w.model.hops {
		w.refresh(i)
	}
	return w.senders.Follow(slowed(w.file.Hops()))
}

// Count says what the model could not know of. Its own counters are always up to date.
func (w *Wire) Count() error {
	select {
	case <-w.ended:
		return w.failed
	default:
	}
	n, err := w.socket.overruns()
	if err != nil {
		return err
	}
	w.overran.Add(n)
	w.tell()
	w.judgeFloor()
	return nil
}

// enoughForFloor is how many packets say what the floor is.
const enoughForFloor = 200

// judgeFloor notes a link whose latency is less than the time that a packet takes
// through this process: half of its packets are late, whatever their other times. One
// that asks for nothing has no times to keep.
func (w *Wire) judgeFloor() {
	read, n := w.reaction.quantile(0.5)
	written, _ := w.writing.quantile(0.5)
	floor := read + written
	if n < enoughForFloor || w.below {
		return
	}
	for i := range w.model.hops {
		h := &w.model.hops[i]
		p := h.params.Load()
		asks := p.NsDen != 0 || p.Latency != 0 || p.Jitter.Value != 0
		if w.fabric.Hops[i].Kind == fabric.Link && asks && atomic.LoadUint64(&h.count.Segments) > 0 && p.Latency < int64(floor) {
			w.below = true
			w.part.Job().Invalidate(state.BelowFloor)
			w.file.Event(fmt.Sprintf("wire: %s has a latency below the floor, which is %v here", w.fabric.HopName(i), floor))
			return
		}
	}
}

// tell notes losses that are not the model's.
func (w *Wire) tell() {
	full, overran, refused, strange := w.model.starved.Load(), w.overran.Load(), w.refused.Load(), w.strange.Load()
	sum := full + overran + refused + strange
	if sum == w.told {
		return
	}
	w.told = sum
	if full+overran+refused > 0 {
		w.part.Job().Invalidate(state.WireOverrun)
	}
	w.file.Event(fmt.Sprintf("wire: lost %d for want of time, %d of memory, %d that no NIC took, %d malformed or of a VLAN", overran, full, refused, strange))
}

// Close ends the delay line. What is under way is lost.
func (w *Wire) Close() error {
	w.stop()
	<-w.ended
	w.part.Leave()
	return errors.Join(w.failed, os.NewSyscallError("close", unix.Close(w.wake)), os.NewSyscallError("close", unix.Close(w.socket.fd)))
}
