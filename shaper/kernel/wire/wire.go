// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/kernel/netns"
	"github.com/ddlemu/ddlemu/shaper/kernel/tap"
	"github.com/ddlemu/ddlemu/shaper/kernel/tc"
)

// Wire is the shaper of one fabric. One goroutine calls Follow, Count and Close.
type Wire struct {
	file        *state.File
	fabric      *fabric.Fabric
	participant *state.Participant
	senders     *tc.Senders
	ended       chan struct{} // closed when the thread has ended
	err         error         // why the thread ended; valid once ended is closed
	wake        int           // eventfd
	closing     atomic.Bool

	// Used by the thread only.
	clock       clock
	socket      *socket
	model       *model
	flows       flows
	stats       []state.LinkStats
	scale       int64
	lastArrived []int64 // by NIC
	lead        lead
	reading     histogram // time from a packet's arrival until this process has read it
	writing     histogram // time to write a packet

	// Packets that were dropped and that the link model does not lose. model.noMemory has those for which there was no
	// memory.
	malformed atomic.Uint64 // or with a VLAN tag
	overrun   atomic.Uint64 // the socket's buffer was full
	refused   atomic.Uint64 // the receiving NIC did not accept them

	reported   uint64 // how many of these drops have been reported as events
	belowFloor bool   // a latency below the floor has been reported
}

// Start starts the shaper wire on the fabric in file: it connects the ports of p's switch.
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
	if w.senders, err = tc.NewSenders(f, p, senderHops(file.Hops())); err != nil {
		return nil, err
	}
	if w.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return nil, fmt.Errorf("make an eventfd: %w", err)
	}
	if err := w.join(); err != nil {
		return nil, errors.Join(err, unix.Close(w.wake))
	}
	// Garbage collection would use CPU time that the emulation needs.
	debug.SetGCPercent(400)
	go func() {
		defer close(w.ended)
		w.err = w.run()
	}()
	return w, nil
}

// join joins the job that stands for all traffic. Lateness is recorded there.
func (w *Wire) join() error {
	job, err := w.file.JoinJob(state.TrafficKey)
	if err != nil {
		return err
	}
	if w.participant, err = w.file.Join(job, state.Rank{Rank: state.DaemonRank, Node: state.DaemonRank}); err != nil {
		return err
	}
	w.stats = w.participant.Job().LinkStats()
	return nil
}

// refresh publishes the parameters of hop i to the thread.
func (w *Wire) refresh(i int) {
	p := w.file.InForce(i)
	w.model.hops[i].params.Store(&p)
}

// Follow applies changed parameters. Packets in flight keep their times.
func (w *Wire) Follow() error {
	for i := range w.model.hops {
		w.refresh(i)
	}
	return w.senders.Follow(senderHops(w.file.Hops()))
}

// Count reports drops that the model does not count. The model updates the counters in the fabric's file by itself.
// If the thread has ended, Count returns its error.
func (w *Wire) Count() error {
	select {
	case <-w.ended:
		return w.err
	default:
	}
	n, err := w.socket.overruns()
	if err != nil {
		return err
	}
	w.overrun.Add(n)
	w.reportDrops()
	w.checkFloor()
	return nil
}

// minFloorPackets is how many packets are needed to determine the floor.
const minFloorPackets = 200

// checkFloor reports the first link whose latency is less than the floor, the median time that a packet needs through
// this process: about half of such a link's packets are late. Links without any limit are not checked.
func (w *Wire) checkFloor() {
	read, n := w.reading.quantile(0.5)
	written, _ := w.writing.quantile(0.5)
	floor := read + written
	if n < minFloorPackets || w.belowFloor {
		return
	}
	for i := range w.model.hops {
		h := &w.model.hops[i]
		p := h.params.Load()
		limited := p.NsDen != 0 || p.Latency != 0 || p.Jitter.Value != 0
		if w.fabric.Hops[i].Kind == link.Link && limited && atomic.LoadUint64(&h.count.Counters.Segments) > 0 &&
			p.Latency < int64(floor) {
			w.belowFloor = true
			w.participant.Job().Invalidate(state.BelowFloor)
			w.file.Event(fmt.Sprintf("wire: %s has a latency below the floor, which is %v here", w.fabric.HopName(i),
				floor))
			return
		}
	}
}

// reportDrops reports the drops that the link model does not have as an event, which has space for 103 bytes.
func (w *Wire) reportDrops() {
	noMemory, overrun, refused, malformed := w.model.noMemory.Load(), w.overrun.Load(), w.refused.Load(),
		w.malformed.Load()
	sum := noMemory + overrun + refused + malformed
	if sum == w.reported {
		return
	}
	w.reported = sum
	if noMemory+overrun+refused > 0 {
		w.participant.Job().Invalidate(state.WireOverrun)
	}
	w.file.Event(fmt.Sprintf("wire: drops: socket full %d, no memory %d, NIC down %d, malformed or VLAN-tagged %d",
		overrun, noMemory, refused, malformed))
}

// Tap is nil: the shaper has no eBPF programs.
func (*Wire) Tap() tap.Source { return nil }

// Close stops the shaper. Packets in flight are lost.
func (w *Wire) Close() error {
	w.stop()
	<-w.ended
	w.participant.Leave()
	return errors.Join(w.err, os.NewSyscallError("close", unix.Close(w.wake)),
		os.NewSyscallError("close", unix.Close(w.socket.fd)))
}
