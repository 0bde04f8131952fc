// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"fmt"

	"github.com/ddlemu/ddlemu/shaper/nccl"
)

// Plan is one call, as the kernels and proxies of all ranks execute it.
type Plan struct {
	Conns  []Connection
	Blocks []Block
	Proto  Protocol       // of sends and receives Simple, unless their loops say LL
	byEnds map[[4]int]int // places in Conns, by source, destination and channel
	kernel int            // the last one, which gets the blocks that are added
	only   *int           // the rank whose plan is wanted; nil for all
}

// Connection is one direction between two ranks on one channel.
type Connection struct {
	Src, Dst, Channel int
	P2P               bool
	Multicast         Multicast
	SendSlots         uint64 // messages in flight between kernel and network
	RecvSlots         uint64 // irecvs posted ahead
}

// Block is the work of one rank's kernel on one channel: batches one after another, the programs of a batch
// concurrently.
type Block struct {
	Kernel        int // of the rank's kernels of a call, which run one after another
	Rank, Channel int
	Batches       [][]Program
}

// Program is a list of actions. Repeated actions are a loop, so that a long program uses little memory.
type Program []Loop

// Loop is actions that are repeated.
type Loop struct {
	Actions []Action
	Repeat  int
	LL      bool // a send or receive by LL
	// Channels is how many channels NCCL divides the message of a send or receive over; 0: a collective.
	Channels int
	Role     Role
}

// Role is which part of a rank's threads executes a loop.
type Role uint8

// Roles.
const (
	AllThreads   Role = iota // all that the rank has for the program
	NVLSCopy                 // NVLS: copies between a rank's data and its own buffers
	NVLSTreeCopy             // NVLSTree: such copies where the rank's node has a parent in the channel's tree
	NVLSHead                 // NVLS: what the head of a part reads from and writes to the switch
)

// Action waits for one message on each connection of Recv and for a free slot on each of Send. Then it sends a message
// of Bytes bytes on each of Send.
type Action struct {
	Recv, Send []int // places in Plan.Conns
	Slice
	// PAT needs several actions for a message, and has several messages open at once.
	RecvAhead, SendAhead uint64 // messages beyond the next one
	KeepRecv, KeepSend   bool   // later actions use the same message
	received             uint64 // bytes of the message that is received with this action
}

// Moves is the number of bytes that the action moves: of the larger message if it receives and sends.
func (a *Action) Moves() uint64 {
	if len(a.Recv) == 0 {
		return a.Bytes
	}
	return max(a.Bytes, a.BytesReceived())
}

// BytesReceived are the bytes of each message that the action receives. Without PAT a message is passed on as it came.
func (a *Action) BytesReceived() uint64 {
	if a.received > 0 {
		return a.received
	}
	return a.Bytes
}

func newPlan() *Plan { return &Plan{byEnds: map[[4]int]int{}} }

// wants says whether the blocks of a rank are wanted.
func (p *Plan) wants(rank int) bool { return p.only == nil || *p.only == rank }

// conn returns the index of a connection, which it adds on first use.
func (p *Plan) conn(src, dst, channel int, slots uint64) int {
	return p.connOf(src, dst, channel, slots, Unicast)
}

// connOf is conn for a connection of this kind.
func (p *Plan) connOf(src, dst, channel int, slots uint64, kind Multicast) int {
	key := [4]int{src, dst, channel, int(kind)}
	i, ok := p.byEnds[key]
	if !ok {
		i = len(p.Conns)
		p.byEnds[key] = i
		p.Conns = append(p.Conns, Connection{Src: src, Dst: dst, Channel: channel, SendSlots: slots, RecvSlots: slots,
			Multicast: kind})
	}
	return i
}

func (p *Plan) add(rank, channel int, programs ...Program) {
	p.Blocks = append(p.Blocks, Block{Rank: rank, Channel: channel, Batches: [][]Program{programs}})
}

// Run calls f for every action of a block, of one program after another, each as often as it is repeated.
func (b *Block) Run(f func(a *Action)) {
	for _, batch := range b.Batches {
		for _, prog := range batch {
			prog.Run(f)
		}
	}
}

// Run calls f for every action in order, each as often as it is repeated.
func (p Program) Run(f func(a *Action)) {
	for _, l := range p {
		for range l.Repeat {
			for i := range l.Actions {
				f(&l.Actions[i])
			}
		}
	}
}

// Cursor is a place in a program.
type Cursor struct {
	Program
	loop, times, at int
}

// Start is a cursor at the first action.
func (p Program) Start() Cursor { return Cursor{Program: p} }

// Action is the action at the cursor, nil at the end.
func (c *Cursor) Action() *Action {
	if c.loop == len(c.Program) {
		return nil
	}
	return &c.Program[c.loop].Actions[c.at]
}

// Loop is the loop of the cursor. It must not be at the end.
func (c *Cursor) Loop() *Loop { return &c.Program[c.loop] }

// Advance moves the cursor to the next action. It must not be at the end.
func (c *Cursor) Advance() {
	l := &c.Program[c.loop]
	if c.at++; c.at < len(l.Actions) {
		return
	}
	c.at = 0
	if c.times++; c.times == l.Repeat {
		c.times = 0
		c.loop++
	}
}

// AtStart says whether the cursor is at the first action.
func (c *Cursor) AtStart() bool { return c.loop == 0 && c.times == 0 && c.at == 0 }

// Place is the number of the loop, of its repetition and of the action there.
func (c *Cursor) Place() (loop, times, at int) { return c.loop, c.times, c.at }

// Each calls f for every action with its loop.
func (b *Block) Each(f func(l *Loop, a *Action)) {
	for _, batch := range b.Batches {
		for _, prog := range batch {
			for _, l := range prog {
				for i := range l.Actions {
					f(&l, &l.Actions[i])
				}
			}
		}
	}
}

// Kernels is the number of kernels of each rank, which run one after another.
func (p *Plan) Kernels() int { return p.kernel + 1 }

// Channels is the number of channels that have work.
func (p *Plan) Channels() int {
	seen := map[int]bool{}
	for _, b := range p.Blocks {
		seen[b.Channel] = true
	}
	return len(seen)
}

// Messages is the number of messages that are sent on the connections for which of is true.
func (p *Plan) Messages(of func(conn int) bool) (n uint64) {
	for i := range p.Blocks {
		p.Blocks[i].Each(func(l *Loop, a *Action) {
			for _, conn := range a.Send {
				if !a.KeepSend && of(conn) {
					n += uint64(l.Repeat)
				}
			}
		})
	}
	return n
}

// Used says which connections of a plan carry messages.
func (p *Plan) Used() []bool {
	out := make([]bool, len(p.Conns))
	for i := range p.Blocks {
		p.Blocks[i].Each(func(_ *Loop, a *Action) {
			for _, c := range a.Send {
				out[c] = true
			}
		})
	}
	return out
}

// Window is the number of messages after which the slots of every connection begin again.
func (p *Plan) Window() int {
	unit := uint64(1)
	for _, c := range p.Conns {
		for _, slots := range []uint64{c.SendSlots, c.RecvSlots} {
			unit *= slots / gcd(unit, slots)
		}
	}
	return int(unit)
}

// Loops returns the repetitions of the longest loop of any program, and the smallest of the programs' longest loops.
// Shorten must remove fewer than the latter.
func (p *Plan) Loops() (most, least int) {
	least = -1
	for i := range p.Blocks {
		for _, batch := range p.Blocks[i].Batches {
			for _, prog := range batch {
				n := 0
				for _, l := range prog {
					n = max(n, l.Repeat)
				}
				most = max(most, n)
				if least < 0 || n < least {
					least = n
				}
			}
		}
	}
	return most, max(least, 0)
}

// Shorten returns the plan with n repetitions fewer in the long loop of every program.
func (p *Plan) Shorten(n int) *Plan {
	q := *p
	q.Blocks = make([]Block, len(p.Blocks))
	for i, b := range p.Blocks {
		q.Blocks[i] = Block{Kernel: b.Kernel, Rank: b.Rank, Channel: b.Channel}
		for _, batch := range b.Batches {
			var progs []Program
			for _, prog := range batch {
				c := append(Program(nil), prog...)
				for j := range c {
					if c[j].Repeat > n {
						c[j].Repeat -= n
						break
					}
				}
				progs = append(progs, c)
			}
			q.Blocks[i].Batches = append(q.Blocks[i].Batches, progs)
		}
	}
	return &q
}

// Plan makes the plan of a collective.
func (c *Call) Plan() (*Plan, error) {
	if c.Coll.IsP2P() {
		return c.p2pPlan()
	}
	shares, err := c.Shares()
	if err != nil {
		return nil, err
	}
	return c.PlanOf(shares, nil)
}

// PlanOf makes the plan of a collective whose channels have these shares, of one rank or, with nil, of all.
func (c *Call) PlanOf(shares []Share, only *int) (*Plan, error) {
	p := newPlan()
	p.only, p.Proto = only, c.Proto
	if c.Algo == NVLS || c.Algo == NVLSTree {
		if err := c.checkNVLS(); err != nil {
			return nil, err
		}
	}
	for _, share := range shares {
		switch {
		case c.Algo == Tree:
			c.treePlan(p, share)
		case c.Algo == PAT:
			c.patPlan(p, share)
		case c.Algo == NVLS || c.Algo == NVLSTree:
			c.nvlsPlan(p, share)
		case c.Coll == nccl.AllReduce:
			c.ringPlan(p, share, c.allReduceLoop)
		case c.Coll == nccl.AllGather || c.Coll == nccl.ReduceScatter:
			c.ringPlan(p, share, c.gatherLoop)
		case c.Coll.Rooted():
			c.ringPlan(p, share, c.chainLoop)
		default:
			return nil, fmt.Errorf("no schedule of %v on a ring is known", c.Coll)
		}
	}
	return p, nil
}

// slots is the number of messages in a connection's buffer.
func (c *Call) slots() uint64 {
	_, slice := c.steps()
	return Steps / slice
}
