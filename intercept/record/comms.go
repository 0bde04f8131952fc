// SPDX-License-Identifier: Apache-2.0

package record

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ddlemu/ddlemu/shaper/workload"
)

// comm is a communicator as the tasks tell of it.
type comm struct {
	owners map[int]int // ranks of the job, by rank in it
	size   int
	local  bool // a kernel has reported it, which does not know NCCL's hash
}

// findComms finds the communicators and their ranks.
func (r *recorder) findComms() error {
	all := map[uint64]*comm{}
	var order []uint64
	for i := range r.trace.Tasks {
		x := &r.trace.Tasks[i]
		if x.Ranks <= 0 || x.Rank < 0 {
			return fmt.Errorf("NCCL did not say which communicator a %s of rank %d is of", cmp.Or(x.Func, "call"),
				x.Owner)
		}
		c := all[x.Comm]
		if c == nil {
			c = &comm{owners: map[int]int{}, size: x.Ranks, local: x.HasLocalComm()}
			all[x.Comm] = c
			order = append(order, x.Comm)
		}
		if before, known := c.owners[x.Rank]; known && before != x.Owner || c.size != x.Ranks {
			return fmt.Errorf("two communicators look alike: ranks %d and %d both are rank %d of a communicator of %d",
				before, x.Owner, x.Rank, x.Ranks)
		}
		c.owners[x.Rank] = x.Owner
	}
	var named []workload.Ranks // of NCCL's communicators
	for _, local := range []bool{false, true} {
		for _, id := range order {
			c := all[id]
			if c.local != local {
				continue
			}
			list, err := c.ranks(r.ranks)
			if err != nil {
				return err
			}
			if known := places(named, list); local && len(known) == 1 {
				r.comms[id] = name(known[0])
				continue
			}
			r.comms[id] = name(len(r.out.Head.Comms))
			r.out.Head.Comms = append(r.out.Head.Comms, workload.Comm{Name: r.comms[id], Ranks: list})
			if !local {
				named = append(named, list)
			}
		}
	}
	return nil
}

func name(number int) string { return fmt.Sprintf("c%d", number) }

// places are where a list of ranks is among lists. NCCL and a kernel may tell of calls of one communicator: it is the
// same one if no other has these ranks.
func places(lists []workload.Ranks, of workload.Ranks) (out []int) {
	for i, l := range lists {
		if slices.Equal(l, of) {
			out = append(out, i)
		}
	}
	return out
}

// ranks are the ranks of the job, by rank in the communicator. A rank that calls nothing is in no task: in a
// communicator of all ranks, whose order is then taken to be the job's order, it can only be one.
func (c *comm) ranks(job int) (workload.Ranks, error) {
	list := make(workload.Ranks, c.size)
	for rank := range list {
		owner, known := c.owners[rank]
		if !known {
			if owner = rank; c.size != job {
				return nil, fmt.Errorf(
					"rank %d of a communicator of %d calls nothing, so it is not known which rank of the job that "+
						"is", rank, c.size)
			}
		}
		list[rank] = owner
	}
	return list, nil
}
