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
	"github.com/ddlemu/ddlemu/shaper/workload/schedule/model"
)

// performanceMemory is the shared memory for connections that a NIC may use in a performance. It grows as it is used.
const performanceMemory = 1 << 30

// JoinToPerform is [Join] for [World.Perform], which makes many connections. key is that of the job.
func JoinToPerform(file *state.File, fab *fabric.Fabric, key uint64) (*World, error) {
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

// Perform executes a schedule with real bytes over the emulated links, with the loop of MSCCL's kernel: each block runs
// its steps piece by piece, waits for flags, and moves messages between the GPUs' memories and the step buffers of its
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
	blocks  []player
	first   []int // block of each GPU
}

// player is a block.
type player struct {
	gpu     int
	b       *schedule.Block
	program *schedule.Program
	in, out int // links, -1 for none
	flag    schedule.Flag
	ended   bool
}

// end is one connection as the blocks name it.
type end struct{ src, dst, channel int }

// traffic is what a connection carries in a call: messages, and the bytes of the largest.
type traffic struct{ messages, largest uint64 }

func (w *World) newStage(ctx context.Context, p *Performance, mem *arrays) (*stage, error) {
	s := &stage{Performance: p, w: w, view: (*C.struct_ddlemu_clock_view)(w.nics[0].end.Clock())}
	var err error
	if s.shape, err = p.Schedule.Shape(); err != nil {
		return nil, err
	}
	messages := map[end]traffic{}
	for gpu := range p.Schedule.GPUs {
		l := p.Schedule.Layout(gpu, p.InPlace, p.Root, s.shape)
		s.layouts = append(s.layouts, l)
		s.memory = append(s.memory, make([]int32, uint64(l.Total)*p.Cut.Chunk/4))
		for id := range p.Schedule.GPUs[gpu].Blocks {
			b := &p.Schedule.GPUs[gpu].Blocks[id]
			if out, _ := p.Cut.Messages(b); out > 0 {
				messages[end{gpu, b.Send, b.Channel}] = traffic{out, p.Cut.Largest(b)}
			}
		}
	}
	if err := s.makeLinks(ctx, messages, mem); err != nil {
		return s, err
	}
	return s, nil
}

// makeLinks makes the connections, in the order in which a virtual clock serves them, and the blocks at their ends.
func (s *stage) makeLinks(ctx context.Context, messages map[end]traffic, mem *arrays) error {
	var ends []end
	for e := range messages {
		ends = append(ends, e)
	}
	local := func(e end) int {
		if s.Place.Node(e.src) == s.Place.Node(e.dst) {
			return 1
		}
		return 0
	}
	slices.SortFunc(ends, func(a, b end) int {
		return slices.Compare([]int{local(a), a.src, a.dst, a.channel}, []int{local(b), b.src, b.dst, b.channel})
	})
	size := uint64(unsafe.Sizeof(C.struct_exchange{}))
	memory := mem.get(uint64(len(ends)) * size)
	if memory == nil {
		return errNoMemory
	}
	s.links = unsafe.Slice((*C.struct_exchange)(memory), len(ends))
	number := map[end]int{}
	for i, e := range ends {
		number[e] = i
		s.perCall = append(s.perCall, messages[e].messages)
		if err := s.makeLink(ctx, i, e, messages[e].largest, local(e) == 1, mem); err != nil {
			return fmt.Errorf("connect GPU %d to GPU %d on channel %d: %w", e.src, e.dst, e.channel, err)
		}
	}
	for gpu := range s.Schedule.GPUs {
		s.first = append(s.first, len(s.blocks))
		for id := range s.Schedule.GPUs[gpu].Blocks {
			b := &s.Schedule.GPUs[gpu].Blocks[id]
			x := player{gpu: gpu, b: b, program: schedule.NewProgram(b, &s.Cut, &s.layouts[gpu]), in: -1, out: -1}
			if i, ok := number[end{gpu, b.Send, b.Channel}]; ok {
				x.out = i
			}
			if i, ok := number[end{b.Recv, gpu, b.Channel}]; ok {
				x.in = i
			}
			s.blocks = append(s.blocks, x)
		}
	}
	return nil
}

// makeLink makes a connection for messages of at most largest bytes.
func (s *stage) makeLink(ctx context.Context, i int, e end, largest uint64, local bool, mem *arrays) error {
	x := &s.links[i]
	x.slots, x.slot_bytes = C.uint64_t(s.Cut.Slots), C.uint64_t(largest)
	bytes := uint64(s.Cut.Slots) * largest
	if x.out = (*C.char)(mem.get(bytes)); x.out == nil {
		return errNoMemory
	}
	if local {
		x.in = x.out
		return nil
	}
	if x.in = (*C.char)(mem.get(bytes)); x.in == nil {
		return errNoMemory
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	from, to := s.Place.NICs(e.src, e.dst, e.channel)
	c, err := s.w.connectOne(ctx, pair{from, to})
	if err != nil {
		return err
	}
	s.conns = append(s.conns, c)
	x.sender, x.receiver = (*C.struct_ddlemu_comm)(c.send), (*C.struct_ddlemu_comm)(c.recv)
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
	running := len(s.blocks)
	for i := range s.blocks {
		b := &s.blocks[i]
		b.program.Reset()
		b.flag, b.ended = schedule.NoFlag, false
	}
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
	for rounds := 0; running > 0; rounds++ {
		if rounds%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		acts := C.exchange_acts(s.view)
		var polled C.int
		if code := C.exchange_poll(unsafe.SliceData(s.links), C.int(s.network), &polled); code != 0 {
			return fmt.Errorf("%s (ncclResult_t %d)", transport.TakeError(), int(code))
		}
		moved, ended := s.runBlocks()
		running -= ended
		if moved || polled != 0 {
			last = s.now()
			continue
		}
		if s.now()-last > patience {
			return s.stuck()
		}
		C.exchange_wait(s.view, acts, C.int64_t(last+patience+1))
	}
	return nil
}

// drain completes all sends, which use the step buffers until then.
func (s *stage) drain(ctx context.Context) error {
	for {
		acts := C.exchange_acts(s.view)
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
			C.exchange_wait(s.view, acts, C.int64_t(s.now()+int64(mostIdle)))
		}
	}
}

// runBlocks lets every block go on as far as it can.
func (s *stage) runBlocks() (moved bool, ended int) {
	for again := true; again; {
		again = false
		for i := range s.blocks {
			b := &s.blocks[i]
			for !b.ended {
				if b.program.Done() {
					b.ended = true
					ended++
					moved = true
					break
				}
				if !s.act(b) {
					break
				}
				moved, again = true, true
			}
		}
	}
	return moved, ended
}

func (s *stage) stuck() error {
	for i := range s.blocks {
		if b := &s.blocks[i]; !b.ended {
			var a schedule.Action
			b.program.Current(&a)
			return fmt.Errorf("deadlock at this size: GPU %d block %d waits for ever at step %d (%v) of loop %d: check the schedule", b.gpu, i-s.first[b.gpu], a.Number, a.Step.Kind, a.Loop)
		}
	}
	return nil
}
