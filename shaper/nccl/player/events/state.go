// SPDX-License-Identifier: Apache-2.0

package events

import (
	"github.com/ddlemu/ddlemu/shaper/engine/link"
	"github.com/ddlemu/ddlemu/shaper/engine/sim"
	"github.com/ddlemu/ddlemu/shaper/nccl/plan"
	"github.com/ddlemu/ddlemu/shaper/nccl/player"
)

// simulation plays what all ranks have on their streams, in virtual time. Times are ns since the start.
type simulation struct {
	now      int64
	conns    []conn
	ranks    []rankRun
	loop     *sim.Loop
	inOrder  bool          // of a virtual clock
	runnable []*programRun // programs that may be able to continue
	played   bool          // the ranks have begun
	perCall  int           // items of a call that is repeated; 0 in a job
	nodes    *player.Nodes // what nodes cost; nil: nothing
	causes   *causes       // where the time goes; nil: nobody asks

	transport *link.Transport // of connections between nodes
}

// programRun is the state of a program that a kernel runs.
type programRun struct {
	plan.Cursor
	conns          []int // of the simulation, by the plan's number
	block          *blockRun
	queued, active bool
	starts         bool    // of the first batch of sends and receives of a channel
	ends           int64   // when the action at the cursor ends; 0: it has not begun
	at             *moment // the last action has ended, or this one ends
}

// blockRun is the state of a block.
type blockRun struct {
	block      *plan.KernelChannel
	kernel     *kernelRun
	batch      int
	p2p        bool    // a batch of sends and receives has begun
	unfinished int     // programs of the batch that have not ended
	ended      *moment // the last of those that have
}

// kernelRun is a kernel that runs.
type kernelRun struct {
	*plan.Kernel
	rank, item int
	unfinished int     // blocks that have not ended
	ended      *moment // the last of those that have
}

// item is something that a rank launches on a stream, or that its host thread waits for.
type item struct {
	stream int
	after  []int  // earlier items of the rank that must have ended
	nanos  int64  // of computation
	call   source // the call that the rank takes part in, nil for computation
	comm   int    // of the call
	host   bool   // the host thread waits for after; there is nothing on a stream
}

// source makes the kernels of a call.
type source interface {
	// take returns the kernel of a rank of the job, nil if it has no work. drop says that it has ended.
	take(rank int) *plan.Kernel
	drop(rank int)
}

// rankRun is a rank with its host thread and streams.
type rankRun struct {
	id       int
	count    int // items
	item     func(i int) *item
	spans    []player.Span // of the items that are launched
	ended    int           // items
	kernels  int           // that have started
	streams  []streamRun
	comms    map[int]*commRun
	resuming bool
	begins   int64 // when the channels of the last kernel begin
	called   int64 // when the host's thread has made the call that it makes now; 0: it makes none
}

type streamRun struct {
	queue   []int // items that are launched and have not ended
	entries int   // of these items that have not ended
	busy    bool  // the first has started
}

// commRun is a rank of a communicator: NCCL runs the calls of a communicator one after another.
type commRun struct {
	calls   []int          // items that are launched and have not ended
	kernels []*plan.Kernel // of the first of them, at most [simulation.queuedItems]
}

// causes keeps the moments of a simulation. Everything that happens has waited for several things; the one that came
// last says where the time went. The nil *causes, of a simulation that is not explained, keeps nothing.
type causes struct {
	s       *simulation
	begin   *moment
	conns   []connCauses
	ranks   []rankCauses
	numbers []int // of connections, by the number of their flow
	nics    int64 // their part of the latency of a path between nodes, in each direction
}

// history is how many messages of a connection the moments are kept of: more than are between the first post for one
// and its end.
const history = 2 * directAhead

// moments are the moments of the last messages of a connection, by number modulo history.
type moments [history]*moment

func (m *moments) of(n uint64) *moment { return m[n%history] }

func (m *moments) set(n uint64, at *moment) { m[n%history] = at }

// connCauses are the moments of a connection.
type connCauses struct {
	written, posted, received, arrived, consumed moments // received: the receive was posted
	wire                                         moments // the last byte is at the receiver, whose host has not seen it

	freed                    *moment // the last time that slots became free
	sendAllowed, recvAllowed *moment // the current operations began

	records map[uint64][]link.HopRecord // of messages that have not arrived
	left    int64                       // when the last segment left the first hop
	loses   bool                        // a hop of its path loses packets
}

func (k *connCauses) posts(n uint64, m *moment) {
	k.posted.set(n, m)
	k.wire.set(n, nil)
}

// rankCauses are the moments of a rank.
type rankCauses struct {
	host     *moment         // the host's thread has made its last call
	launched map[int]*moment // by item, until it starts
	ended    *moment         // the last item
}

func (s *simulation) wake(p *programRun) {
	if p != nil && p.active && !p.queued {
		p.queued = true
		s.runnable = append(s.runnable, p)
	}
}

// after makes a rank do something for an item at a time. Of several ranks at one time the lowest is first, of several
// items of a rank the earliest.
func (s *simulation) after(at int64, rank, item int, then func()) {
	s.loop.After(at, uint64(rank)<<40|uint64(item), then)
}

// bit is 1 for true.
func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
