// SPDX-License-Identifier: Apache-2.0

package rewrite

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/ddlemu/ddlemu/configs/units"
	"github.com/ddlemu/ddlemu/shaper/workload"
)

// FirstRanks is what the first n ranks of a workload do, with its communicators cut to them. A call that cannot be made
// any more becomes a computation of no time, so that what comes after it still does. Counts stay as they are. A note in
// the head says that, and what was dropped.
func FirstRanks(ix *workload.Index, n int) (*workload.Workload, error) {
	all := ix.Workload.Head.Ranks
	if n < 2 || n > all {
		return nil, fmt.Errorf("the workload has %s: the number must be 2 to %d", units.Count(all, "rank"), all)
	}
	out := &workload.Workload{Head: ix.Workload.Head}
	if n == all {
		out.Ops = ix.Workload.Ops
		return out, nil
	}
	c := &cutter{ix: ix, n: n}
	out.Head.Ranks = n
	out.Head.Comms = c.comms()
	for i := range ix.Workload.Ops {
		out.Ops = append(out.Ops, c.op(&ix.Workload.Ops[i])...)
	}
	out.Head.Source.Notes = append(append([]string(nil), out.Head.Source.Notes...), c.note(all))
	return out, nil
}

// cutter cuts a workload to its first n ranks.
type cutter struct {
	ix    *workload.Index
	n     int
	at    [][]int32 // by communicator and rank in it: the new rank in it, -1 if it is cut
	size  []int     // by communicator
	calls int       // collectives of one rank each that were dropped
	ends  int       // sends and receives
	roots int       // calls of one rank each that have another root
}

// comms are the communicators that are left.
func (c *cutter) comms() (left []workload.Comm) {
	for _, comm := range c.ix.Comms {
		at := make([]int32, len(comm.Ranks))
		var ranks workload.Ranks
		for i, rank := range comm.Ranks {
			if at[i] = -1; rank < c.n {
				at[i] = int32(len(ranks))
				ranks = append(ranks, rank)
			}
		}
		c.at, c.size = append(c.at, at), append(c.size, len(ranks))
		if len(ranks) > 1 && len(c.ix.Workload.Head.Comms) > 0 {
			left = append(left, workload.Comm{Name: comm.Name, Ranks: ranks})
		}
	}
	return left
}

// op is what the ranks that are left do in place of an operation: one line for those that do the same.
func (c *cutter) op(o *workload.Op) (out []workload.Op) {
	lines := map[string]int{}
	for _, rank := range c.ix.RanksOf(o) {
		if rank >= c.n {
			continue
		}
		now, key := c.of(o, rank)
		i, ok := lines[key]
		if !ok {
			i = len(out)
			lines[key] = i
			out = append(out, now)
		}
		out[i].Ranks = append(out[i].Ranks, rank)
	}
	if len(out) == 1 && len(o.Ranks) == 0 {
		out[0].Ranks = nil // still all ranks that can call it, unless it is no call any more
		if out[0].Kind != o.Kind {
			out[0].Ranks = slices.DeleteFunc(slices.Clone(c.ix.RanksOf(o)), func(r int) bool { return r >= c.n })
		}
	}
	return out
}

// of is an operation as one rank makes it, without ranks, and a key that is the same for the same operation.
func (c *cutter) of(o *workload.Op, rank int) (workload.Op, string) {
	now := *o
	now.Ranks = nil
	var key []byte
	switch o.Kind {
	case workload.Coll, workload.Send, workload.Recv:
		if !c.call(&now, rank, &key) {
			now = nothing(o)
		}
	case workload.Group:
		now.Ops = nil
		for _, part := range o.Ops {
			if c.call(&part, rank, &key) {
				now.Ops = append(now.Ops, part)
			}
		}
		if len(now.Ops) == 0 {
			now = nothing(o)
		}
	}
	return now, string(key)
}

// nothing takes the place of a call that is dropped.
func nothing(o *workload.Op) workload.Op {
	return workload.Op{Kind: workload.Calc, Name: o.Name, ID: o.ID, Stream: o.Stream, After: o.After}
}

// call changes the root or the peer of a call, and adds what differs between ranks to the key. It returns false if the
// call is dropped.
func (c *cutter) call(o *workload.Op, rank int, key *[]byte) bool {
	place, _ := c.ix.Place(o.Comm, rank)
	at, size := c.at[place.Comm], c.size[place.Comm]
	isColl := o.Kind == workload.Coll
	if size < 2 {
		if isColl {
			c.calls++
		} else {
			c.ends++
		}
		*key = append(*key, 0)
		return false
	}
	*key = append(*key, 1)
	if isColl {
		if o.Func.Rooted() {
			if o.Root = int(at[o.Root]); o.Root < 0 {
				o.Root = 0
				c.roots++
			}
			*key = binary.AppendVarint(*key, int64(o.Root))
		}
		return true
	}
	peer := int(at[o.PeerOf(int(place.At), len(at))])
	if peer < 0 {
		c.ends++
		(*key)[len(*key)-1] = 0
		return false
	}
	if o.Relative && o.PeerOf(int(at[place.At]), size) != peer {
		o.Relative = false
	}
	if !o.Relative {
		o.Peer = peer
		*key = binary.AppendVarint(append(*key, 2), int64(peer))
	}
	return true
}

// note says what was done.
func (c *cutter) note(all int) string {
	text := fmt.Sprintf(
		"cut to the first %d of %d ranks: a rank calls with the counts that it had, which in a job of %d ranks might "+
			"be others (a shard would be larger)", c.n, all, c.n)
	var dropped []string
	if c.calls > 0 {
		dropped = append(dropped, units.Count(c.calls, "collective call")+
			" of ranks that are alone in their communicator now")
	}
	if c.ends > 0 {
		dropped = append(dropped, fmt.Sprintf("%d sends and receives whose other rank is cut", c.ends))
	}
	if len(dropped) > 0 {
		text += "; dropped: " + strings.Join(dropped, ", ")
	}
	if c.roots > 0 {
		text += fmt.Sprintf("; rank 0 of the communicator is the root of %s whose root is cut",
			units.Count(c.roots, "call"))
	}
	return text
}
