// SPDX-License-Identifier: Apache-2.0

package drive

/*
#include "exchange.h"
*/
import "C"

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/ddlemu/ddlemu/nccl-plugin/internal/transport"
	"github.com/ddlemu/ddlemu/shaper/fabric"
	"github.com/ddlemu/ddlemu/shaper/fabric/state"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/interpret"
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/model"
)

// performanceMemory is the shared memory for connections that a NIC may use in a performance. It grows as it is used.
const performanceMemory = 1 << 30

// joinToPerform is [Join] for [World.Perform], which makes many connections. key is the job's key.
func joinToPerform(file *state.File, fab *fabric.Fabric, key uint64) (*World, error) {
	return join(file, fab, fab.FlowPaths(), key, performanceMemory)
}

// Performance is a schedule with a size and a place.
type Performance struct {
	Schedule *schedule.Schedule // good, see package check
	Cut      schedule.Cut       // with elements of 4 bytes
	Place    *model.Place
	InPlace  bool
	Root     int // of a rooted collective
	// Calls are the timed calls. Before them there is one that is checked.
	Calls    int
	Progress func(part float64) // called now and then; may be nil
}

// Outcome is what a performance took.
type Outcome struct {
	Times []time.Duration // of each call by the fabric's clock, not divided by a time scale
	Wrong uint64          // elements of the checked call
}

// Perform executes a schedule with real bytes over the emulated links, as MSCCL's kernel does: each block runs its
// steps piece by piece, waits for flags, and moves messages between the GPUs' memories and the step buffers of its
// connections. There is one connection between nodes for each source, destination and channel. Sums are of int32, on
// the CPU.
func (w *World) Perform(ctx context.Context, p Performance) (*Outcome, error) {
	runtime.LockOSThread() // the text of an error belongs to the thread
	defer runtime.UnlockOSThread()
	var mem arrays
	defer mem.free()
	s, err := w.newStage(ctx, &p, &mem)
	if s != nil {
		defer w.close(s.conns)
	}
	if err != nil {
		return nil, err
	}
	s.fill()
	out := &Outcome{}
	for call := range p.Calls + 1 {
		start := s.now()
		if err := s.call(ctx); err != nil {
			return nil, err
		}
		if call == 0 {
			out.Wrong = s.wrong() // on a virtual clock the time stands still meanwhile
		} else {
			out.Times = append(out.Times, time.Duration(s.now()-start))
		}
		if p.Progress != nil {
			p.Progress(float64(call+1) / float64(p.Calls+1))
		}
	}
	return out, s.drain(ctx)
}

// stage is the state of a performance.
type stage struct {
	*Performance
	w       *World
	shape   schedule.Shape
	layouts []schedule.Layout
	memory  [][]int32 // of the GPUs
	view    *C.struct_ddlemu_clock_view
	conns   []*connection
	links   []C.struct_exchange // in C's memory: connections between nodes first
	network int                 // number of these
	perCall []uint64            // messages of each link in a call
	steps   *interpret.Machine
	link    []int // by connection of steps: its link
	conn    []int // the reverse
}

func (w *World) newStage(ctx context.Context, p *Performance, mem *arrays) (*stage, error) {
	s := &stage{Performance: p, w: w, view: (*C.struct_ddlemu_clock_view)(w.nics[0].end.Clock())}
	var err error
	if s.shape, err = p.Schedule.Shape(); err != nil {
		return nil, err
	}
	for gpu := range p.Schedule.GPUs {
		l := p.Schedule.Layout(gpu, p.InPlace, p.Root, s.shape)
		s.layouts = append(s.layouts, l)
		s.memory = append(s.memory, make([]int32, uint64(l.Total)*p.Cut.Chunk/4))
	}
	s.steps = interpret.New(interpret.NewGraph(p.Schedule), &p.Cut, s.layouts, s.act)
	if err := s.makeLinks(ctx, mem); err != nil {
		return s, err
	}
	return s, nil
}

// makeLinks makes the connections, in the order in which a virtual clock serves them.
func (s *stage) makeLinks(ctx context.Context, mem *arrays) error {
	local := func(e *interpret.Edge) int {
		if s.Place.Node(e.Src) == s.Place.Node(e.Dst) {
			return 1
		}
		return 0
	}
	s.conn = s.steps.Order(func(a, b *interpret.Edge) int {
		return slices.Compare([]int{local(a), a.Src, a.Dst, a.Channel}, []int{local(b), b.Src, b.Dst, b.Channel})
	})
	size := uint64(unsafe.Sizeof(C.struct_exchange{}))
	memory := mem.get(uint64(len(s.conn)) * size)
	if memory == nil {
		return errNoMemory
	}
	s.links = unsafe.Slice((*C.struct_exchange)(memory), len(s.conn))
	s.link = make([]int, len(s.conn))
	for i, n := range s.conn {
		s.link[n] = i
		c := &s.steps.Conns[n]
		c.Remote = local(c.Edge) == 0
		sender := s.steps.Blocks[c.Sender].Block
		messages, _ := s.Cut.Messages(sender)
		s.perCall = append(s.perCall, messages)
		if err := s.makeLink(ctx, i, c, s.Cut.Largest(sender), mem); err != nil {
			return fmt.Errorf("connect GPU %d to GPU %d on channel %d: %w", c.Src, c.Dst, c.Channel, err)
		}
	}
	return nil
}

// makeLink makes a connection for messages of at most largest bytes.
func (s *stage) makeLink(ctx context.Context, i int, c *interpret.Conn, largest uint64, mem *arrays) error {
	x := &s.links[i]
	x.slots, x.slot_bytes = C.uint64_t(s.Cut.Slots), C.uint64_t(largest)
	bytes := uint64(s.Cut.Slots) * largest
	if x.out = (*C.char)(mem.get(bytes)); x.out == nil {
		return errNoMemory
	}
	if !c.Remote {
		x.in = x.out
		return nil
	}
	if x.in = (*C.char)(mem.get(bytes)); x.in == nil {
		return errNoMemory
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	from, to := s.Place.NICs(c.Src, c.Dst, c.Channel)
	made, err := s.w.connectOne(ctx, pair{from, to})
	if err != nil {
		return err
	}
	s.conns = append(s.conns, made)
	x.sender, x.receiver = (*C.struct_ddlemu_comm)(made.send), (*C.struct_ddlemu_comm)(made.recv)
	s.network++
	return nil
}

func (s *stage) now() int64 { return int64(C.exchange_now(s.view)) }

// mostIdle is the time by the fabric's clock without a message after which a call is given up. No path is that long.
const mostIdle = 10 * time.Minute

// idleRealTime is the same for a real clock, where nothing else ends the wait.
const idleRealTime = time.Minute

// call executes one call.
func (s *stage) call(ctx context.Context) error {
	s.steps.Start()
	for i := range s.links {
		switch x := &s.links[i]; {
		case !s.Schedule.Whole:
			x.expected += C.uint64_t(s.perCall[i])
		case x.expected == 0: // who stores into another GPU's memory does not wait for a receive
			x.expected = C.uint64_t(s.perCall[i] * uint64(s.Calls+1))
		}
	}
	patience := int64(mostIdle)
	if s.view == nil {
		patience = int64(idleRealTime) * int64(s.w.file.Fixed().TimeScale)
	}
	last := s.now()
	for rounds := 0; !s.steps.Done(); rounds++ {
		if rounds%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		events := C.exchange_events(s.view)
		var polled C.int
		if code := C.exchange_poll(unsafe.SliceData(s.links), C.int(s.network), &polled); code != 0 {
			return fmt.Errorf("%s (ncclResult_t %d)", transport.TakeError(), int(code))
		}
		for i := range s.links[:s.network] {
			x := &s.links[i]
			s.steps.Progress(s.conn[i], uint64(x.arrived), uint64(x.acked))
		}
		moved := s.steps.Run()
		if moved || polled != 0 {
			last = s.now()
			continue
		}
		if s.now()-last > patience {
			return s.steps.Stuck()
		}
		C.exchange_wait(s.view, events, C.int64_t(last+patience+1))
	}
	return nil
}

// drain completes all sends, which use the step buffers until then.
func (s *stage) drain(ctx context.Context) error {
	for {
		events := C.exchange_events(s.view)
		var polled C.int
		if code := C.exchange_poll(unsafe.SliceData(s.links), C.int(s.network), &polled); code != 0 {
			return fmt.Errorf("%s (ncclResult_t %d)", transport.TakeError(), int(code))
		}
		open := false
		for i := range s.links[:s.network] {
			open = open || s.links[i].acked < s.links[i].written
		}
		if !open || ctx.Err() != nil {
			return ctx.Err()
		}
		if polled == 0 {
			C.exchange_wait(s.view, events, C.int64_t(s.now()+int64(mostIdle)))
		}
	}
}
